//! A message as a row. What does not read as one is not sent; a person sees it among the dead
//! letters.

use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::{Entry, MessageId, MessageState, OutboxMessage};
use idem_core::time::Timestamp;
use mysql_async::Row;

use crate::row::{Corrupt, Fields};

/// What a dead letter says that could not be read.
pub(super) const UNREADABLE: &str = "the message cannot be read as it was written";

/// A message that a lease took.
pub(super) struct Taken {
    pub(super) number: i64,
    pub(super) id: MessageId,
    /// `None` when it cannot be read.
    pub(super) message: Option<OutboxMessage>,
    pub(super) failures: u32,
    pub(super) lapses: u32,
}

pub(super) fn taken(row: Row) -> Result<Taken, StoreError> {
    let mut fields = Fields::of(row);
    let mut read = || {
        let number = fields.number("number")?;
        let text = Text::read(&mut fields)?;
        let payload = fields.bytes("payload")?;
        let (failures, lapses) = (count(&mut fields)?, count(&mut fields)?);
        Ok(Taken { number, id: text.id, message: text.message(payload), failures, lapses })
    };
    read().map_err(|corrupt| unreadable(&corrupt, Verb::Relay))
}

pub(super) fn entry(row: Row, state: MessageState) -> Result<Entry, StoreError> {
    let mut fields = Fields::of(row);
    let mut read = || {
        let number = fields.number("number")?;
        let text = Text::read(&mut fields)?;
        let shown = text.shown();
        let message = text.message(Vec::new()).unwrap_or(shown);
        let mut entry = Entry::new(message, number.cast_unsigned(), state);
        entry.payload_bytes = fields.number("payload")?.cast_unsigned();
        (entry.failures, entry.lapses) = (count(&mut fields)?, count(&mut fields)?);
        let now = fields.time("time")?;
        let later = |at: i64| {
            let span = Timestamp::from_unix_micros(at).since(now);
            Some(span).filter(|span| *span > Duration::ZERO)
        };
        entry.age = now.since(fields.time("created_at")?);
        let waits = state == MessageState::Waiting;
        let due_at = fields.number("due_at")?;
        entry.due_in = later(due_at).filter(|_| waits && entry.failures > 0);
        entry.leased_for = fields.optional_number("leased_until")?.and_then(later);
        let reason = fields.optional_bytes("reason")?;
        entry.reason = reason.map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(entry)
    };
    read().map_err(|corrupt| unreadable(&corrupt, Verb::List))
}

/// What a message says beside its payload.
struct Text {
    id: MessageId,
    topic: Vec<u8>,
    ordering_key: Option<Vec<u8>>,
    headers: Vec<u8>,
}

impl Text {
    fn read(fields: &mut Fields) -> Result<Self, Corrupt> {
        Ok(Self {
            id: MessageId::from_bytes(fields.array("id")?),
            topic: fields.bytes("topic")?,
            ordering_key: fields.optional_bytes("ordering_key")?,
            headers: fields.bytes("headers")?,
        })
    }

    fn message(self, payload: Vec<u8>) -> Option<OutboxMessage> {
        let headers = serde_json::from_slice(&self.headers).ok()?;
        let topic = String::from_utf8(self.topic).ok()?;
        let key = self.ordering_key.map(String::from_utf8).transpose().ok()?;
        Some(OutboxMessage::from_parts(self.id, topic, key, headers, payload.into()))
    }

    /// What can be shown of a message that cannot be read.
    fn shown(&self) -> OutboxMessage {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let (topic, key) = (text(&self.topic), self.ordering_key.as_ref().map(text));
        OutboxMessage::from_parts(self.id, topic, key, Vec::new(), Vec::new().into())
    }
}

fn count(fields: &mut Fields) -> Result<u32, Corrupt> {
    let count = fields.number("failures")?;
    u32::try_from(count).map_err(|_| Corrupt("failures"))
}

fn unreadable(corrupt: &Corrupt, verb: Verb) -> StoreError {
    let detail = format!("a message cannot be read: its {} is not what was written", corrupt.0);
    StoreError::new(ErrorKind::CorruptRecord, verb, detail)
}
