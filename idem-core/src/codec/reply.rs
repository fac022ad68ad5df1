//! The payload of a reply and of its tombstone.

use super::error::CodecError;
use super::wire::{Reader, Writer};
use crate::reply::{Fields, Reply, StoredReply, Tombstone};

/// About how many bytes the payload takes.
pub(super) fn room(stored: &StoredReply) -> usize {
    match stored {
        StoredReply::Full(reply) => {
            let body = reply.body().map_or(0, |body| body.len());
            32 + body + fields_room(reply.headers()) + fields_room(reply.trailers())
        }
        StoredReply::Tombstone(tombstone) => 32 + fields_room(tombstone.headers()),
    }
}

pub(super) fn write(writer: &mut Writer, stored: &StoredReply) -> Result<(), CodecError> {
    match stored {
        StoredReply::Full(reply) => {
            writer.short(reply.status())?;
            writer.fields(reply.headers())?;
            writer.optional(reply.body(), |writer, body| writer.bytes(body))?;
            writer.fields(reply.trailers())
        }
        StoredReply::Tombstone(tombstone) => {
            writer.short(tombstone.status())?;
            writer.fields(tombstone.headers())?;
            writer.optional(tombstone.body_bytes_seen(), Writer::long)
        }
    }
}

pub(super) fn read(reader: &mut Reader, is_tombstone: bool) -> Result<StoredReply, CodecError> {
    let status = reader.short("status")?;
    let headers = reader.fields("headers")?;
    if is_tombstone {
        let seen = reader.optional("size of the body", Reader::long)?;
        return tombstone(status, headers, seen).map(StoredReply::Tombstone);
    }
    let body = reader.optional("body", Reader::bytes)?;
    let trailers = reader.fields("trailers")?;
    let mut reply = Reply::new(status)
        .map_err(|_| CodecError::Malformed { part: "status" })?
        .with_headers(headers)
        .with_trailers(trailers);
    if let Some(body) = body {
        reply = reply.with_body(body);
    }
    Ok(StoredReply::Full(reply))
}

fn tombstone(status: u16, headers: Fields, seen: Option<u64>) -> Result<Tombstone, CodecError> {
    let mut tombstone =
        Tombstone::new(status).map_err(|_| CodecError::Malformed { part: "status" })?;
    for (name, value) in headers {
        tombstone = tombstone.with_header(name, value);
    }
    Ok(match seen {
        Some(bytes) => tombstone.with_body_bytes_seen(bytes),
        None => tombstone,
    })
}

pub(super) fn fields_room(fields: &[(bytes::Bytes, bytes::Bytes)]) -> usize {
    fields.iter().map(|(name, value)| 8 + name.len() + value.len()).sum()
}
