//! The payload of an input with its derivation.

use super::error::CodecError;
use super::reply::fields_room;
use super::wire::{Reader, Writer};
use crate::downstream::{Derivation, Namespace};
use crate::input::{Input, StoredInput};
use crate::seal::SecretId;

/// About how many bytes the payload takes.
pub(super) fn room(stored: &StoredInput) -> usize {
    let names = 2 * crate::key::MAX_NAME_BYTES;
    let input = stored.input.as_ref().map_or(0, |input| {
        let line = input.method().map_or(0, |method| method.len())
            + input.target().map_or(0, |target| target.len());
        line + fields_room(input.headers()) + input.body().len()
    });
    64 + names + input
}

pub(super) fn write(writer: &mut Writer, stored: &StoredInput) -> Result<(), CodecError> {
    let Derivation { version, namespace, secret_id } = &stored.derivation;
    writer.byte(*version)?;
    writer.bytes(namespace.as_str().as_bytes())?;
    writer.optional(secret_id.as_ref(), |writer, id| writer.bytes(id.as_str().as_bytes()))?;
    writer.optional(stored.input.as_ref(), |writer, input| {
        writer.optional(input.method(), |writer, method| writer.bytes(method))?;
        writer.optional(input.target(), |writer, target| writer.bytes(target))?;
        writer.fields(input.headers())?;
        writer.bytes(input.body())
    })
}

pub(super) fn read(reader: &mut Reader) -> Result<StoredInput, CodecError> {
    let version = reader.byte("derivation version")?;
    let namespace = Namespace::new(reader.text("namespace")?)?;
    let secret_id = match reader.optional("secret id", Reader::text)? {
        Some(id) => Some(SecretId::new(id)?),
        None => None,
    };
    let input = reader.optional("input", |reader, _| {
        let method = reader.optional("method", Reader::bytes)?;
        let target = reader.optional("target", Reader::bytes)?;
        let headers = reader.fields("headers")?;
        Ok(Input::from_parts(method, target, headers, reader.bytes("body")?))
    })?;
    Ok(StoredInput { derivation: Derivation { version, namespace, secret_id }, input })
}
