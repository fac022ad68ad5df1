//! The one codec: how replies, inputs and recovery points become the opaque bytes that a store
//! keeps, and come back.
//!
//! No backend looks inside these bytes, so a change of the format is one change, here. The layout
//! is written down in `docs/stored-format.md`. Reading is total: any bytes give a value or a
//! [`CodecError`], never a panic, and allocate no more than a small multiple of what they are.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::input::StoredInput;
use crate::key::{Key, Scope};
use crate::progress::Progress;
use crate::reply::StoredReply;
use crate::seal::Sealer;

mod error;
mod frame;
mod input;
mod label;
mod progress;
mod reply;
#[cfg(test)]
mod tests;
mod wire;

pub use self::error::{CodecError, CodecErrorKind};
pub use self::frame::FrameKind;
pub use self::label::{Label, LabelError};
pub(crate) use self::label::{check_graphic, check_text};

use self::frame::Head;
use self::wire::{Reader, Writer};

/// The format that this build writes, and the only one that it reads.
pub const FORMAT_VERSION: u8 = 1;

/// The most bytes that a frame may have, sealed or not: 64 MiB.
///
/// It belongs to the format. The limit on a reply that an engine keeps is a setting of its own,
/// and a store may allow less.
pub const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// The most header fields, and the most trailer fields, that a frame may have.
pub const MAX_FIELDS: usize = 1_024;

/// The opaque bytes that a store keeps for a reply, an input or a recovery point.
///
/// A store writes and reads them whole, byte for byte, and never looks inside. `Debug` shows the
/// length only (R24).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sealed(Bytes);

impl Sealed {
    /// Bytes as a store read them.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes to store, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none. No codec makes such a value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl AsRef<[u8]> for Sealed {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

/// Frames replies, inputs and recovery points, and seals them where it has a [`Sealer`].
///
/// Without a sealer the same value always gives the same bytes. With one each call gives other
/// bytes, so a reply is encoded once and the same bytes are sent again on a repeat (R8).
///
/// ```
/// use idem_core::codec::Codec;
/// use idem_core::key::{Key, Scope};
/// use idem_core::reply::{Reply, StoredReply};
///
/// let (scope, key) = (Scope::new("acct_1")?, Key::new("order-7")?);
/// let codec = Codec::new();
/// let stored = codec.encode_reply(&Reply::from("done").into(), &scope, &key)?;
/// let read = codec.decode_reply(&stored, &scope, &key)?;
/// assert_eq!(read, StoredReply::Full(Reply::from("done")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Codec {
    sealer: Option<Arc<dyn Sealer>>,
    reads_unsealed: bool,
}

impl Codec {
    /// A codec that does not seal. It refuses to read what is sealed.
    pub fn new() -> Self {
        Self::default()
    }

    /// A codec that seals everything it writes, and reads only what is sealed: otherwise whoever
    /// can write to the database could put a reply of their own there.
    pub fn sealed_by(sealer: Arc<dyn Sealer>) -> Self {
        Self { sealer: Some(sealer), reads_unsealed: false }
    }

    /// Also reads what is not sealed: for the time in which a service that has records starts to
    /// seal. Until this is taken away again, an unsealed reply that somebody else put into the
    /// database is believed.
    #[must_use]
    pub fn reading_unsealed(mut self) -> Self {
        self.reads_unsealed = true;
        self
    }

    /// Whether it seals what it writes.
    pub fn seals(&self) -> bool {
        self.sealer.is_some()
    }

    /// Frames a reply or a tombstone.
    ///
    /// # Errors
    /// [`CodecError`] when it is over a limit of the format, or the sealer fails.
    pub fn encode_reply(
        &self,
        reply: &StoredReply,
        scope: &Scope,
        key: &Key,
    ) -> Result<Sealed, CodecError> {
        let flags = match reply {
            StoredReply::Full(_) => 0,
            StoredReply::Tombstone(_) => frame::TOMBSTONE,
        };
        let head = Head { kind: FrameKind::Reply, flags };
        self.encode(head, (scope, key), reply::room(reply), |to| reply::write(to, reply))
    }

    /// Reads a reply or a tombstone.
    ///
    /// # Errors
    /// [`CodecError`] when these are not the bytes of a reply of this scope and key, or this
    /// codec cannot read them.
    pub fn decode_reply(
        &self,
        stored: &Sealed,
        scope: &Scope,
        key: &Key,
    ) -> Result<StoredReply, CodecError> {
        self.decode(stored, FrameKind::Reply, (scope, key), |from, head| {
            reply::read(from, head.is_tombstone())
        })
    }

    /// Frames an input with its derivation.
    ///
    /// # Errors
    /// [`CodecError`] when it is over a limit of the format, or the sealer fails.
    pub fn encode_input(
        &self,
        input: &StoredInput,
        scope: &Scope,
        key: &Key,
    ) -> Result<Sealed, CodecError> {
        let head = Head { kind: FrameKind::Input, flags: 0 };
        self.encode(head, (scope, key), input::room(input), |to| input::write(to, input))
    }

    /// Reads an input with its derivation.
    ///
    /// # Errors
    /// [`CodecError`] when these are not the bytes of an input of this scope and key, or this
    /// codec cannot read them.
    pub fn decode_input(
        &self,
        stored: &Sealed,
        scope: &Scope,
        key: &Key,
    ) -> Result<StoredInput, CodecError> {
        self.decode(stored, FrameKind::Input, (scope, key), |from, _| input::read(from))
    }

    /// Frames a recovery point.
    ///
    /// # Errors
    /// [`CodecError`] when it is over a limit of the format, or the sealer fails.
    pub fn encode_progress(
        &self,
        progress: &Progress,
        scope: &Scope,
        key: &Key,
    ) -> Result<Sealed, CodecError> {
        let head = Head { kind: FrameKind::Progress, flags: 0 };
        let room = progress::room(progress);
        self.encode(head, (scope, key), room, |to| progress::write(to, progress))
    }

    /// Reads a recovery point.
    ///
    /// # Errors
    /// [`CodecError`] when these are not the bytes of a recovery point of this scope and key, or
    /// this codec cannot read them.
    pub fn decode_progress(
        &self,
        stored: &Sealed,
        scope: &Scope,
        key: &Key,
    ) -> Result<Progress, CodecError> {
        self.decode(stored, FrameKind::Progress, (scope, key), |from, _| progress::read(from))
    }

    fn encode(
        &self,
        head: Head,
        of: (&Scope, &Key),
        room: usize,
        write: impl FnOnce(&mut Writer) -> Result<(), CodecError>,
    ) -> Result<Sealed, CodecError> {
        match &self.sealer {
            None => frame::write_plain(head, room, write),
            Some(sealer) => frame::write_sealed(&**sealer, head, of, room, write),
        }
    }

    fn decode<T>(
        &self,
        stored: &Sealed,
        expected: FrameKind,
        of: (&Scope, &Key),
        read: impl FnOnce(&mut Reader, &Head) -> Result<T, CodecError>,
    ) -> Result<T, CodecError> {
        let mut reader = Reader::new(stored.0.clone())?;
        let head = Head::read(&mut reader)?;
        if head.kind != expected {
            return Err(CodecError::WrongKind { expected, found: head.kind });
        }
        let mut payload = self.payload(&head, of, reader)?;
        let value = read(&mut payload, &head)?;
        payload.finish()?;
        Ok(value)
    }

    /// What stands behind the head, opened where it is sealed.
    fn payload(
        &self,
        head: &Head,
        of: (&Scope, &Key),
        reader: Reader,
    ) -> Result<Reader, CodecError> {
        if !head.is_sealed() {
            return match self.sealer {
                Some(_) if !self.reads_unsealed => Err(CodecError::NotSealed),
                _ => Ok(reader),
            };
        }
        let (key_id, sealed) = frame::read_sealed(reader)?;
        match &self.sealer {
            Some(sealer) => frame::open(&**sealer, head, of, (&key_id, &sealed)),
            None => Err(CodecError::NoSealer { key_id }),
        }
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("seals", &self.seals())
            .field("reads_unsealed", &self.reads_unsealed)
            .finish()
    }
}
