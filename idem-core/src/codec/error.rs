//! Why a value was not framed, or a frame not read.

use super::frame::FrameKind;
use super::label::LabelError;
use crate::seal::{SealError, SecretId};

/// Why a value was not framed, or a frame not read. It holds none of the content (R24).
///
/// A frame that cannot be read is never taken for an absent one: nothing runs on it (R9).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The first byte names a format that this build does not know: a newer release wrote it.
    #[error("stored in format version {version}, which this build does not know")]
    UnknownVersion {
        /// The version that it names.
        version: u8,
    },
    /// It is a frame of another kind.
    #[error("a stored {found} stands where a stored {expected} should")]
    WrongKind {
        /// What was to be read.
        expected: FrameKind,
        /// What is there.
        found: FrameKind,
    },
    /// The second byte names no kind of frame.
    #[error("{kind} is no kind of stored value")]
    UnknownKind {
        /// The byte.
        kind: u8,
    },
    /// The third byte holds flags that this kind of frame does not have.
    #[error("a stored {kind} has no flags {flags:#04x}")]
    UnknownFlags {
        /// The kind of the frame.
        kind: FrameKind,
        /// The flags that it has no meaning for.
        flags: u8,
    },
    /// It ends before its content does.
    #[error("cut off in the {part}")]
    Truncated {
        /// What was being read.
        part: &'static str,
    },
    /// It goes on after its content.
    #[error("{bytes} bytes too many")]
    TrailingBytes {
        /// How many.
        bytes: usize,
    },
    /// A value that no writer makes, such as a status of 600 or a count over its limit.
    #[error("the {part} is not one that is ever stored")]
    Malformed {
        /// What was being read.
        part: &'static str,
    },
    /// A name in it is one that no writer makes.
    #[error("a stored {0}")]
    Label(#[from] LabelError),
    /// There is more to write than a frame may hold.
    #[error("over the limit of {limit} {what}")]
    OverLimit {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
    /// It is sealed, and this codec has no sealer.
    #[error("sealed with the key {key_id}, and this codec has no sealer")]
    NoSealer {
        /// The key that it names.
        key_id: SecretId,
    },
    /// It is not sealed, and this codec reads sealed ones only.
    #[error("not sealed, and this codec reads only what is sealed")]
    NotSealed,
    /// The sealer failed.
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// What a caller can do about a [`CodecError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodecErrorKind {
    /// What is stored is damaged, or was put there by somebody else. Nothing runs on it.
    Corrupt,
    /// What is stored is good, and this build or its settings cannot read it: a newer format, a
    /// missing key. Nothing runs on it; the remedy is a release or a setting.
    WrongSetting,
    /// The value is larger than a frame may be. Nothing was stored.
    TooLarge,
    /// The sealer could not work just now.
    SealerFailed,
}

impl CodecError {
    /// What the caller can do about it.
    pub fn kind(&self) -> CodecErrorKind {
        match self {
            Self::UnknownVersion { .. }
            | Self::NoSealer { .. }
            | Self::NotSealed
            | Self::Seal(SealError::UnknownKeyId { .. }) => CodecErrorKind::WrongSetting,
            Self::OverLimit { .. } | Self::Seal(SealError::TooLarge) => CodecErrorKind::TooLarge,
            Self::Seal(SealError::NoRandomness | SealError::Other(_)) => {
                CodecErrorKind::SealerFailed
            }
            Self::WrongKind { .. }
            | Self::UnknownKind { .. }
            | Self::UnknownFlags { .. }
            | Self::Truncated { .. }
            | Self::TrailingBytes { .. }
            | Self::Malformed { .. }
            | Self::Label(_)
            | Self::Seal(SealError::Authentication) => CodecErrorKind::Corrupt,
        }
    }
}
