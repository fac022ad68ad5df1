//! What is kept of a reply: all of it, or that it was too large to keep.

use std::fmt;

use bytes::Bytes;

use super::{Fields, InvalidStatus, Reply, check_status};

/// What stands in a completed record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredReply {
    /// The whole reply.
    Full(Reply),
    /// A reply was delivered and was over the size limit: it cannot be replayed, and it is never
    /// run again (R17).
    Tombstone(Tombstone),
}

impl StoredReply {
    /// The status that the first caller got.
    pub fn status(&self) -> u16 {
        match self {
            Self::Full(reply) => reply.status(),
            Self::Tombstone(tombstone) => tombstone.status(),
        }
    }

    /// The whole reply, or `None` for a tombstone.
    pub fn full(&self) -> Option<&Reply> {
        match self {
            Self::Full(reply) => Some(reply),
            Self::Tombstone(_) => None,
        }
    }
}

impl From<Reply> for StoredReply {
    fn from(reply: Reply) -> Self {
        Self::Full(reply)
    }
}

impl From<Tombstone> for StoredReply {
    fn from(tombstone: Tombstone) -> Self {
        Self::Tombstone(tombstone)
    }
}

/// What is kept of a reply that was too large to keep (R17).
///
/// `Debug` shows the status and sizes only (R24).
#[derive(Clone, PartialEq, Eq)]
pub struct Tombstone {
    status: u16,
    headers: Fields,
    body_bytes_seen: Option<u64>,
}

impl Tombstone {
    /// The tombstone of a reply with this status, with no fields and an unknown size.
    ///
    /// # Errors
    /// [`InvalidStatus`] when the status is not from 100 to 599.
    pub fn new(status: u16) -> Result<Self, InvalidStatus> {
        check_status(status)?;
        Ok(Self { status, headers: Fields::new(), body_bytes_seen: None })
    }

    /// The tombstone of `reply`: its status and the size of its body, and none of its fields.
    pub fn of(reply: &Reply) -> Self {
        let body_bytes_seen = reply.body.as_ref().map(|body| body.len() as u64);
        Self { status: reply.status, headers: Fields::new(), body_bytes_seen }
    }

    /// Keeps a header field, after those that are there.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Says how many bytes of the body had passed when it was given up.
    #[must_use]
    pub fn with_body_bytes_seen(mut self, bytes: u64) -> Self {
        self.body_bytes_seen = Some(bytes);
        self
    }

    /// The status that was delivered.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The header fields that were kept, in their order.
    pub fn headers(&self) -> &[(Bytes, Bytes)] {
        &self.headers
    }

    /// How many bytes of the body had passed when it was given up, where that is known.
    pub fn body_bytes_seen(&self) -> Option<u64> {
        self.body_bytes_seen
    }
}

impl fmt::Debug for Tombstone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tombstone")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes_seen", &self.body_bytes_seen)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_has_a_status_from_100_to_599() {
        for status in 0..=u16::MAX {
            let allowed = (100..=599).contains(&status);
            assert_eq!(Tombstone::new(status).is_ok(), allowed, "{status}");
        }
    }

    #[test]
    fn the_tombstone_of_a_reply_has_its_status_and_size_and_no_fields() {
        let reply = Reply::from("12345").with_header("a", "b").with_status(503).unwrap();
        let tombstone = Tombstone::of(&reply);
        assert_eq!((tombstone.status(), tombstone.body_bytes_seen()), (503, Some(5)));
        assert!(tombstone.headers().is_empty());
        assert_eq!(Tombstone::of(&Reply::empty()).body_bytes_seen(), None);

        let stored = StoredReply::from(tombstone);
        assert_eq!((stored.status(), stored.full()), (503, None));
        assert_eq!(StoredReply::from(reply.clone()).full(), Some(&reply));
    }

    #[test]
    fn debug_shows_no_content() {
        let reply = Reply::from("sk_live_1").with_header("x-secret", "hunter2");
        let tombstone = Tombstone::of(&reply).with_header("x-secret", "hunter2");
        let shown = format!("{:?} {:?}", StoredReply::from(tombstone), StoredReply::from(reply));
        assert!(!shown.contains("sk_live") && !shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("body_bytes_seen: Some(9)"), "{shown}");
    }
}
