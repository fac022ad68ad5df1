//! What a client is answered. It depends on the charge alone, never on the attempt that made the
//! reply, so that whoever resumes an execution answers the same bytes.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use idem_core::reply::Reply;
use serde::Serialize;

use super::new_charge::NewCharge;
use super::problem::Problem;
use crate::network::Charge;

/// How long the cookie that remembers the last charge lives.
const COOKIE_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A charge as the API shows it, in the form that payment SDKs know.
#[derive(Serialize)]
pub(super) struct ChargeView<'a> {
    id: &'a str,
    object: &'static str,
    amount: u64,
    currency: &'a str,
    description: Option<&'a str>,
    status: &'static str,
    paid: bool,
    captured: bool,
    livemode: bool,
    created: u64,
    calculated_statement_descriptor: &'static str,
}

impl<'a> ChargeView<'a> {
    fn new(
        id: &'a str,
        created: u64,
        amount: u64,
        currency: &'a str,
        description: Option<&'a str>,
    ) -> Self {
        Self {
            id,
            object: "charge",
            amount,
            currency,
            description,
            status: "succeeded",
            paid: true,
            captured: true,
            livemode: false,
            created,
            calculated_statement_descriptor: "CAFÉ IDEM ☕",
        }
    }
}

impl<'a> From<&'a Charge> for ChargeView<'a> {
    fn from(charge: &'a Charge) -> Self {
        let request = &charge.request;
        let description = request.description.as_deref();
        Self::new(&charge.id, charge.created, request.amount, &request.currency, description)
    }
}

/// The answer to a charge that was made: 201, with headers that are easily lost on a replay.
pub(super) fn charged(
    id: &str,
    created: u64,
    request: &NewCharge,
) -> Result<Reply, serde_json::Error> {
    let view = ChargeView::new(
        id,
        created,
        request.amount,
        request.currency,
        request.description.as_deref(),
    );
    let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(created) + COOKIE_LIFE;
    let expires = httpdate::fmt_http_date(expires);
    let reply = Reply::json(&view)?
        .with_status(StatusCode::CREATED.as_u16())
        .expect("201 is a status")
        .with_header("location", format!("/v1/charges/{id}"))
        .with_header("set-cookie", format!("last_charge={id}; Expires={expires}; Path=/v1"))
        .with_header("set-cookie", "receipts=on; Path=/v1; HttpOnly; SameSite=Lax")
        // Latin-1, as old clients and servers write it: no UTF-8, and a legal header value.
        .with_header("x-merchant", &b"Caf\xe9 idem"[..]);
    Ok(reply)
}

/// The answer to a charge that was declined for good: 402. It is the definite outcome of this
/// key, and is replayed like any other.
pub(super) fn declined(id: &str) -> Reply {
    Problem::new(StatusCode::PAYMENT_REQUIRED, "card_declined", "The card was declined.")
        .with("decline", id)
        .to_reply()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_charge_is_answered_with_every_header_that_is_easily_lost() {
        let request = NewCharge { amount: 1999, currency: "eur", description: Some("Thé".into()) };
        let reply = charged("ch_1", 1_767_225_600, &request).unwrap();
        assert_eq!(reply.status(), 201);
        let headers: Vec<_> =
            reply.headers().iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(
            headers,
            [
                (&b"content-type"[..], &b"application/json"[..]),
                (b"location", b"/v1/charges/ch_1"),
                (
                    b"set-cookie",
                    b"last_charge=ch_1; Expires=Sat, 31 Jan 2026 00:00:00 GMT; Path=/v1"
                ),
                (b"set-cookie", b"receipts=on; Path=/v1; HttpOnly; SameSite=Lax"),
                (b"x-merchant", b"Caf\xe9 idem"),
            ]
        );
        assert!(!reply.body().unwrap().is_ascii());
        let body: Value = reply.decode_json().unwrap();
        assert_eq!(body["id"], "ch_1");
        assert_eq!(body["amount"], 1999);
        assert_eq!(body["description"], "Thé");
        assert_eq!(charged("ch_1", 1_767_225_600, &request).unwrap(), reply);
    }

    #[test]
    fn a_decline_is_402_with_the_error_that_sdks_read() {
        let reply = declined("dc_1");
        assert_eq!(reply.status(), 402);
        let body: Value = reply.decode_json().unwrap();
        assert_eq!(body["error"]["type"], "card_error");
        assert_eq!(
            (&body["error"]["code"], &body["error"]["decline"]),
            (&json!("card_declined"), &json!("dc_1"))
        );
    }
}
