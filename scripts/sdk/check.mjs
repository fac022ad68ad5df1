// The unmodified Node payment SDK against `idem serve`.

import { setTimeout as sleep } from "node:timers/promises";
import Stripe from "stripe";

const url = new URL(process.env.IDEM_URL);
const network = process.env.IDEM_NETWORK_URL;
const token = `sk_test_${crypto.randomUUID().replaceAll("-", "")}`;

function client(maxNetworkRetries) {
  return new Stripe(token, {
    host: url.hostname,
    port: url.port,
    protocol: "http",
    maxNetworkRetries,
    telemetry: false,
  });
}

function charge(key, amount = 1999, retries = 0, more = {}) {
  const params = { amount, currency: "eur", source: "tok_visa", ...more };
  const options = key === undefined ? {} : { idempotencyKey: key };
  return client(retries).charges.create(params, options);
}

async function control(change) {
  const headers = { "content-type": "application/json" };
  await fetch(`${network}/control`, { method: "POST", headers, body: JSON.stringify(change) });
}

async function held() {
  return (await (await fetch(`${network}/control`)).json()).held;
}

function expect(what, holds, seen) {
  console.log(`${holds ? "ok    " : "FAILED"}  ${what}${holds ? "" : ` (seen: ${seen})`}`);
  if (!holds) process.exit(1);
}

async function refused(call) {
  try {
    return { resolved: await call };
  } catch (error) {
    return error;
  }
}

console.log("stripe-node", Stripe.PACKAGE_VERSION);

const more = { description: "Thé", metadata: { order: "6735" } };
const first = await charge("node-1", 1999, 0, more);
const again = await charge("node-1", 1999, 0, more);
expect("a charge is an object", first.object === "charge" && first.amount === 1999, first);
expect("text that is not ASCII comes through", first.description === "Thé", first.description);
expect("the same key again is the same object", again.id === first.id, again.id);
const marked = again.lastResponse.headers["idempotent-replayed"];
expect("the replay is marked", marked === "true", marked);

const own = await charge(undefined, 1999, 2);
expect("a key that the SDK makes itself is accepted", own.id !== first.id, own.id);

let error = await refused(charge("node-1", 2999, 0, more));
expect("another amount under the key is an error", error instanceof Error, error.resolved);
expect("it is a 422", error.statusCode === 422, error.statusCode);
expect("it says which", error.code === "idempotency_key_reused", error.code);

error = await refused(charge("node-2", 0));
const invalid = error instanceof Stripe.errors.StripeInvalidRequestError;
expect("a wrong amount is the SDK's StripeInvalidRequestError", invalid, error.type);
expect("it names the parameter", error.param === "amount", error.param);
expect("the corrected charge works under the same key", (await charge("node-2")).amount === 1999);

await control({ refuse: 1 });
error = await refused(charge("node-3"));
const declined = error instanceof Stripe.errors.StripeCardError;
expect("a decline is the SDK's StripeCardError", declined, error.type);

await control({ hold: true });
const holder = charge("node-4");
while ((await held()) === 0) await sleep(10);
error = await refused(charge("node-4"));
expect("in flight without retries it is a 409", error.statusCode === 409, error.statusCode);
const retrying = charge("node-4", 1999, 8);
await sleep(1000);
await control({ hold: false });
const answers = await Promise.all([holder, retrying]);
const same = answers[0].id === answers[1].id;
expect("in flight with the SDK's own retries it becomes the answer", same, answers);

await control({ drop_answers: 1 });
const unknown = await charge("node-5", 1999, 8);
expect("an unknown outcome is retried by the SDK until it is known", unknown.paid, unknown);

const listed = await client(0).charges.list({ limit: 3 });
expect("charges can be listed", listed.data.length === 3, listed);
const everything = [];
for await (const it of client(0).charges.list({ limit: 2 })) everything.push(it.id);
expect("and paged through", new Set(everything).size === 5 && everything.length === 5, everything);
expect("and retrieved", (await client(0).charges.retrieve(first.id)).amount === 1999);
