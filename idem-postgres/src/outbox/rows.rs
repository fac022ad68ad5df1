//! A message as a row. What does not read as one is not sent; a person sees it among the dead
//! letters.

use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::{Entry, MessageId, MessageState, OutboxMessage};
use idem_core::time::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Type};

use crate::row;

/// What a dead letter says that could not be read.
pub(super) const UNREADABLE: &str = "the message cannot be read as it was written";

/// A row of the statement `lease`.
pub(super) struct Taken {
    pub(super) number: i64,
    pub(super) id: MessageId,
    /// `None` when it cannot be read.
    pub(super) message: Option<OutboxMessage>,
    pub(super) failures: u32,
    pub(super) lapses: u32,
}

/// What a lease took; `None` for the row that says that there was nothing.
pub(super) fn taken(row: &PgRow) -> Result<Option<Taken>, StoreError> {
    row::expect_name(row, "lease", Verb::Relay)?;
    let Some(number) = value(row, 1)? else { return Ok(None) };
    Ok(Some(Taken {
        number,
        id: id(row)?,
        message: message(row, value(row, 6)?)?,
        failures: count(row, 7)?,
        lapses: count(row, 8)?,
    }))
}

/// A row of the statement `list`; `None` for the row that says that there was nothing.
pub(super) fn entry(row: &PgRow, state: MessageState) -> Result<Option<Entry>, StoreError> {
    row::expect_name(row, "list", Verb::List)?;
    let Some(number) = value::<Option<i64>>(row, 1)? else { return Ok(None) };
    let now = Timestamp::from_unix_micros(value(row, 13)?);
    let time = |index: usize| -> Result<_, StoreError> {
        Ok(value::<Option<i64>>(row, index)?.map(Timestamp::from_unix_micros))
    };
    let later = |at: Timestamp| Some(at.since(now)).filter(|span| *span > Duration::ZERO);
    let message = message(row, Vec::new())?;
    let message = message.map_or_else(|| without_text(row), Ok)?;
    let mut entry = Entry::new(message, number.cast_unsigned(), state);
    entry.payload_bytes = value::<i64>(row, 6)?.cast_unsigned();
    entry.failures = count(row, 7)?;
    entry.lapses = count(row, 8)?;
    entry.age = time(9)?.map_or(Duration::ZERO, |at| now.since(at));
    let waits = state == MessageState::Waiting;
    entry.due_in = time(10)?.and_then(later).filter(|_| waits && entry.failures > 0);
    entry.leased_for = time(11)?.and_then(later);
    let reason: Option<Vec<u8>> = value(row, 12)?;
    entry.reason = reason.map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok(Some(entry))
}

fn message(row: &PgRow, payload: Vec<u8>) -> Result<Option<OutboxMessage>, StoreError> {
    let headers = serde_json::from_slice(value(row, 5)?);
    let topic = String::from_utf8(value(row, 3)?);
    let key: Option<Vec<u8>> = value(row, 4)?;
    let key = key.map(String::from_utf8).transpose();
    let (Ok(headers), Ok(topic), Ok(key)) = (headers, topic, key) else { return Ok(None) };
    Ok(Some(OutboxMessage::from_parts(id(row)?, topic, key, headers, payload.into())))
}

/// What can be shown of a message that cannot be read.
fn without_text(row: &PgRow) -> Result<OutboxMessage, StoreError> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (topic, key) = (value(row, 3)?, value::<Option<Vec<u8>>>(row, 4)?);
    let payload = Vec::new().into();
    Ok(OutboxMessage::from_parts(id(row)?, text(topic), key.map(text), Vec::new(), payload))
}

fn id(row: &PgRow) -> Result<MessageId, StoreError> {
    let bytes: Vec<u8> = value(row, 2)?;
    bytes.try_into().map(MessageId::from_bytes).map_err(|_| {
        let detail = "a message's id is not what was written";
        StoreError::new(ErrorKind::CorruptRecord, Verb::Relay, detail)
    })
}

fn count(row: &PgRow, index: usize) -> Result<u32, StoreError> {
    Ok(value::<i32>(row, index)?.unsigned_abs())
}

fn value<'r, T>(row: &'r PgRow, index: usize) -> Result<T, StoreError>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row::value(row, index, Verb::Relay)
}
