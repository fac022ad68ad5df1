//! How a record stands in its file: JSON, so that a person can read it in the night.

use std::error::Error;
use std::io;
use std::time::Duration;

use idem_core::codec::Sealed;
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Incarnation, OperationName, Owner, Record, Recovery, Retention, State};
use idem_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Another number is another layout, and is not guessed at.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    scope: String,
    key: Vec<u8>,
    operation: String,
    fingerprint: (u8, [u8; 32]),
    input: Option<Vec<u8>>,
    attempt: u32,
    owner: [u8; 16],
    incarnation: [u8; 16],
    created_at: i64,
    retention: Option<(Duration, Duration)>,
    marks_begun: bool,
    state: StoredState,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum StoredState {
    InProgress { locked_until: i64, given_up: bool, recovery: Option<(u32, Vec<u8>)> },
    Completed { reply: Vec<u8>, completed_at: i64, expires_at: Option<i64> },
}

/// The bytes of a record's file.
pub(crate) fn encode(record: &Record) -> io::Result<Vec<u8>> {
    let bytes = |sealed: &Sealed| sealed.as_bytes().to_vec();
    Ok(serde_json::to_vec(&Stored {
        format: FORMAT,
        scope: record.scope.as_str().to_owned(),
        key: record.key.as_bytes().to_vec(),
        operation: record.operation.as_str().to_owned(),
        fingerprint: (record.fingerprint.scheme().as_byte(), *record.fingerprint.digest()),
        input: record.input.as_ref().map(bytes),
        attempt: record.attempt,
        owner: *record.owner.as_bytes(),
        incarnation: *record.incarnation.as_bytes(),
        created_at: record.created_at.as_unix_micros(),
        retention: match record.retention {
            Retention::For { total, after_completion } => Some((total, after_completion)),
            _ => None,
        },
        marks_begun: record.marks_begun,
        state: match &record.state {
            State::InProgress { locked_until, given_up, recovery } => StoredState::InProgress {
                locked_until: locked_until.as_unix_micros(),
                given_up: *given_up,
                recovery: recovery.as_ref().map(|it| (it.number, bytes(&it.payload))),
            },
            State::Completed { reply, completed_at, expires_at } => StoredState::Completed {
                reply: bytes(reply),
                completed_at: completed_at.as_unix_micros(),
                expires_at: expires_at.map(Timestamp::as_unix_micros),
            },
        },
    })?)
}

/// The record in these bytes. Whatever is not one is an error, never an absent record.
pub(crate) fn decode(bytes: &[u8]) -> Result<Record, Box<dyn Error + Send + Sync>> {
    let stored: Stored = serde_json::from_slice(bytes)?;
    if stored.format != FORMAT || stored.attempt == 0 {
        return Err("not a record of this format".into());
    }
    Ok(Record {
        scope: Scope::new(stored.scope)?,
        key: Key::opaque(stored.key)?,
        operation: OperationName::new(stored.operation)?,
        fingerprint: Fingerprint::from_parts(
            Scheme::from_byte(stored.fingerprint.0),
            stored.fingerprint.1,
        ),
        input: stored.input.map(Sealed::from_bytes),
        attempt: stored.attempt,
        owner: Owner::from_bytes(stored.owner),
        incarnation: Incarnation::from_bytes(stored.incarnation),
        created_at: Timestamp::from_unix_micros(stored.created_at),
        retention: stored
            .retention
            .map_or(Retention::Forever, |(total, least)| Retention::at_least(total, least)),
        marks_begun: stored.marks_begun,
        state: match stored.state {
            StoredState::InProgress { locked_until, given_up, recovery } => State::InProgress {
                locked_until: Timestamp::from_unix_micros(locked_until),
                given_up,
                recovery: recovery.map(|(number, payload)| Recovery {
                    number,
                    payload: Sealed::from_bytes(payload),
                }),
            },
            StoredState::Completed { reply, completed_at, expires_at } => State::Completed {
                reply: Sealed::from_bytes(reply),
                completed_at: Timestamp::from_unix_micros(completed_at),
                expires_at: expires_at.map(Timestamp::from_unix_micros),
            },
        },
    })
}
