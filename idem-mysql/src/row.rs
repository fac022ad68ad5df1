//! A row as a record. What does not read as a record fails closed (R9).

use std::time::Duration;

use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Incarnation, OperationName, Owner, Record, Recovery, Retention, State};
use idem_core::time::{MAX_DURATION, Timestamp};
use mysql_async::{Row, Value};

use crate::write::Identity;

/// A record as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) record: Record,
    /// How often this life was written.
    pub(crate) revision: i64,
    /// The server's time as the statement began.
    pub(crate) now: Timestamp,
}

impl Found {
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            scope: self.record.scope.as_bytes().to_vec(),
            key: self.record.key.as_bytes().to_vec(),
            incarnation: self.record.incarnation.as_bytes().to_vec(),
            revision: self.revision,
        }
    }
}

/// Reads a row that begins with the time.
pub(crate) fn found(row: Row, verb: Verb) -> Result<Found, StoreError> {
    read(&mut Fields::of(row)).map_err(|Corrupt(column)| {
        let detail = format!("a record cannot be read: its {column} is not what was written");
        StoreError::new(ErrorKind::CorruptRecord, verb, detail)
    })
}

/// Reads scope, key, incarnation and revision, whatever else the row holds.
pub(crate) fn identity(row: Row, verb: Verb) -> Result<Identity, StoreError> {
    let mut fields = Fields::of(row);
    let mut read = || {
        Ok::<_, Corrupt>(Identity {
            scope: fields.bytes("scope")?,
            key: fields.bytes("record_key")?,
            incarnation: fields.bytes("incarnation")?,
            revision: fields.number("revision")?,
        })
    };
    read().map_err(|_| other_form(verb))
}

/// Reads a row of numbers, some of which may be NULL.
pub(crate) fn numbers<const N: usize>(
    row: Option<Row>,
    verb: Verb,
) -> Result<[Option<i64>; N], StoreError> {
    let row = row.ok_or_else(|| other_form(verb))?;
    let mut fields = Fields::of(row);
    let mut numbers = [None; N];
    for number in &mut numbers {
        *number = fields.optional_number("number").map_err(|_| other_form(verb))?;
    }
    Ok(numbers)
}

pub(crate) fn other_form(verb: Verb) -> StoreError {
    StoreError::new(ErrorKind::WrongSchema, verb, "the server's answer has another form")
}

/// The column that is not what this crate writes there.
pub(crate) struct Corrupt(pub(crate) &'static str);

/// In the order of the columns.
fn read(fields: &mut Fields) -> Result<Found, Corrupt> {
    let now = fields.time("time")?;
    let scope = Scope::from_bytes(fields.bytes("scope")?).map_err(|_| Corrupt("scope"))?;
    let key = Key::opaque(fields.bytes("record_key")?).map_err(|_| Corrupt("record_key"))?;
    let operation = operation(fields.bytes("operation")?)?;
    let scheme = u8::try_from(fields.number("scheme")?).map_err(|_| Corrupt("scheme"))?;
    let fingerprint = Fingerprint::from_parts(Scheme::from_byte(scheme), fields.array("digest")?);
    let attempt = positive(fields.number("attempt")?, "attempt")?;
    let owner = Owner::from_bytes(fields.array("owner")?);
    let incarnation = Incarnation::from_bytes(fields.array("incarnation")?);
    let revision = fields.number("revision")?;
    let created_at = fields.time("created_at")?;
    let retention = match (fields.span("retention")?, fields.span("retention_after_completion")?) {
        (Some(total), Some(least)) => Retention::at_least(total, least),
        (None, None) => Retention::Forever,
        _ => return Err(Corrupt("retention")),
    };
    let marks_begun = fields.flag("marks_begun")?.ok_or(Corrupt("marks_begun"))?;
    let columns = StateColumns {
        locked_until: fields.optional_number("locked_until")?,
        given_up: fields.flag("given_up")?,
        recovery_number: fields.optional_number("recovery_number")?,
        completed_at: fields.optional_number("completed_at")?,
        expires_at: fields.optional_number("expires_at")?,
        has_input: false,
        recovery: None,
        reply: None,
    };
    let input = fields.sealed("input")?;
    let columns = StateColumns {
        has_input: input.is_some(),
        recovery: fields.sealed("recovery")?,
        reply: fields.sealed("reply")?,
        ..columns
    };
    let state = columns.state(retention)?;
    let record = Record {
        scope,
        key,
        operation,
        fingerprint,
        input,
        attempt,
        owner,
        incarnation,
        created_at,
        retention,
        marks_begun,
        state,
    };
    Ok(Found { record, revision, now })
}

struct StateColumns {
    locked_until: Option<i64>,
    given_up: Option<bool>,
    recovery_number: Option<i64>,
    completed_at: Option<i64>,
    expires_at: Option<i64>,
    has_input: bool,
    recovery: Option<Sealed>,
    reply: Option<Sealed>,
}

impl StateColumns {
    fn state(self, retention: Retention) -> Result<State, Corrupt> {
        let Some(completed_at) = self.completed_at else {
            return self.in_progress();
        };
        if self.has_input || self.recovery.is_some() || self.recovery_number.is_some() {
            return Err(Corrupt("input"));
        }
        if self.locked_until.is_some() || self.given_up.is_some() {
            return Err(Corrupt("locked_until"));
        }
        if self.expires_at.is_none() != (retention == Retention::Forever) {
            return Err(Corrupt("expires_at"));
        }
        Ok(State::Completed {
            reply: self.reply.ok_or(Corrupt("reply"))?,
            completed_at: Timestamp::from_unix_micros(completed_at),
            expires_at: self.expires_at.map(Timestamp::from_unix_micros),
        })
    }

    fn in_progress(self) -> Result<State, Corrupt> {
        if self.expires_at.is_some() || self.reply.is_some() {
            return Err(Corrupt("completed_at"));
        }
        let recovery = match (self.recovery_number, self.recovery) {
            (None, None) => None,
            (Some(number), Some(payload)) => {
                Some(Recovery { number: positive(number, "recovery_number")?, payload })
            }
            _ => return Err(Corrupt("recovery")),
        };
        let until = self.locked_until.ok_or(Corrupt("locked_until"))?;
        Ok(State::InProgress {
            locked_until: Timestamp::from_unix_micros(until),
            given_up: self.given_up.ok_or(Corrupt("given_up"))?,
            recovery,
        })
    }
}

fn operation(bytes: Vec<u8>) -> Result<OperationName, Corrupt> {
    let name = String::from_utf8(bytes).map_err(|_| Corrupt("operation"))?;
    OperationName::new(name).map_err(|_| Corrupt("operation"))
}

fn positive(number: i64, column: &'static str) -> Result<u32, Corrupt> {
    u32::try_from(number).ok().filter(|number| *number > 0).ok_or(Corrupt(column))
}

/// The columns that are still to be read.
pub(crate) struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    pub(crate) fn of(row: Row) -> Self {
        Self(row.unwrap().into_iter())
    }

    pub(crate) fn optional_number(&mut self, column: &'static str) -> Result<Option<i64>, Corrupt> {
        match self.0.next() {
            Some(Value::NULL) => Ok(None),
            Some(Value::Int(number)) => Ok(Some(number)),
            Some(Value::UInt(number)) => {
                i64::try_from(number).map(Some).map_err(|_| Corrupt(column))
            }
            _ => Err(Corrupt(column)),
        }
    }

    pub(crate) fn number(&mut self, column: &'static str) -> Result<i64, Corrupt> {
        self.optional_number(column)?.ok_or(Corrupt(column))
    }

    pub(crate) fn time(&mut self, column: &'static str) -> Result<Timestamp, Corrupt> {
        self.number(column).map(Timestamp::from_unix_micros)
    }

    fn flag(&mut self, column: &'static str) -> Result<Option<bool>, Corrupt> {
        match self.optional_number(column)? {
            None => Ok(None),
            Some(0) => Ok(Some(false)),
            Some(1) => Ok(Some(true)),
            Some(_) => Err(Corrupt(column)),
        }
    }

    fn span(&mut self, column: &'static str) -> Result<Option<Duration>, Corrupt> {
        let Some(micros) = self.optional_number(column)? else { return Ok(None) };
        match u64::try_from(micros).map(Duration::from_micros) {
            Ok(span) if span <= MAX_DURATION => Ok(Some(span)),
            _ => Err(Corrupt(column)),
        }
    }

    pub(crate) fn optional_bytes(
        &mut self,
        column: &'static str,
    ) -> Result<Option<Vec<u8>>, Corrupt> {
        match self.0.next() {
            Some(Value::NULL) => Ok(None),
            Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
            _ => Err(Corrupt(column)),
        }
    }

    pub(crate) fn bytes(&mut self, column: &'static str) -> Result<Vec<u8>, Corrupt> {
        self.optional_bytes(column)?.ok_or(Corrupt(column))
    }

    fn sealed(&mut self, column: &'static str) -> Result<Option<Sealed>, Corrupt> {
        Ok(self.optional_bytes(column)?.map(Sealed::from_bytes))
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        column: &'static str,
    ) -> Result<[u8; N], Corrupt> {
        self.bytes(column)?.try_into().map_err(|_| Corrupt(column))
    }
}
