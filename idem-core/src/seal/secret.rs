//! Secret bytes and their ids.

use std::fmt;
use std::sync::Arc;

use crate::codec::{Label, LabelError, check_graphic};

/// The name of a key or a secret, not the secret itself: 1 to 255 bytes of printable ASCII
/// without spaces. It stands in stored records and may be logged.
///
/// An id is never given to another secret: what was made under the first could not be read.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretId(Arc<str>);

impl SecretId {
    /// An id from text.
    ///
    /// # Errors
    /// [`LabelError`] when it is empty, longer than 255 bytes, or holds a byte that is not
    /// printable ASCII, or a space.
    pub fn new(id: impl AsRef<str>) -> Result<Self, LabelError> {
        let id = id.as_ref();
        check_graphic(Label::SecretId, id)?;
        Ok(Self(id.into()))
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a secret was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It can be guessed.
    #[error("a secret of {bytes} bytes is too short; it needs {least}")]
    TooShort {
        /// How many bytes it has.
        bytes: usize,
        /// How many it needs.
        least: usize,
    },
    /// A secret with this id is there already.
    #[error("there is a secret with the id {id} already")]
    RepeatedId {
        /// The id.
        id: SecretId,
    },
}

/// The bytes of a secret. `Debug` shows nothing of them.
#[derive(Clone)]
pub(crate) struct SecretBytes(Arc<[u8]>);

impl SecretBytes {
    /// A secret of at least `least` bytes.
    pub(crate) fn new(secret: &[u8], least: usize) -> Result<Self, SecretError> {
        match secret.len() {
            bytes if bytes < least => Err(SecretError::TooShort { bytes, least }),
            _ => Ok(Self(secret.into())),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(…)")
    }
}
