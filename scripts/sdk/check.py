"""The unmodified Python payment SDK against `idem serve`."""

import json
import os
import threading
import time
import urllib.request
import uuid

import stripe

URL = os.environ["IDEM_URL"]
NETWORK = os.environ["IDEM_NETWORK_URL"]
TOKEN = "sk_test_" + uuid.uuid4().hex


def client(retries):
    return stripe.StripeClient(TOKEN, base_addresses={"api": URL}, max_network_retries=retries)


def charge(key, amount=1999, retries=0, **more):
    params = {"amount": amount, "currency": "eur", "source": "tok_visa", **more}
    options = {"idempotency_key": key} if key else {}
    return client(retries).v1.charges.create(params, options)


def control(**change):
    body = json.dumps(change).encode()
    request = urllib.request.Request(
        NETWORK + "/control", body, {"content-type": "application/json"}
    )
    urllib.request.urlopen(request).read()


def held():
    with urllib.request.urlopen(NETWORK + "/control") as answer:
        return json.load(answer)["held"]


def expect(what, holds, seen=""):
    print(f"{'ok    ' if holds else 'FAILED'}  {what}{'' if holds else f' (seen: {seen!r})'}")
    if not holds:
        raise SystemExit(1)


def refused(call):
    try:
        call()
    except stripe.StripeError as error:
        return error
    return None


print("stripe-python", stripe.VERSION)

first = charge("py-1", description="Thé", metadata={"order": "6735"})
again = charge("py-1", description="Thé", metadata={"order": "6735"})
expect("a charge is an object of the SDK", isinstance(first, stripe.Charge), type(first))
expect("its fields are there", (first.amount, first.currency) == (1999, "eur"), first)
expect("text that is not ASCII comes through", first.description == "Thé", first.description)
expect("the same key again is the same object", again.id == first.id, again.id)
marked = again.last_response.headers.get("Idempotent-Replayed")
expect("the replay is marked", marked == "true", marked)

own = charge(None)
expect("a key that the SDK makes itself is accepted", own.id != first.id, own.id)

error = refused(lambda: charge("py-1", amount=2999))
expect("another amount under the key is an error", error is not None)
expect("it is a 422 of the SDK's API errors", error.http_status == 422, error.http_status)
expect("it says which", error.error.code == "idempotency_key_reused", error.error)

error = refused(lambda: charge("py-2", amount=0))
expect("a wrong amount is the SDK's InvalidRequestError",
       isinstance(error, stripe.InvalidRequestError), type(error))
expect("it names the parameter", error.param == "amount", error.param)
expect("the corrected charge works under the same key", charge("py-2").amount == 1999)

error = refused(lambda: stripe.StripeClient("sk_test_x y", base_addresses={"api": URL})
                .v1.charges.retrieve("ch_none"))
expect("what is not there is an error, not an object", error.http_status == 404, error)

control(refuse=1)
error = refused(lambda: charge("py-3"))
expect("a decline is the SDK's CardError", isinstance(error, stripe.CardError), type(error))
expect("a decline is replayed", isinstance(refused(lambda: charge("py-3")), stripe.CardError))

control(hold=True)
answers = []
holder = threading.Thread(target=lambda: answers.append(charge("py-4")))
holder.start()
while held() == 0:
    time.sleep(0.01)
error = refused(lambda: charge("py-4"))
expect("in flight without retries it is a 409", error.http_status == 409, error)
retrying = threading.Thread(target=lambda: answers.append(charge("py-4", retries=8)))
retrying.start()
time.sleep(1)
control(hold=False)
holder.join()
retrying.join()
expect("in flight with the SDK's own retries it becomes the answer",
       len(answers) == 2 and answers[0].id == answers[1].id, answers)

control(drop_answers=1)
unknown = charge("py-5", retries=8)
expect("an unknown outcome is retried by the SDK until it is known", unknown.paid, unknown)

listed = client(0).v1.charges.list({"limit": 3})
expect("charges can be listed", [it.object for it in listed.data] == ["charge"] * 3, listed)
everything = [it.id for it in client(0).v1.charges.list({"limit": 2}).auto_paging_iter()]
expect("and paged through", len(everything) == len(set(everything)) == 5, everything)
expect("and retrieved", client(0).v1.charges.retrieve(first.id).amount == 1999)
