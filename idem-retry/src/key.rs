//! Idempotency keys, as their sender makes them and reads them back.

mod text;

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

pub use text::{KeyError, MAX_KEY_BYTES};

/// The request header that carries the key, unless a server has another name for it.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The key of one logical call: the same on each of its attempts, and after a restart.
///
/// The ones made here are UUIDs in 36 lower-case characters, which every known server takes. Others,
/// and those that were kept, come in by [`new`](Self::new) or `parse`.
///
/// `Debug` does not show it; `Display` does, and what it shows is what `new` takes.
///
/// ```
/// use idem_retry::IdempotencyKey;
///
/// // Decided: order 7 is paid. The key is stored with that decision, in the same transaction.
/// let key = IdempotencyKey::random();
/// let stored = key.to_string();
///
/// // The process dies before it knows what came of the call. The next one finds the order with its
/// // key and no outcome, and calls again under the same key.
/// let again: IdempotencyKey = stored.parse()?;
/// assert_eq!(again, key);
/// # Ok::<_, idem_retry::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Box<str>);

impl IdempotencyKey {
    /// A key that nobody has used: a random UUID (version 4, RFC 9562).
    ///
    /// Make it where the call is decided on, not where it is sent, and keep it with the decision: a
    /// process that crashes and makes a new one has no protection. [`new`](Self::new) reads it back.
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

    /// The key with this text: what was kept of an earlier one, or a name that the caller has for
    /// the call, 1 to [`MAX_KEY_BYTES`] bytes of printable ASCII, the space included. The same rule
    /// as that of idem's servers; others may take less. Nothing is trimmed or folded.
    ///
    /// ```
    /// use idem_retry::{IdempotencyKey, KeyError};
    ///
    /// assert_eq!(IdempotencyKey::new("order-7")?.as_str(), "order-7");
    /// // A line as a file has it, and the field value instead of the key.
    /// assert_eq!(IdempotencyKey::new("order-7\n"), Err(KeyError::NotPrintable { at: 7 }));
    /// assert_eq!(IdempotencyKey::new("\"order-7\""), Err(KeyError::InQuotes));
    /// # Ok::<_, KeyError>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyError`] when it is not such a text.
    pub fn new(text: impl AsRef<str>) -> Result<Self, KeyError> {
        let text = text.as_ref();
        text::check(text.as_bytes())?;
        Ok(Self(text.into()))
    }

    /// The key in the value of a header, in both forms: bare (`order-7`) and in quotes
    /// (`"order-7"`). Both are the same key.
    ///
    /// # Errors
    /// [`KeyError`] when the value is not one key.
    pub fn from_header(value: &HeaderValue) -> Result<Self, KeyError> {
        Self::new(text::from_field(value.as_bytes())?)
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

    /// The header's value; it is marked as sensitive. A key with a space, a comma, a semicolon or a
    /// quote in it is put into quotes (RFC 9651, section 3.3.3), any other is sent as it stands.
    ///
    /// # Panics
    /// Never: printable ASCII is a header value.
    pub fn header_value(&self) -> HeaderValue {
        let text = text::to_field(&self.0);
        let mut value = HeaderValue::from_str(&text).expect("printable ASCII is a header value");
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

impl std::str::FromStr for IdempotencyKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::new(text)
    }
}

impl TryFrom<&str> for IdempotencyKey {
    type Error = KeyError;

    fn try_from(text: &str) -> Result<Self, KeyError> {
        Self::new(text)
    }
}

impl TryFrom<String> for IdempotencyKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        Self::new(text)
    }
}

/// As [`IdempotencyKey::header_value`]: `request.header(KEY_HEADER, &key)`.
impl From<&IdempotencyKey> for HeaderValue {
    fn from(key: &IdempotencyKey) -> Self {
        key.header_value()
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
