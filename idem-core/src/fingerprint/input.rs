//! Fingerprints without HTTP: of a job's or a message's input.

use super::body::Body;
use super::hash::PartHash;
use super::scheme::Fingerprint;

/// No input has the fingerprint of a request.
const DOMAIN: &str = "idem input fingerprint 1";

impl Fingerprint {
    /// Of an input as it is: every byte counts.
    ///
    /// Under one operation use either this or [`of_json`](Self::of_json): they agree about an
    /// input that is not JSON, and differ about one that is.
    pub fn of_bytes(input: impl AsRef<[u8]>) -> Self {
        of(&Body::Raw(input.as_ref()))
    }

    /// Of a JSON input by its meaning: the order of members, white space and the spelling of
    /// strings and numbers do not count. An input without one clear meaning counts as it is.
    ///
    /// ```
    /// use idem_core::fingerprint::Fingerprint;
    ///
    /// let first = Fingerprint::of_json(r#"{"amount": 100, "to": "Zoë"}"#);
    /// assert_eq!(first, Fingerprint::of_json(r#"{"to":"Zo\u00eb","amount":1.00e2}"#));
    /// assert_ne!(first, Fingerprint::of_json(r#"{"amount": "100", "to": "Zoë"}"#));
    /// ```
    pub fn of_json(input: impl AsRef<[u8]>) -> Self {
        of(&Body::json(input.as_ref()))
    }
}

fn of(body: &Body<'_>) -> Fingerprint {
    let mut hash = PartHash::new(DOMAIN);
    body.hash_into(&mut hash);
    hash.finish()
}
