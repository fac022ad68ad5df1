//! A message as a row. What does not read as one is not sent; a person sees it among the dead
//! letters.

use std::time::Duration;

use idem_core::outbox::{Entry, MessageId, MessageState, OutboxMessage};
use idem_core::time::Timestamp;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// What a dead letter says that could not be read.
pub(super) const UNREADABLE: &str = "the message cannot be read as it was written";

/// A row of the statement `due`.
pub(super) struct Due {
    pub(super) number: i64,
    /// `None` when it cannot be read.
    pub(super) message: Option<OutboxMessage>,
    pub(super) failures: u32,
    pub(super) lapses: u32,
}

pub(super) fn due(row: &SqliteRow) -> Result<Due, sqlx::Error> {
    Ok(Due {
        number: row.try_get(0)?,
        message: message(row, row.try_get(5)?)?,
        failures: row.try_get(6)?,
        lapses: row.try_get(7)?,
    })
}

/// A row of the statement `list`, at the time `now`.
pub(super) fn entry(
    row: &SqliteRow,
    state: MessageState,
    now: Timestamp,
) -> Result<Entry, sqlx::Error> {
    let time = |index: usize| -> Result<_, sqlx::Error> {
        Ok(row.try_get::<Option<i64>, _>(index)?.map(Timestamp::from_unix_micros))
    };
    let later = |at: Timestamp| Some(at.since(now)).filter(|span| *span > Duration::ZERO);
    let number = row.try_get::<i64, _>(0)?;
    let read = message(row, Vec::new())?;
    let mut entry = match read {
        Some(message) => Entry::new(message, number.cast_unsigned(), state),
        None => Entry::new(placeholder(row)?, number.cast_unsigned(), state),
    };
    entry.payload_bytes = row.try_get::<i64, _>(5)?.cast_unsigned();
    entry.failures = row.try_get(6)?;
    entry.lapses = row.try_get(7)?;
    entry.age = time(8)?.map_or(Duration::ZERO, |at| now.since(at));
    let waits = state == MessageState::Waiting;
    entry.due_in = time(9)?.and_then(later).filter(|_| waits && entry.failures > 0);
    entry.leased_for = time(10)?.and_then(later);
    entry.reason = row.try_get(11)?;
    Ok(entry)
}

fn message(row: &SqliteRow, payload: Vec<u8>) -> Result<Option<OutboxMessage>, sqlx::Error> {
    let headers: &str = row.try_get(4)?;
    let Ok(headers) = serde_json::from_str(headers) else { return Ok(None) };
    let payload = payload.into();
    let (topic, key) = (row.try_get(2)?, row.try_get(3)?);
    Ok(Some(OutboxMessage::from_parts(id(row)?, topic, key, headers, payload)))
}

/// The message without the headers that cannot be read.
fn placeholder(row: &SqliteRow) -> Result<OutboxMessage, sqlx::Error> {
    let (topic, key) = (row.try_get(2)?, row.try_get(3)?);
    Ok(OutboxMessage::from_parts(id(row)?, topic, key, Vec::new(), Vec::new().into()))
}

fn id(row: &SqliteRow) -> Result<MessageId, sqlx::Error> {
    let bytes: &[u8] = row.try_get(1)?;
    let bytes = bytes.try_into().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok(MessageId::from_bytes(bytes))
}
