//! A record as a row and back. What does not read as a record fails closed (R9).

use std::time::Duration;

use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Incarnation, OperationName, Owner, Record, Recovery, Retention, State};
use idem_core::time::{MAX_DURATION, Timestamp, micros};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite, TypeInfo, ValueRef};

const IN_PROGRESS: i64 = 0;
const COMPLETED: i64 = 1;

/// Binds a record's columns, in the order of the statements.
pub(crate) fn bind<'q>(
    query: Query<'q, Sqlite, SqliteArguments>,
    record: &'q Record,
) -> Query<'q, Sqlite, SqliteArguments> {
    let query = query
        .bind(record.scope.as_bytes())
        .bind(record.key.as_bytes())
        .bind(record.operation.as_str().as_bytes())
        .bind(i64::from(record.fingerprint.scheme().as_byte()))
        .bind(record.fingerprint.digest().as_slice())
        .bind(i64::from(record.attempt))
        .bind(record.owner.as_bytes().as_slice())
        .bind(record.incarnation.as_bytes().as_slice())
        .bind(record.created_at.as_unix_micros());
    let (retention, after_completion) = match record.retention {
        Retention::For { total, after_completion } => {
            (Some(micros(total)), Some(micros(after_completion)))
        }
        _ => (None, None),
    };
    let query = query.bind(retention).bind(after_completion).bind(record.marks_begun);
    let input = record.input.as_ref().map(Sealed::as_bytes);
    match &record.state {
        State::InProgress { locked_until, given_up, recovery } => query
            .bind(IN_PROGRESS)
            .bind(locked_until.as_unix_micros())
            .bind(*given_up)
            .bind(recovery.as_ref().map(|recovery| i64::from(recovery.number)))
            .bind(None::<i64>)
            .bind(None::<i64>)
            .bind(input)
            .bind(recovery.as_ref().map(|recovery| recovery.payload.as_bytes()))
            .bind(None::<&[u8]>),
        State::Completed { reply, completed_at, expires_at } => query
            .bind(COMPLETED)
            .bind(None::<i64>)
            .bind(None::<bool>)
            .bind(None::<i64>)
            .bind(completed_at.as_unix_micros())
            .bind(expires_at.map(Timestamp::as_unix_micros))
            .bind(input)
            .bind(None::<&[u8]>)
            .bind(reply.as_bytes()),
    }
}

/// Reads a record, or says which column is not what this crate writes there.
pub(crate) fn decode(row: &SqliteRow, verb: Verb) -> Result<Record, StoreError> {
    read(row).map_err(|Corrupt(column)| {
        let detail = format!("a record cannot be read: its {column} is not what was written");
        StoreError::new(ErrorKind::CorruptRecord, verb, detail)
    })
}

/// How many bytes of a record are not bounded by its columns.
pub(crate) fn payload_bytes(record: &Record) -> usize {
    let state = match &record.state {
        State::InProgress { recovery, .. } => {
            recovery.as_ref().map_or(0, |recovery| recovery.payload.len())
        }
        State::Completed { reply, .. } => reply.len(),
    };
    record.input.as_ref().map_or(0, Sealed::len) + state
}

/// The column that cannot be read; never what it holds (R24).
struct Corrupt(&'static str);

fn read(row: &SqliteRow) -> Result<Record, Corrupt> {
    let fields = Fields(row);
    Ok(Record {
        scope: Scope::from_bytes(fields.bytes(0, "scope")?).map_err(|_| Corrupt("scope"))?,
        key: Key::opaque(fields.bytes(1, "key")?).map_err(|_| Corrupt("key"))?,
        operation: operation(fields.bytes(2, "operation")?)?,
        fingerprint: Fingerprint::from_parts(
            Scheme::from_byte(fields.number(3, "scheme")?),
            fields.array(4, "digest")?,
        ),
        attempt: positive(fields.number(5, "attempt")?, "attempt")?,
        owner: Owner::from_bytes(fields.array(6, "owner")?),
        incarnation: Incarnation::from_bytes(fields.array(7, "incarnation")?),
        created_at: fields.time(8, "created_at")?,
        retention: retention(&fields)?,
        marks_begun: fields.flag(11, "marks_begun")?,
        input: fields.optional_bytes(18, "input")?.map(Sealed::from_bytes),
        state: state(&fields)?,
    })
}

fn operation(bytes: Vec<u8>) -> Result<OperationName, Corrupt> {
    let name = String::from_utf8(bytes).map_err(|_| Corrupt("operation"))?;
    OperationName::new(name).map_err(|_| Corrupt("operation"))
}

fn retention(fields: &Fields<'_>) -> Result<Retention, Corrupt> {
    let total = fields.optional_duration(9, "retention")?;
    let after_completion = fields.optional_duration(10, "retention_after_completion")?;
    match (total, after_completion) {
        (Some(total), Some(least)) => Ok(Retention::at_least(total, least)),
        (None, None) => Ok(Retention::Forever),
        _ => Err(Corrupt("retention")),
    }
}

fn state(fields: &Fields<'_>) -> Result<State, Corrupt> {
    match fields.integer(12, "state")? {
        IN_PROGRESS => {
            for (index, column) in [(16, "completed_at"), (17, "expires_at"), (20, "reply")] {
                fields.absent(index, column)?;
            }
            Ok(State::InProgress {
                locked_until: fields.time(13, "locked_until")?,
                given_up: fields.flag(14, "given_up")?,
                recovery: recovery(fields)?,
            })
        }
        COMPLETED => {
            let in_progress = [
                (13, "locked_until"),
                (14, "given_up"),
                (15, "recovery_number"),
                (18, "input"),
                (19, "recovery"),
            ];
            for (index, column) in in_progress {
                fields.absent(index, column)?;
            }
            let expires_at = fields.optional_integer(17, "expires_at")?;
            if expires_at.is_none() != fields.is_null(9, "retention")? {
                return Err(Corrupt("expires_at"));
            }
            Ok(State::Completed {
                reply: Sealed::from_bytes(fields.bytes(20, "reply")?),
                completed_at: fields.time(16, "completed_at")?,
                expires_at: expires_at.map(Timestamp::from_unix_micros),
            })
        }
        _ => Err(Corrupt("state")),
    }
}

fn recovery(fields: &Fields<'_>) -> Result<Option<Recovery>, Corrupt> {
    let number = fields.optional_integer(15, "recovery_number")?;
    let payload = fields.optional_bytes(19, "recovery")?;
    match (number, payload) {
        (None, None) => Ok(None),
        (Some(number), Some(payload)) => {
            let number = u32::try_from(number).map_err(|_| Corrupt("recovery_number"))?;
            let number = positive(number, "recovery_number")?;
            Ok(Some(Recovery { number, payload: Sealed::from_bytes(payload) }))
        }
        _ => Err(Corrupt("recovery")),
    }
}

fn positive(number: u32, column: &'static str) -> Result<u32, Corrupt> {
    if number == 0 { Err(Corrupt(column)) } else { Ok(number) }
}

/// A row read by position, each value only as the type that was written. The driver alone would
/// read text as a blob.
struct Fields<'r>(&'r SqliteRow);

impl Fields<'_> {
    fn is_null(&self, index: usize, column: &'static str) -> Result<bool, Corrupt> {
        Ok(self.0.try_get_raw(index).map_err(|_| Corrupt(column))?.is_null())
    }

    fn absent(&self, index: usize, column: &'static str) -> Result<(), Corrupt> {
        if self.is_null(index, column)? { Ok(()) } else { Err(Corrupt(column)) }
    }

    fn is_of(&self, index: usize, type_name: &str, column: &'static str) -> Result<bool, Corrupt> {
        let value = self.0.try_get_raw(index).map_err(|_| Corrupt(column))?;
        match value.is_null() {
            true => Ok(false),
            false if value.type_info().name() == type_name => Ok(true),
            false => Err(Corrupt(column)),
        }
    }

    fn optional_integer(&self, index: usize, column: &'static str) -> Result<Option<i64>, Corrupt> {
        match self.is_of(index, "INTEGER", column)? {
            true => self.0.try_get(index).map(Some).map_err(|_| Corrupt(column)),
            false => Ok(None),
        }
    }

    fn integer(&self, index: usize, column: &'static str) -> Result<i64, Corrupt> {
        self.optional_integer(index, column)?.ok_or(Corrupt(column))
    }

    fn number<N: TryFrom<i64>>(&self, index: usize, column: &'static str) -> Result<N, Corrupt> {
        N::try_from(self.integer(index, column)?).map_err(|_| Corrupt(column))
    }

    fn flag(&self, index: usize, column: &'static str) -> Result<bool, Corrupt> {
        match self.integer(index, column)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Corrupt(column)),
        }
    }

    fn time(&self, index: usize, column: &'static str) -> Result<Timestamp, Corrupt> {
        self.integer(index, column).map(Timestamp::from_unix_micros)
    }

    fn optional_duration(
        &self,
        index: usize,
        column: &'static str,
    ) -> Result<Option<Duration>, Corrupt> {
        let Some(micros) = self.optional_integer(index, column)? else { return Ok(None) };
        let duration =
            u64::try_from(micros).map(Duration::from_micros).map_err(|_| Corrupt(column))?;
        if duration > MAX_DURATION { Err(Corrupt(column)) } else { Ok(Some(duration)) }
    }

    fn optional_bytes(
        &self,
        index: usize,
        column: &'static str,
    ) -> Result<Option<Vec<u8>>, Corrupt> {
        match self.is_of(index, "BLOB", column)? {
            true => self.0.try_get(index).map(Some).map_err(|_| Corrupt(column)),
            false => Ok(None),
        }
    }

    fn bytes(&self, index: usize, column: &'static str) -> Result<Vec<u8>, Corrupt> {
        self.optional_bytes(index, column)?.ok_or(Corrupt(column))
    }

    fn array<const N: usize>(
        &self,
        index: usize,
        column: &'static str,
    ) -> Result<[u8; N], Corrupt> {
        self.bytes(index, column)?.try_into().map_err(|_| Corrupt(column))
    }
}
