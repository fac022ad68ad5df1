//! The text of a downstream key.

use std::fmt;

/// A key to pass downstream: a UUID of version 8 (RFC 9562, section 5.8) as 36 lower-case
/// characters, the one form that every common downstream takes.
///
/// `Debug` does not show it (R24); `Display` does.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DownstreamKey(Box<str>);

impl DownstreamKey {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 16 bytes, with the version and the variant set in their six bits.
    pub(super) fn from_digest(digest: &[u8; 32]) -> Self {
        let mut high = [0; 8];
        let mut low = [0; 8];
        high.copy_from_slice(&digest[..8]);
        low.copy_from_slice(&digest[8..16]);
        let high = u64::from_be_bytes(high) & !0xf000 | 0x8000;
        let low = u64::from_be_bytes(low) & !(0b11 << 62) | (0b10 << 62);
        let text = format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff,
        );
        Self(text.into())
    }
}

impl AsRef<str> for DownstreamKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DownstreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DownstreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DownstreamKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_16_bytes_are_shown_but_for_version_and_variant() {
        let key = DownstreamKey::from_digest(&[0; 32]);
        assert_eq!(key.as_str(), "00000000-0000-8000-8000-000000000000");
        let key = DownstreamKey::from_digest(&[0xff; 32]);
        assert_eq!(key.to_string(), "ffffffff-ffff-8fff-bfff-ffffffffffff");
        let mut digest = [0; 32];
        digest[..16]
            .copy_from_slice(b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef");
        let key = DownstreamKey::from_digest(&digest);
        assert_eq!(key.as_ref(), "01234567-89ab-8def-8123-456789abcdef");
    }

    #[test]
    fn debug_does_not_show_it() {
        assert_eq!(format!("{:?}", DownstreamKey::from_digest(&[7; 32])), "DownstreamKey(…)");
    }
}
