//! Idempotency keys, as their sender makes them.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

/// The request header that carries the key, unless a server has another name for it.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The key of one logical call: the same on each of its attempts. A UUID in 36 lower-case
/// characters, which every known server takes.
///
/// `Debug` does not show it; `Display` does.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Box<str>);

impl IdempotencyKey {
    /// A key that nobody has used: a random UUID (version 4, RFC 9562).
    ///
    /// Make it where the call is decided on, not where it is sent, and keep it with the decision: a
    /// process that crashes and makes a new one has no protection.
    ///
    /// # Panics
    /// When the operating system gives no randomness.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives randomness");
        Self::from_bytes(bytes, 4)
    }

    /// The key of an intent: the same parts give the same key, in every process, for ever. A UUID
    /// of version 8 over SHA-256.
    ///
    /// Name what makes the call the one that is meant, and nothing else: the kind of operation and
    /// the identity of what causes it, `["refund", "order-7", "line-2"]`. Time, attempt numbers and
    /// host names do not belong there. `namespace` keeps services apart that share an account
    /// downstream. Parts are delimited by their lengths: `["ab", "c"]` and `["a", "bc"]` differ.
    ///
    /// Who knows the parts can compute the key. Where they can be guessed and several tenants
    /// share the server's scope, put a secret into the namespace.
    ///
    /// ```
    /// use idem_retry::IdempotencyKey;
    ///
    /// let key = IdempotencyKey::from_intent("shop/production", ["refund", "order-7"]);
    /// assert_eq!(key, IdempotencyKey::from_intent("shop/production", ["refund", "order-7"]));
    /// assert_ne!(key, IdempotencyKey::from_intent("shop/production", ["refund", "order-8"]));
    /// ```
    pub fn from_intent<P: AsRef<[u8]>>(
        namespace: &str,
        parts: impl IntoIterator<Item = P>,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"idem-retry intent 1");
        let mut part = |bytes: &[u8]| {
            hash.update(u64::try_from(bytes.len()).expect("a length fits").to_be_bytes());
            hash.update(bytes);
        };
        part(namespace.as_bytes());
        parts.into_iter().for_each(|bytes| part(bytes.as_ref()));
        let digest: [u8; 32] = hash.finalize().into();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self::from_bytes(bytes, 8)
    }

    /// Sets the header, unless the caller has set it: its key, however it is spelt, is never
    /// replaced. Says whether it was set.
    pub fn set_unless_present(&self, headers: &mut HeaderMap, name: &HeaderName) -> bool {
        let is_missing = !headers.contains_key(name);
        if is_missing {
            headers.insert(name, self.header_value());
        }
        is_missing
    }

    /// The header's value; it is marked as sensitive.
    ///
    /// # Panics
    /// Never: hexadecimal digits and hyphens are a header value.
    pub fn header_value(&self) -> HeaderValue {
        let mut value = HeaderValue::from_str(&self.0).expect("a UUID is a header value");
        value.set_sensitive(true);
        value
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_bytes(mut bytes: [u8; 16], version: u8) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | (version << 4);
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let mut text = String::with_capacity(36);
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for digit in [byte >> 4, byte & 0x0f] {
                text.push(char::from_digit(u32::from(digit), 16).expect("four bits are a digit"));
            }
        }
        Self(text.into())
    }
}

impl AsRef<str> for IdempotencyKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_keys_are_version_4_and_differ() {
        let keys: std::collections::HashSet<_> =
            (0..1_000).map(|_| IdempotencyKey::random()).collect();
        assert_eq!(keys.len(), 1_000);
        for key in keys {
            let text = key.as_str().as_bytes();
            assert_eq!((text.len(), text[14]), (36, b'4'), "{key}");
            assert!(b"89ab".contains(&text[19]), "{key}");
        }
    }

    #[test]
    fn the_derivation_is_frozen() {
        // Stored by users in the other end's records: a change would send a second payment.
        let key = IdempotencyKey::from_intent("shop", ["refund", "order-7"]);
        assert_eq!(key.to_string(), "c35ccc02-e4f1-8c71-87d8-0fb861ecd258");
    }

    #[test]
    fn parts_are_delimited() {
        let key = |parts: &[&str]| IdempotencyKey::from_intent("n", parts);
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_ne!(key(&["a"]), key(&["a", ""]));
        assert_ne!(
            IdempotencyKey::from_intent("na", ["b"]),
            IdempotencyKey::from_intent("n", ["ab"])
        );
    }

    #[test]
    fn the_callers_own_key_stays() {
        let mut headers = HeaderMap::new();
        let key = IdempotencyKey::random();
        assert!(key.set_unless_present(&mut headers, &KEY_HEADER));
        assert!(headers[KEY_HEADER].is_sensitive());
        assert!(!IdempotencyKey::random().set_unless_present(&mut headers, &KEY_HEADER));
        assert_eq!(headers[KEY_HEADER], key.as_str());
    }

    #[test]
    fn debug_does_not_show_it() {
        assert_eq!(format!("{:?}", IdempotencyKey::random()), "IdempotencyKey(…)");
    }
}
