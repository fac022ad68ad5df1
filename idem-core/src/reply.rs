//! What an operation answered, kept so that a retry gets the same answer byte for byte.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

mod stored;

pub use self::stored::{StoredReply, Tombstone};

/// Header or trailer fields in the order they were given: names as given, values any bytes.
///
/// Two fields with one name are two entries; nothing joins, splits, sorts or folds them.
pub type Fields = Vec<(Bytes, Bytes)>;

/// The least status that a reply can have.
pub const MIN_STATUS: u16 = 100;
/// The greatest status that a reply can have (RFC 9110, section 15).
pub const MAX_STATUS: u16 = 599;

/// A status outside 100 to 599.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a status from {MIN_STATUS} to {MAX_STATUS}")]
pub struct InvalidStatus(pub u16);

/// An answer: a status, ordered fields, perhaps a body, and trailers.
///
/// An operation without HTTP uses the body alone: [`Reply::json`], [`Reply::from_bytes`] and the
/// `From` impls set the status 200, and [`Reply::empty`] is the answer of a handler that returns
/// nothing.
///
/// An absent body and an empty one differ, and both come back as they were stored.
///
/// `Debug` shows the status and sizes only, since a reply can hold secrets (R24).
///
/// ```
/// use idem_core::reply::Reply;
///
/// let reply = Reply::new(201)?
///     .with_header("location", "/v1/charges/7")
///     .with_header("set-cookie", "a=1")
///     .with_header("set-cookie", "b=2")
///     .with_body("{}");
/// assert_eq!(reply.status(), 201);
/// assert_eq!(reply.headers().len(), 3);
/// assert_eq!(reply.body().unwrap(), "{}");
/// # Ok::<(), idem_core::reply::InvalidStatus>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    status: u16,
    headers: Fields,
    body: Option<Bytes>,
    trailers: Fields,
}

impl Reply {
    /// A reply with this status, no fields and no body.
    ///
    /// # Errors
    /// [`InvalidStatus`] when the status is not from 100 to 599.
    pub fn new(status: u16) -> Result<Self, InvalidStatus> {
        check_status(status)?;
        Ok(Self { status, headers: Fields::new(), body: None, trailers: Fields::new() })
    }

    /// The answer of a handler that returns nothing: status 204, no fields, no body. It is stored
    /// and replayed as just that.
    pub fn empty() -> Self {
        Self { status: 204, headers: Fields::new(), body: None, trailers: Fields::new() }
    }

    /// Status 200 and this body, with no fields.
    pub fn from_bytes(body: impl Into<Bytes>) -> Self {
        Self {
            status: 200,
            headers: Fields::new(),
            body: Some(body.into()),
            trailers: Fields::new(),
        }
    }

    /// Status 200, `content-type: application/json`, and `value` as JSON.
    ///
    /// # Errors
    /// The error of `serde_json` when `value` has no JSON form.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let body = serde_json::to_vec(value)?;
        Ok(Self::from_bytes(body).with_header("content-type", "application/json"))
    }

    /// The same reply with another status.
    ///
    /// # Errors
    /// [`InvalidStatus`] when the status is not from 100 to 599.
    pub fn with_status(mut self, status: u16) -> Result<Self, InvalidStatus> {
        check_status(status)?;
        self.status = status;
        Ok(self)
    }

    /// Adds a header field after those that are there.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds these header fields, in their order, after those that are there.
    #[must_use]
    pub fn with_headers(mut self, fields: impl IntoIterator<Item = (Bytes, Bytes)>) -> Self {
        self.headers.extend(fields);
        self
    }

    /// Sets the body. An empty body is a body; a reply without one never calls this.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Adds a trailer field after those that are there.
    #[must_use]
    pub fn with_trailer(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.trailers.push((name.into(), value.into()));
        self
    }

    /// Adds these trailer fields, in their order, after those that are there.
    #[must_use]
    pub fn with_trailers(mut self, fields: impl IntoIterator<Item = (Bytes, Bytes)>) -> Self {
        self.trailers.extend(fields);
        self
    }

    /// The status, from 100 to 599.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The header fields in their order.
    pub fn headers(&self) -> &[(Bytes, Bytes)] {
        &self.headers
    }

    /// The body, or `None` when there is none.
    pub fn body(&self) -> Option<&Bytes> {
        self.body.as_ref()
    }

    /// The trailer fields in their order.
    pub fn trailers(&self) -> &[(Bytes, Bytes)] {
        &self.trailers
    }

    /// Takes the reply apart into status, headers, body and trailers.
    pub fn into_parts(self) -> (u16, Fields, Option<Bytes>, Fields) {
        (self.status, self.headers, self.body, self.trailers)
    }

    /// The body as JSON. An absent body reads as `null`, so that `()` and `Option<T>` come back
    /// from [`Reply::empty`].
    ///
    /// # Errors
    /// The error of `serde_json` when the body is not JSON of that shape.
    pub fn decode_json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.body.as_deref().unwrap_or(b"null"))
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.as_ref().map(Bytes::len))
            .field("trailers", &self.trailers.len())
            .finish()
    }
}

impl From<()> for Reply {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

impl From<Bytes> for Reply {
    fn from(body: Bytes) -> Self {
        Self::from_bytes(body)
    }
}

impl From<Vec<u8>> for Reply {
    fn from(body: Vec<u8>) -> Self {
        Self::from_bytes(body)
    }
}

impl From<String> for Reply {
    fn from(body: String) -> Self {
        Self::from_bytes(body)
    }
}

impl From<&'static str> for Reply {
    fn from(body: &'static str) -> Self {
        Self::from_bytes(body)
    }
}

fn check_status(status: u16) -> Result<(), InvalidStatus> {
    match status {
        MIN_STATUS..=MAX_STATUS => Ok(()),
        other => Err(InvalidStatus(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_from_100_to_599() {
        for status in 0..=u16::MAX {
            let allowed = (100..=599).contains(&status);
            assert_eq!(Reply::new(status).is_ok(), allowed, "{status}");
            assert_eq!(Reply::empty().with_status(status).is_ok(), allowed, "{status}");
        }
        assert_eq!(Reply::new(600).unwrap_err().to_string(), "600 is not a status from 100 to 599");
    }

    #[test]
    fn nothing_is_a_reply_and_reads_back_as_nothing() {
        let reply = Reply::from(());
        assert_eq!(reply, Reply::empty());
        assert_eq!((reply.status(), reply.body()), (204, None));
        reply.decode_json::<()>().unwrap();
        assert_eq!(reply.decode_json::<Option<u8>>().unwrap(), None);
        assert!(reply.decode_json::<u8>().is_err());
        assert_ne!(reply.clone().with_body(""), reply);
    }

    #[test]
    fn json_comes_back_as_the_value() {
        let reply = Reply::json(&vec![1_u64, u64::MAX]).unwrap();
        assert_eq!(reply.body().unwrap(), "[1,18446744073709551615]");
        assert_eq!(reply.headers(), [("content-type".into(), "application/json".into())]);
        assert_eq!(reply.decode_json::<Vec<u64>>().unwrap(), [1, u64::MAX]);
        assert!(Reply::from(vec![0xff]).decode_json::<u8>().is_err());
    }

    #[test]
    fn fields_keep_order_case_and_repeats() {
        let reply = Reply::empty()
            .with_header("Set-Cookie", "a=1; expires=Thu, 01 Jan 2026 00:00:00 GMT")
            .with_header("ETag", &b"\"\xe9\""[..])
            .with_header("set-cookie", "b=2");
        let names: Vec<_> = reply.headers().iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, [&b"Set-Cookie"[..], b"ETag", b"set-cookie"]);
    }

    #[test]
    fn debug_shows_no_content() {
        let reply = Reply::from("sk_live_1").with_header("x-secret", "hunter2");
        let shown = format!("{reply:?}");
        assert!(!shown.contains("sk_live") && !shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("body_bytes: Some(9)"), "{shown}");
    }
}
