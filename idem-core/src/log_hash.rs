//! A short keyed hash that stands for a (scope, key) in logs, spans and problem reports (R24).

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::key::{Key, Scope};
use crate::seal::{SecretBytes, SecretError};

/// The least length of a hasher's secret, in bytes.
pub const MIN_HASH_SECRET_BYTES: usize = 16;

const DOMAIN: &[u8] = b"idem log hash 1";

/// Turns a scope and a key into a [`KeyHash`]: HMAC-SHA-256, cut to 64 bits.
///
/// Without the secret nobody can find out which key a hash stands for by trying keys. It is for
/// logs only: 64 bits name a record well enough for a person, and are never used to find one.
///
/// `Debug` shows nothing of the secret.
///
/// ```
/// use idem_core::key::{Key, Scope};
/// use idem_core::log_hash::KeyHasher;
///
/// let hasher = KeyHasher::new("read from the service's settings")?;
/// let (scope, key) = (Scope::new("acct_1")?, Key::new("order-7")?);
/// assert_eq!(hasher.hash(&scope, &key).to_string(), "2ff92493d03c0dbb");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct KeyHasher(SecretBytes);

impl KeyHasher {
    /// A hasher with this secret, of at least [`MIN_HASH_SECRET_BYTES`] bytes. Processes that
    /// share it write the same hash for the same key.
    ///
    /// # Errors
    /// [`SecretError::TooShort`].
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self, SecretError> {
        Ok(Self(SecretBytes::new(secret.as_ref(), MIN_HASH_SECRET_BYTES)?))
    }

    /// A hasher with a secret of its own, drawn now.
    ///
    /// What this gives up: the hash of a key differs from process to process and after every
    /// restart, so one key cannot be followed through the logs of two of them.
    ///
    /// # Panics
    /// When the operating system gives no randomness.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the operating system gives randomness");
        Self(SecretBytes::new(&secret, MIN_HASH_SECRET_BYTES).expect("32 bytes are enough"))
    }

    /// The hash that stands for this key of this scope.
    pub fn hash(&self, scope: &Scope, key: &Key) -> KeyHash {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes())
            .expect("HMAC takes a key of any length");
        for part in [DOMAIN, scope.as_bytes(), key.as_bytes()] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        let mut short = [0; 8];
        short.copy_from_slice(&digest[..8]);
        KeyHash(u64::from_be_bytes(short))
    }
}

/// What stands for a (scope, key) in logs: 16 lower-case hexadecimal characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(hasher: &KeyHasher, scope: &str, key: &str) -> String {
        hasher.hash(&Scope::new(scope).unwrap(), &Key::new(key).unwrap()).to_string()
    }

    #[test]
    fn the_boundary_between_scope_and_key_counts() {
        let hasher = KeyHasher::new([1; 16]).unwrap();
        assert_ne!(hash(&hasher, "ab", "c"), hash(&hasher, "a", "bc"));
        assert_ne!(hash(&hasher, "a", "k"), hash(&hasher, "b", "k"));
        assert_eq!(hash(&hasher, "a", "k"), hash(&hasher.clone(), "a", "k"));
    }

    #[test]
    fn the_secret_counts_and_is_long_enough() {
        let (one, two) = (KeyHasher::new([1; 16]).unwrap(), KeyHasher::new([2; 16]).unwrap());
        assert_ne!(hash(&one, "a", "k"), hash(&two, "a", "k"));
        assert_ne!(hash(&KeyHasher::random(), "a", "k"), hash(&KeyHasher::random(), "a", "k"));
        let error = KeyHasher::new([1; 15]).unwrap_err();
        assert_eq!(error, SecretError::TooShort { bytes: 15, least: 16 });
    }

    #[test]
    fn it_is_sixteen_lower_case_hex_characters() {
        assert_eq!(KeyHash(0xab).to_string(), "00000000000000ab");
        let hasher = KeyHasher::random();
        for key in 0..200 {
            let text = hash(&hasher, "a", &key.to_string());
            assert_eq!(text.len(), 16);
            assert!(text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{text}");
        }
    }

    #[test]
    fn debug_hides_the_secret() {
        assert_eq!(format!("{:?}", KeyHasher::random()), "KeyHasher(SecretBytes(…))");
    }
}
