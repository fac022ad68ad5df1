//! SHA-256 over length-prefixed parts, so that no two ways of cutting the same bytes agree.

use sha2::{Digest, Sha256};

use super::scheme::{Fingerprint, Scheme};

/// Hashes parts under a domain, which is the first of them.
pub(super) struct PartHash(Sha256);

impl PartHash {
    pub(super) fn new(domain: &str) -> Self {
        let mut hash = Self(Sha256::new());
        hash.part(domain.as_bytes());
        hash
    }

    /// A part: its length as eight bytes, big-endian, then its bytes.
    pub(super) fn part(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    /// A part that may be absent: one byte, 0 or 1, then the part if there is one.
    pub(super) fn optional(&mut self, bytes: Option<&[u8]>) {
        self.tag(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.part(bytes);
        }
    }

    /// How many parts follow, as eight bytes, big-endian.
    pub(super) fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }

    /// One byte that tells what follows.
    pub(super) fn tag(&mut self, tag: u8) {
        self.0.update([tag]);
    }

    pub(super) fn finish(self) -> Fingerprint {
        Fingerprint::from_parts(Scheme::V1, self.0.finalize().into())
    }
}
