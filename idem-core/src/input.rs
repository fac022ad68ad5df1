//! What is kept of a request, so that work can be resumed without the client.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::downstream::Derivation;
use crate::reply::Fields;

/// The input of an operation: a body, and for HTTP the method, the target and the header fields
/// that the handler reads.
///
/// It stands in the record as the first claim gave it; a takeover feeds the handler with it, not
/// with what the later caller sent.
///
/// `Debug` shows sizes only (R24).
#[derive(Clone, PartialEq, Eq)]
pub struct Input {
    method: Option<Bytes>,
    target: Option<Bytes>,
    headers: Fields,
    body: Bytes,
}

impl Input {
    /// An input with this body and nothing else.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { method: None, target: None, headers: Fields::new(), body: body.into() }
    }

    /// An input whose body is `value` as JSON.
    ///
    /// # Errors
    /// The error of `serde_json` when `value` has no JSON form.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::new(serde_json::to_vec(value)?))
    }

    /// Sets the request's method.
    #[must_use]
    pub fn with_method(mut self, method: impl Into<Bytes>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Sets the request's target (path and query) as the client sent it.
    #[must_use]
    pub fn with_target(mut self, target: impl Into<Bytes>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// Adds a header field after those that are there.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The request's method, where there was one.
    pub fn method(&self) -> Option<&Bytes> {
        self.method.as_ref()
    }

    /// The request's target (path and query), where there was one.
    pub fn target(&self) -> Option<&Bytes> {
        self.target.as_ref()
    }

    /// The header fields in their order.
    pub fn headers(&self) -> &[(Bytes, Bytes)] {
        &self.headers
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// The error of `serde_json` when the body is not JSON of that shape.
    pub fn decode_json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    pub(crate) fn from_parts(
        method: Option<Bytes>,
        target: Option<Bytes>,
        headers: Fields,
        body: Bytes,
    ) -> Self {
        Self { method, target, headers, body }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("method_bytes", &self.method.as_ref().map(Bytes::len))
            .field("target_bytes", &self.target.as_ref().map(Bytes::len))
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// What the record's input column holds: how downstream keys of this record are derived, and the
/// input where the operation keeps one.
///
/// The derivation is always stored: a changed setting must not change the keys of work that is
/// under way (R20).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredInput {
    /// How downstream keys of this record are derived.
    pub derivation: Derivation,
    /// The input, where the operation keeps one.
    pub input: Option<Input>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_comes_back_as_the_value() {
        let input = Input::json(&("a", 1)).unwrap();
        assert_eq!(input.decode_json::<(String, u8)>().unwrap(), ("a".into(), 1));
        assert!(Input::new("").decode_json::<u8>().is_err());
    }

    #[test]
    fn debug_shows_no_content() {
        let input = Input::new("card=4242")
            .with_method("POST")
            .with_target("/v1/charges?token=hunter2")
            .with_header("authorization", "hunter2");
        let shown = format!("{input:?}");
        assert!(!shown.contains("4242") && !shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("body_bytes: 9"), "{shown}");
    }
}
