//! The primitives of a frame: whole numbers are big-endian, every length and count is four bytes,
//! a presence byte is 0 or 1.

use bytes::{Buf, Bytes};

use super::error::CodecError;
use super::{MAX_FIELDS, MAX_FRAME_BYTES};
use crate::reply::Fields;

/// Writes into one growing buffer, and stops at [`MAX_FRAME_BYTES`] before it copies more.
pub(super) struct Writer {
    frame: Vec<u8>,
}

impl Writer {
    /// A writer that has room for `bytes` more before it has to grow.
    pub(super) fn with_room(bytes: usize) -> Self {
        Self { frame: Vec::with_capacity(bytes.min(MAX_FRAME_BYTES)) }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.frame
    }

    /// Bytes as they are, with no length before them.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        check_frame_bytes(self.frame.len().saturating_add(bytes.len()))?;
        self.frame.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn byte(&mut self, value: u8) -> Result<(), CodecError> {
        self.raw(&[value])
    }

    pub(super) fn short(&mut self, value: u16) -> Result<(), CodecError> {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn word(&mut self, value: u32) -> Result<(), CodecError> {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn long(&mut self, value: u64) -> Result<(), CodecError> {
        self.raw(&value.to_be_bytes())
    }

    /// A length and that many bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        check_frame_bytes(bytes.len())?;
        self.word(bytes.len() as u32)?;
        self.raw(bytes)
    }

    /// A presence byte, and what `write` writes where there is something.
    pub(super) fn optional<T>(
        &mut self,
        value: Option<T>,
        write: impl FnOnce(&mut Self, T) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1)?;
                write(self, value)
            }
        }
    }

    /// A count, and a name and a value for each.
    pub(super) fn fields(&mut self, fields: &[(Bytes, Bytes)]) -> Result<(), CodecError> {
        self.count(fields.len(), MAX_FIELDS, "header or trailer fields")?;
        for (name, value) in fields {
            self.bytes(name)?;
            self.bytes(value)?;
        }
        Ok(())
    }

    /// A count of at most `limit`.
    pub(super) fn count(
        &mut self,
        count: usize,
        limit: usize,
        what: &'static str,
    ) -> Result<(), CodecError> {
        if count > limit {
            return Err(CodecError::OverLimit { what, limit });
        }
        self.word(count as u32)
    }
}

/// Reads by slicing: what it gives shares the memory of the frame, so a length that a frame
/// claims is never allocated.
pub(super) struct Reader {
    rest: Bytes,
}

impl Reader {
    /// A reader of no more than a frame may be.
    pub(super) fn new(bytes: Bytes) -> Result<Self, CodecError> {
        if bytes.len() > MAX_FRAME_BYTES {
            return Err(CodecError::Malformed { part: "length" });
        }
        Ok(Self { rest: bytes })
    }

    /// This many bytes as they are.
    pub(super) fn raw(&mut self, bytes: usize, part: &'static str) -> Result<Bytes, CodecError> {
        if bytes > self.rest.len() {
            return Err(CodecError::Truncated { part });
        }
        Ok(self.rest.split_to(bytes))
    }

    pub(super) fn byte(&mut self, part: &'static str) -> Result<u8, CodecError> {
        Ok(self.raw(1, part)?.get_u8())
    }

    pub(super) fn short(&mut self, part: &'static str) -> Result<u16, CodecError> {
        Ok(self.raw(2, part)?.get_u16())
    }

    pub(super) fn word(&mut self, part: &'static str) -> Result<u32, CodecError> {
        Ok(self.raw(4, part)?.get_u32())
    }

    pub(super) fn long(&mut self, part: &'static str) -> Result<u64, CodecError> {
        Ok(self.raw(8, part)?.get_u64())
    }

    /// A length and that many bytes.
    pub(super) fn bytes(&mut self, part: &'static str) -> Result<Bytes, CodecError> {
        let length = self.word(part)? as usize;
        self.raw(length, part)
    }

    /// A length and that many bytes of UTF-8.
    pub(super) fn text(&mut self, part: &'static str) -> Result<String, CodecError> {
        let bytes = self.bytes(part)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(CodecError::Malformed { part }),
        }
    }

    /// A presence byte, and what `read` reads where there is something.
    pub(super) fn optional<T>(
        &mut self,
        part: &'static str,
        read: impl FnOnce(&mut Self, &'static str) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError> {
        match self.byte(part)? {
            0 => Ok(None),
            1 => read(self, part).map(Some),
            _ => Err(CodecError::Malformed { part }),
        }
    }

    /// A count, and a name and a value for each.
    pub(super) fn fields(&mut self, part: &'static str) -> Result<Fields, CodecError> {
        let count = self.count(MAX_FIELDS, part)?;
        let mut fields = Fields::new();
        for _ in 0..count {
            fields.push((self.bytes(part)?, self.bytes(part)?));
        }
        Ok(fields)
    }

    /// A count of at most `limit`.
    pub(super) fn count(&mut self, limit: usize, part: &'static str) -> Result<usize, CodecError> {
        match self.word(part)? as usize {
            count if count > limit => Err(CodecError::Malformed { part }),
            count => Ok(count),
        }
    }

    /// Everything that is left, as it is.
    pub(super) fn remainder(self) -> Bytes {
        self.rest
    }

    /// Checks that nothing is left.
    pub(super) fn finish(self) -> Result<(), CodecError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(CodecError::TrailingBytes { bytes }),
        }
    }
}

/// Refuses what is longer than a frame may be, and so keeps every length within four bytes.
fn check_frame_bytes(bytes: usize) -> Result<(), CodecError> {
    if bytes > MAX_FRAME_BYTES {
        return Err(CodecError::OverLimit { what: "bytes in a frame", limit: MAX_FRAME_BYTES });
    }
    Ok(())
}
