//! A record as a row and back.

use std::time::Duration;

use idem_core::claim::{Claim, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{
    Fence, Incarnation, OperationName, Owner, Record, Recovery, Retention, State,
};
use idem_core::time::{Timestamp, bounded_lease, micros};
use idem_testkit::fixture::SetupError;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// One parameter of a statement.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Bytes(Option<Vec<u8>>),
    Number(Option<i64>),
    Text(String),
}

pub(crate) fn bytes(bytes: impl AsRef<[u8]>) -> Value {
    Value::Bytes(Some(bytes.as_ref().to_vec()))
}

pub(crate) fn number(number: impl Into<i64>) -> Value {
    Value::Number(Some(number.into()))
}

/// The parameters of the statements of a claim.
pub(crate) fn of_claim(claim: &Claim<'_>, now: Timestamp, fresh: Incarnation) -> Vec<Value> {
    let print = claim.fingerprints.primary();
    let (retention, least) = match claim.retention {
        Retention::For { total, after_completion } => {
            (Some(micros(total)), Some(micros(after_completion)))
        }
        _ => (None, None),
    };
    let mut values = vec![
        bytes(claim.scope.as_bytes()),
        bytes(claim.key.as_bytes()),
        number(now.as_unix_micros()),
        bytes(claim.owner.as_bytes()),
        bytes(fresh.as_bytes()),
        Value::Text(claim.operation.as_str().to_owned()),
        number(print.scheme().as_byte()),
        bytes(print.digest()),
        number(now.after(bounded_lease(claim.lease)).as_unix_micros()),
        Value::Number(retention),
        Value::Number(least),
        number(claim.marks_begun),
        Value::Bytes(claim.input.map(|input| input.as_bytes().to_vec())),
        Value::Text(prints(claim)),
    ];
    values.extend(of_policy(claim.takeover));
    values
}

fn prints(claim: &Claim<'_>) -> String {
    let print = |print: Fingerprint| {
        let digest: String = print.digest().iter().map(|byte| format!("{byte:02X}")).collect();
        format!("\"{}:{digest}\"", print.scheme().as_byte())
    };
    let prints: Vec<String> = claim.fingerprints.iter().map(print).collect();
    format!("[{}]", prints.join(","))
}

fn of_policy(policy: Takeover) -> [Value; 4] {
    let age = |limit: Option<Duration>| Value::Number(limit.map(micros));
    let (name, attempt, younger_than, incarnation) = match policy {
        Takeover::Below { attempts, younger_than } => {
            ("below", attempts, Some(younger_than), Incarnation::from_bytes([0; 16]))
        }
        Takeover::Only { incarnation, attempt, younger_than } => {
            ("only", attempt, younger_than, incarnation)
        }
        _ => ("never", 0, None, Incarnation::from_bytes([0; 16])),
    };
    let name = Value::Text(name.to_owned());
    [name, number(attempt), age(younger_than), bytes(incarnation.as_bytes())]
}

/// The parameters of the statements of a fenced write.
pub(crate) fn of_fence(
    fence: &Fence,
    now: Timestamp,
    lease: Duration,
    numbered: u32,
    payload: &[u8],
) -> Vec<Value> {
    vec![
        bytes(fence.scope.as_bytes()),
        bytes(fence.key.as_bytes()),
        number(now.as_unix_micros()),
        bytes(fence.owner.as_bytes()),
        bytes(fence.incarnation.as_bytes()),
        number(fence.attempt),
        number(now.after(bounded_lease(lease)).as_unix_micros()),
        number(numbered),
        bytes(payload),
    ]
}

/// Reads a record. What cannot be read is a corrupt record.
pub(crate) fn decode(row: &SqliteRow, verb: Verb) -> Result<Record, StoreError> {
    read(row).map_err(|_| {
        let detail = "what is stored cannot be read as a record";
        StoreError::new(ErrorKind::CorruptRecord, verb, detail)
    })
}

fn read(row: &SqliteRow) -> Result<Record, SetupError> {
    let scheme = Scheme::from_byte(u8::try_from(row.try_get::<i64, _>("scheme")?)?);
    let print = Fingerprint::from_parts(scheme, array(row, "digest")?);
    let retention = match row.try_get::<Option<i64>, _>("retention")? {
        None => Retention::Forever,
        Some(total) => Retention::at_least(duration(total)?, duration(row.try_get("least")?)?),
    };
    let input: Option<Vec<u8>> = row.try_get("input")?;
    Ok(Record {
        scope: Scope::from_bytes(row.try_get::<Vec<u8>, _>("scope")?)?,
        key: Key::opaque(row.try_get::<Vec<u8>, _>("key")?)?,
        operation: OperationName::new(row.try_get::<String, _>("operation")?)?,
        fingerprint: print,
        input: input.map(Sealed::from_bytes),
        attempt: u32::try_from(row.try_get::<i64, _>("attempt")?)?,
        owner: Owner::from_bytes(array(row, "owner")?),
        incarnation: Incarnation::from_bytes(array(row, "incarnation")?),
        created_at: time(row.try_get("created_at")?),
        retention,
        marks_begun: row.try_get("marks_begun")?,
        state: state(row)?,
    })
}

fn state(row: &SqliteRow) -> Result<State, SetupError> {
    if row.try_get::<i64, _>("state")? == 1 {
        return Ok(State::Completed {
            reply: Sealed::from_bytes(row.try_get::<Vec<u8>, _>("reply")?),
            completed_at: time(row.try_get("completed_at")?),
            expires_at: row.try_get::<Option<i64>, _>("expires_at")?.map(time),
        });
    }
    let recovery = match row.try_get::<Option<i64>, _>("number")? {
        None => None,
        Some(number) => Some(Recovery {
            number: u32::try_from(number)?,
            payload: Sealed::from_bytes(row.try_get::<Vec<u8>, _>("point")?),
        }),
    };
    let given_up = row.try_get("given_up")?;
    Ok(State::InProgress { locked_until: time(row.try_get("locked_until")?), given_up, recovery })
}

fn array<const N: usize>(row: &SqliteRow, column: &str) -> Result<[u8; N], SetupError> {
    let bytes: Vec<u8> = row.try_get(column)?;
    bytes.try_into().map_err(|_| "a column of another length".into())
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_unix_micros(micros)
}

fn duration(micros: i64) -> Result<Duration, SetupError> {
    Ok(Duration::from_micros(u64::try_from(micros)?))
}
