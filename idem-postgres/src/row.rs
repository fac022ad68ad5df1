//! A row as a record. What does not read as a record fails closed (R9).

use std::time::Duration;

use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Incarnation, OperationName, Owner, Record, Recovery, Retention, State};
use idem_core::time::{MAX_DURATION, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};

use crate::sql::RECORD_AT;

/// What a verb's statement gave back.
pub(crate) struct Answer {
    /// The time of the snapshot.
    pub(crate) now: Timestamp,
    /// What was done, when something was written or locked.
    pub(crate) done: Option<(String, Timestamp)>,
    /// The row that was written, else the row that was found.
    pub(crate) record: Option<Record>,
}

/// Reads the answer of the statement `name`.
pub(crate) fn answer(row: &PgRow, name: &str, verb: Verb) -> Result<Answer, StoreError> {
    expect_name(row, name, verb)?;
    read_answer(row).map_err(|Corrupt(column)| corrupt(column, verb))
}

/// Fails when the row was given by another statement: a proxy ran one that was not asked for.
pub(crate) fn expect_name(row: &PgRow, name: &str, verb: Verb) -> Result<(), StoreError> {
    match row.try_get::<String, _>(0) {
        Ok(found) if found == name => Ok(()),
        _ => Err(StoreError::new(
            ErrorKind::WrongSchema,
            verb,
            "another statement was run than the one that was sent: the connection goes through a \
             transaction-pooling proxy, so set `behind_transaction_pooler`, or \
             `pgbouncer=true` in the URL",
        )),
    }
}

/// Reads a value that is always there.
pub(crate) fn value<'r, T>(row: &'r PgRow, index: usize, verb: Verb) -> Result<T, StoreError>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(index).map_err(|_| {
        StoreError::new(ErrorKind::WrongSchema, verb, "the server's answer has another form")
    })
}

fn corrupt(column: &'static str, verb: Verb) -> StoreError {
    let detail = format!("a record cannot be read: its {column} is not what was written");
    StoreError::new(ErrorKind::CorruptRecord, verb, detail)
}

/// The column that is not what this crate writes there.
struct Corrupt(&'static str);

fn read_answer(row: &PgRow) -> Result<Answer, Corrupt> {
    let fields = Fields(row);
    let done: Option<String> = row.try_get(2).map_err(|_| Corrupt("answer"))?;
    let seen_at: Option<i64> = row.try_get(3).map_err(|_| Corrupt("answer"))?;
    let there: Option<Vec<u8>> = fields.get(0, "scope")?;
    Ok(Answer {
        now: Timestamp::from_unix_micros(row.try_get(1).map_err(|_| Corrupt("answer"))?),
        done: done.zip(seen_at.map(Timestamp::from_unix_micros)),
        record: there.map(|_| record(&fields)).transpose()?,
    })
}

fn record(fields: &Fields<'_>) -> Result<Record, Corrupt> {
    let scheme = u8::try_from(fields.need::<i16>(3, "scheme")?).map_err(|_| Corrupt("scheme"))?;
    Ok(Record {
        scope: Scope::from_bytes(fields.need::<Vec<u8>>(0, "scope")?)
            .map_err(|_| Corrupt("scope"))?,
        key: Key::opaque(fields.need::<Vec<u8>>(1, "key")?).map_err(|_| Corrupt("key"))?,
        operation: operation(fields.need(2, "operation")?)?,
        fingerprint: Fingerprint::from_parts(Scheme::from_byte(scheme), fields.array(4, "digest")?),
        input: fields.sealed(17, "input")?,
        attempt: positive(fields.need(5, "attempt")?, "attempt")?,
        owner: Owner::from_bytes(fields.array(6, "owner")?),
        incarnation: Incarnation::from_bytes(fields.array(7, "incarnation")?),
        created_at: fields.time(8, "created_at")?,
        retention: retention(fields)?,
        marks_begun: fields.need(11, "marks_begun")?,
        state: state(fields)?,
    })
}

fn operation(bytes: Vec<u8>) -> Result<OperationName, Corrupt> {
    let name = String::from_utf8(bytes).map_err(|_| Corrupt("operation"))?;
    OperationName::new(name).map_err(|_| Corrupt("operation"))
}

fn retention(fields: &Fields<'_>) -> Result<Retention, Corrupt> {
    let total = fields.duration(9, "retention")?;
    let after_completion = fields.duration(10, "retention_after_completion")?;
    match (total, after_completion) {
        (Some(total), Some(least)) => Ok(Retention::at_least(total, least)),
        (None, None) => Ok(Retention::Forever),
        _ => Err(Corrupt("retention")),
    }
}

fn state(fields: &Fields<'_>) -> Result<State, Corrupt> {
    let Some(completed_at) = fields.get::<i64>(15, "completed_at")? else {
        fields.absent(16, "expires_at")?;
        fields.absent(19, "reply")?;
        return Ok(State::InProgress {
            locked_until: fields.time(12, "locked_until")?,
            given_up: fields.need(13, "given_up")?,
            recovery: recovery(fields)?,
        });
    };
    fields.absent(17, "input")?;
    fields.absent(18, "recovery")?;
    let expires_at: Option<i64> = fields.get(16, "expires_at")?;
    if expires_at.is_none() != fields.get::<i64>(9, "retention")?.is_none() {
        return Err(Corrupt("expires_at"));
    }
    Ok(State::Completed {
        reply: fields.sealed(19, "reply")?.ok_or(Corrupt("reply"))?,
        completed_at: Timestamp::from_unix_micros(completed_at),
        expires_at: expires_at.map(Timestamp::from_unix_micros),
    })
}

fn recovery(fields: &Fields<'_>) -> Result<Option<Recovery>, Corrupt> {
    match (fields.get(14, "recovery_number")?, fields.sealed(18, "recovery")?) {
        (None, None) => Ok(None),
        (Some(number), Some(payload)) => {
            Ok(Some(Recovery { number: positive(number, "recovery_number")?, payload }))
        }
        _ => Err(Corrupt("recovery")),
    }
}

fn positive(number: i64, column: &'static str) -> Result<u32, Corrupt> {
    u32::try_from(number).ok().filter(|number| *number > 0).ok_or(Corrupt(column))
}

/// The columns of a record, by their place in it.
struct Fields<'r>(&'r PgRow);

impl<'r> Fields<'r> {
    fn get<T>(&self, place: usize, column: &'static str) -> Result<Option<T>, Corrupt>
    where
        T: Decode<'r, Postgres> + Type<Postgres>,
    {
        self.0.try_get(RECORD_AT + place).map_err(|_| Corrupt(column))
    }

    fn need<T>(&self, place: usize, column: &'static str) -> Result<T, Corrupt>
    where
        T: Decode<'r, Postgres> + Type<Postgres>,
    {
        self.get(place, column)?.ok_or(Corrupt(column))
    }

    fn absent(&self, place: usize, column: &'static str) -> Result<(), Corrupt> {
        use sqlx::ValueRef;
        match self.0.try_get_raw(RECORD_AT + place) {
            Ok(value) if value.is_null() => Ok(()),
            _ => Err(Corrupt(column)),
        }
    }

    fn time(&self, place: usize, column: &'static str) -> Result<Timestamp, Corrupt> {
        self.need(place, column).map(Timestamp::from_unix_micros)
    }

    fn duration(&self, place: usize, column: &'static str) -> Result<Option<Duration>, Corrupt> {
        let Some(micros) = self.get::<i64>(place, column)? else { return Ok(None) };
        let duration = u64::try_from(micros).map(Duration::from_micros);
        match duration {
            Ok(duration) if duration <= MAX_DURATION => Ok(Some(duration)),
            _ => Err(Corrupt(column)),
        }
    }

    fn sealed(&self, place: usize, column: &'static str) -> Result<Option<Sealed>, Corrupt> {
        Ok(self.get::<Vec<u8>>(place, column)?.map(Sealed::from_bytes))
    }

    fn array<const N: usize>(
        &self,
        place: usize,
        column: &'static str,
    ) -> Result<[u8; N], Corrupt> {
        self.need::<Vec<u8>>(place, column)?.try_into().map_err(|_| Corrupt(column))
    }
}
