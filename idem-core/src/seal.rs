//! Sealing: encryption of what a store keeps, by a part that can be replaced.
//!
//! A [`Codec`](crate::codec::Codec) frames a value, then a [`Sealer`] encrypts it and binds it to
//! what it is (reply, input or recovery point) and to its scope and key. With the feature
//! `aes-gcm` there is [`AesGcmSealer`]; a sealer over a key service keeps data keys in memory and
//! implements the trait.

use std::error::Error;
use std::fmt;

mod secret;

#[cfg(feature = "aes-gcm")]
mod aes_gcm;

#[cfg(feature = "aes-gcm")]
pub use self::aes_gcm::AesGcmSealer;
pub(crate) use self::secret::SecretBytes;
pub use self::secret::{SecretError, SecretId};

/// Encrypts and decrypts with authentication.
///
/// Both methods are called inside async code, so neither may block on I/O.
pub trait Sealer: Send + Sync + 'static {
    /// Encrypts `plain` under the current key, and authenticates `associated` with it. Whatever
    /// the cipher needs to open it again (a nonce, a tag) goes into the box's bytes.
    ///
    /// # Errors
    /// [`SealError`]; nothing is stored then.
    fn seal(&self, associated: &[u8], plain: &[u8]) -> Result<SealedBox, SealError>;

    /// Decrypts what [`Sealer::seal`] made under the key of this id, with the same `associated`.
    ///
    /// # Errors
    /// [`SealError::UnknownKeyId`] when there is no such key, and
    /// [`SealError::Authentication`] when anything was changed or belongs elsewhere.
    fn open(
        &self,
        key_id: &SecretId,
        associated: &[u8],
        sealed: &[u8],
    ) -> Result<Vec<u8>, SealError>;
}

/// What a [`Sealer`] made.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedBox {
    /// The key that opens it.
    pub key_id: SecretId,
    /// Nonce, ciphertext and tag, as the sealer lays them out.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for SealedBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedBox({:?}, {} bytes)", self.key_id, self.bytes.len())
    }
}

/// Why something was not sealed or not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// No key of this id is at hand. The record is as good as it was: the key is missing from the
    /// settings.
    #[error("no key with the id {key_id} to open this with")]
    UnknownKeyId {
        /// The id that the frame names.
        key_id: SecretId,
    },
    /// The bytes, or what they are bound to, are not what was sealed.
    #[error("this was changed after it was sealed, or belongs to another record")]
    Authentication,
    /// The operating system gave no randomness.
    #[error("no randomness from the operating system")]
    NoRandomness,
    /// It is larger than the cipher can take.
    #[error("larger than the cipher can take")]
    TooLarge,
    /// A sealer's own failure, such as a key service that cannot be reached.
    #[error("the sealer failed")]
    Other(#[source] Box<dyn Error + Send + Sync + 'static>),
}

impl SealError {
    /// A sealer's own failure.
    pub fn other(source: impl Into<Box<dyn Error + Send + Sync + 'static>>) -> Self {
        Self::Other(source.into())
    }
}
