//! Who asked, and for what: the two halves of a record's identity.

use std::fmt;

use bytes::Bytes;

/// The most bytes that a [`Key`], a [`Scope`] or an operation name may have.
pub const MAX_NAME_BYTES: usize = 255;

/// The caller's name for one piece of work: 1 to 255 opaque bytes.
///
/// A key is compared byte for byte (R3). It is never folded, trimmed, truncated or normalised,
/// here or in a store: keys that differ by case, by an accent, by a trailing space or by a NUL
/// are different keys.
///
/// `Debug` shows only the length, since a key can be a secret (R24).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Bytes);

impl Key {
    /// A key of printable ASCII, space included (0x20 to 0x7E): what the `Idempotency-Key`
    /// header can carry.
    ///
    /// # Errors
    /// [`NameError`] when the key is empty, longer than [`MAX_NAME_BYTES`], or holds any other
    /// byte.
    pub fn new(key: impl AsRef<[u8]>) -> Result<Self, NameError> {
        let key = key.as_ref();
        check_length(Name::Key, key)?;
        match key.iter().position(|byte| !(0x20..=0x7e).contains(byte)) {
            Some(at) => Err(NameError { name: Name::Key, fault: NameFault::NotPrintable { at } }),
            None => Ok(Self(Bytes::copy_from_slice(key))),
        }
    }

    /// A key of any bytes: for queue and event ids that are not text.
    ///
    /// # Errors
    /// [`NameError`] when the key is empty or longer than [`MAX_NAME_BYTES`].
    pub fn opaque(key: impl AsRef<[u8]>) -> Result<Self, NameError> {
        let key = key.as_ref();
        check_length(Name::Key, key)?;
        Ok(Self(Bytes::copy_from_slice(key)))
    }

    /// The bytes as they were given.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
}

/// Whose key it is: 1 to 255 bytes of UTF-8. Two scopes never see each other's records (R4).
///
/// There is no default scope: a service with one caller says so with a constant of its own.
/// `Debug` shows only the length, since a scope is often an account or a hashed token.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(Box<str>);

impl Scope {
    /// A scope from text.
    ///
    /// # Errors
    /// [`NameError`] when it is empty or longer than [`MAX_NAME_BYTES`].
    pub fn new(scope: impl AsRef<str>) -> Result<Self, NameError> {
        let scope = scope.as_ref();
        check_length(Name::Scope, scope.as_bytes())?;
        Ok(Self(scope.into()))
    }

    /// A scope from bytes that may not be text, such as a header value.
    ///
    /// # Errors
    /// [`NameError`] when it is empty, longer than [`MAX_NAME_BYTES`], or not UTF-8.
    pub fn from_bytes(scope: impl AsRef<[u8]>) -> Result<Self, NameError> {
        let scope = scope.as_ref();
        check_length(Name::Scope, scope)?;
        match std::str::from_utf8(scope) {
            Ok(text) => Ok(Self(text.into())),
            Err(error) => Err(NameError {
                name: Name::Scope,
                fault: NameFault::NotUtf8 { at: error.valid_up_to() },
            }),
        }
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({} bytes)", self.0.len())
    }
}

/// Why a [`Key`], a [`Scope`] or an operation name was refused. It never holds the text itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} {fault}")]
pub struct NameError {
    /// What was being named.
    pub name: Name,
    /// What is wrong with it.
    pub fault: NameFault,
}

/// What a [`NameError`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// A [`Key`].
    Key,
    /// A [`Scope`].
    Scope,
    /// An operation's name.
    Operation,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Scope => "scope",
            Self::Operation => "operation name",
        })
    }
}

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameFault {
    /// It has no bytes.
    #[error("is empty")]
    Empty,
    /// It has more than [`MAX_NAME_BYTES`] bytes.
    #[error("has {bytes} bytes; the limit is {MAX_NAME_BYTES}")]
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
    /// It holds a byte that is not printable ASCII.
    #[error("holds a byte that is not printable ASCII, at offset {at}")]
    NotPrintable {
        /// The offset of the first such byte.
        at: usize,
    },
    /// It is not UTF-8.
    #[error("is not UTF-8 from offset {at} on")]
    NotUtf8 {
        /// The offset of the first byte that is not.
        at: usize,
    },
}

pub(crate) fn check_length(name: Name, bytes: &[u8]) -> Result<(), NameError> {
    match bytes.len() {
        0 => Err(NameError { name, fault: NameFault::Empty }),
        1..=MAX_NAME_BYTES => Ok(()),
        more => Err(NameError { name, fault: NameFault::TooLong { bytes: more } }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked_at_both_ends() {
        assert_eq!(Key::new("").unwrap_err().fault, NameFault::Empty);
        assert!(Key::new("k").is_ok());
        assert!(Key::new("k".repeat(255)).is_ok());
        assert_eq!(Key::new("k".repeat(256)).unwrap_err().fault, NameFault::TooLong { bytes: 256 });
        assert_eq!(Scope::new("").unwrap_err().fault, NameFault::Empty);
        assert_eq!(
            Scope::new("é".repeat(128)).unwrap_err().fault,
            NameFault::TooLong { bytes: 256 }
        );
    }

    #[test]
    fn a_key_from_a_header_is_printable_ascii_and_an_opaque_one_is_anything() {
        for byte in 0..=255_u8 {
            let printable = (0x20..=0x7e).contains(&byte);
            assert_eq!(Key::new([b'a', byte]).is_ok(), printable, "byte {byte:#x}");
            assert!(Key::opaque([byte]).is_ok());
        }
    }

    #[test]
    fn a_scope_that_is_not_text_is_refused_by_position() {
        let error = Scope::from_bytes(b"ab\xff").unwrap_err();
        assert_eq!(error.fault, NameFault::NotUtf8 { at: 2 });
        assert_eq!(error.to_string(), "scope is not UTF-8 from offset 2 on");
    }

    #[test]
    fn debug_hides_the_text() {
        assert_eq!(format!("{:?}", Key::new("sk_live").unwrap()), "Key(7 bytes)");
        assert_eq!(format!("{:?}", Scope::new("acct").unwrap()), "Scope(4 bytes)");
    }
}
