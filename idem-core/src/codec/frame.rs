//! The frame around a payload: version, kind, flags, key id; and what a seal is bound to.

use std::fmt;

use bytes::Bytes;

use super::error::CodecError;
use super::wire::{Reader, Writer};
use super::{FORMAT_VERSION, Sealed};
use crate::key::{Key, Scope};
use crate::seal::{Sealer, SecretId};

/// The frame is sealed.
const SEALED: u8 = 0b0000_0001;
/// The frame is the tombstone of a reply.
pub(super) const TOMBSTONE: u8 = 0b0000_0010;

const ASSOCIATED_DOMAIN: &[u8] = b"idem stored frame";

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// A reply or its tombstone.
    Reply,
    /// An input with its derivation.
    Input,
    /// A recovery point.
    Progress,
}

impl FrameKind {
    /// The byte that stands for it.
    fn as_byte(self) -> u8 {
        match self {
            Self::Reply => 1,
            Self::Input => 2,
            Self::Progress => 3,
        }
    }

    fn from_byte(byte: u8) -> Result<Self, CodecError> {
        match byte {
            1 => Ok(Self::Reply),
            2 => Ok(Self::Input),
            3 => Ok(Self::Progress),
            kind => Err(CodecError::UnknownKind { kind }),
        }
    }

    /// The flags that this kind may have beside the sealed one.
    fn flags(self) -> u8 {
        match self {
            Self::Reply => TOMBSTONE,
            Self::Input | Self::Progress => 0,
        }
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reply => "reply",
            Self::Input => "input",
            Self::Progress => "recovery point",
        })
    }
}

/// The three bytes that every frame starts with, read and checked.
pub(super) struct Head {
    pub(super) kind: FrameKind,
    pub(super) flags: u8,
}

impl Head {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, CodecError> {
        let version = reader.byte("format version")?;
        if version != FORMAT_VERSION {
            return Err(CodecError::UnknownVersion { version });
        }
        let kind = FrameKind::from_byte(reader.byte("kind")?)?;
        let flags = reader.byte("flags")?;
        match flags & !(SEALED | kind.flags()) {
            0 => Ok(Self { kind, flags }),
            unknown => Err(CodecError::UnknownFlags { kind, flags: unknown }),
        }
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.flags & SEALED != 0
    }

    pub(super) fn is_tombstone(&self) -> bool {
        self.flags & TOMBSTONE != 0
    }

    fn bytes(&self) -> [u8; 3] {
        [FORMAT_VERSION, self.kind.as_byte(), self.flags]
    }

    /// Domain, the three bytes, and each of scope and key after its length: a sealed frame cannot
    /// be read as another kind, as another reply, or under another key.
    fn associated(&self, scope: &Scope, key: &Key) -> Vec<u8> {
        let mut associated = ASSOCIATED_DOMAIN.to_vec();
        associated.extend_from_slice(&self.bytes());
        for part in [scope.as_bytes(), key.as_bytes()] {
            // At most 255 bytes each.
            associated.extend_from_slice(&(part.len() as u32).to_be_bytes());
            associated.extend_from_slice(part);
        }
        associated
    }
}

/// Frames what `write` writes; `room` is a guess at its size.
pub(super) fn write_plain(
    head: Head,
    room: usize,
    write: impl FnOnce(&mut Writer) -> Result<(), CodecError>,
) -> Result<Sealed, CodecError> {
    let mut writer = Writer::with_room(room.saturating_add(3));
    writer.raw(&head.bytes())?;
    write(&mut writer)?;
    Ok(Sealed::from_bytes(writer.finish()))
}

/// Frames and seals what `write` writes; `room` is a guess at its size.
pub(super) fn write_sealed(
    sealer: &dyn Sealer,
    mut head: Head,
    (scope, key): (&Scope, &Key),
    room: usize,
    write: impl FnOnce(&mut Writer) -> Result<(), CodecError>,
) -> Result<Sealed, CodecError> {
    head.flags |= SEALED;
    let mut payload = Writer::with_room(room);
    write(&mut payload)?;
    let sealed = sealer.seal(&head.associated(scope, key), &payload.finish())?;
    let key_id = sealed.key_id.as_str().as_bytes();
    let mut frame = Writer::with_room(sealed.bytes.len().saturating_add(4 + key_id.len()));
    frame.raw(&head.bytes())?;
    // An id has at most 255 bytes.
    frame.byte(key_id.len() as u8)?;
    frame.raw(key_id)?;
    frame.raw(&sealed.bytes)?;
    Ok(Sealed::from_bytes(frame.finish()))
}

/// The key id and the sealed bytes after the head of a sealed frame.
pub(super) fn read_sealed(mut reader: Reader) -> Result<(SecretId, Bytes), CodecError> {
    let length = reader.byte("key id")?;
    let id = reader.raw(usize::from(length), "key id")?;
    let id = std::str::from_utf8(&id).map_err(|_| CodecError::Malformed { part: "key id" })?;
    Ok((SecretId::new(id)?, reader.remainder()))
}

/// The payload of a sealed frame.
pub(super) fn open(
    sealer: &dyn Sealer,
    head: &Head,
    (scope, key): (&Scope, &Key),
    (key_id, sealed): (&SecretId, &[u8]),
) -> Result<Reader, CodecError> {
    let payload = sealer.open(key_id, &head.associated(scope, key), sealed)?;
    Reader::new(payload.into())
}
