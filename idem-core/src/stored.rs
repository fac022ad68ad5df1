//! A record as one value, for stores that keep it as one: a file, an object, a document.
//!
//! A store with a column for each field does not need this. The value is JSON, so that a person
//! can read it in the night. Its format has a number, and is a contract: what a build has written
//! in a format, every later build reads, and another layout gets another number. What stands
//! inside the input, the recovery point and the reply is the [`codec`](crate::codec)'s.
//!
//! ```
//! # use idem_core::stored::{self, StoredError};
//! // Whatever is not a record is an error, never an absent record (R9).
//! assert_eq!(stored::decode(b"").unwrap_err(), StoredError::Malformed);
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::codec::Sealed;
use crate::fingerprint::{Fingerprint, Scheme};
use crate::key::{Key, Scope};
use crate::record::{Incarnation, OperationName, Owner, Record, Recovery, Retention, State};
use crate::time::Timestamp;

/// The format that this build writes, and the only one that it reads.
pub const FORMAT: u32 = 1;

/// Why bytes are not a record. It holds nothing of what they are (R24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// They name a format that this build does not know: a newer release wrote them.
    #[error("stored in record format {format}, which this build does not know")]
    UnknownFormat {
        /// The format that they name.
        format: u32,
    },
    /// They are cut, changed, or were never a record.
    #[error("not a stored record")]
    Malformed,
}

#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

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

/// A record as bytes.
pub fn encode(record: &Record) -> Vec<u8> {
    let bytes = |sealed: &Sealed| sealed.as_bytes().to_vec();
    let stored = Stored {
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
            Retention::Forever => None,
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
    };
    serde_json::to_vec(&stored).expect("numbers, text and lists are JSON, and memory takes them")
}

/// The record in these bytes.
///
/// # Errors
/// [`StoredError`] for whatever is not exactly one record of [`FORMAT`]. A store says
/// `CorruptRecord` then, never that there is none.
pub fn decode(bytes: &[u8]) -> Result<Record, StoredError> {
    // An error of JSON's may quote what it met, and a name's error comes from a damaged name.
    let AnyFormat { format } = serde_json::from_slice(bytes).map_err(malformed)?;
    if format != FORMAT {
        return Err(StoredError::UnknownFormat { format });
    }
    let stored: Stored = serde_json::from_slice(bytes).map_err(malformed)?;
    if stored.attempt == 0 {
        return Err(StoredError::Malformed);
    }
    Ok(Record {
        scope: Scope::new(stored.scope).map_err(malformed)?,
        key: Key::opaque(stored.key).map_err(malformed)?,
        operation: OperationName::new(stored.operation).map_err(malformed)?,
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

fn malformed<E>(_: E) -> StoredError {
    StoredError::Malformed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_byte() -> Vec<u8> {
        (0..=u8::MAX).collect()
    }

    fn record(input: Option<Vec<u8>>, retention: Retention, state: State) -> Record {
        Record {
            scope: Scope::new("acct \"1\"\u{e9}").unwrap(),
            key: Key::opaque(&every_byte()[..255]).unwrap(),
            operation: OperationName::new("orders.create").unwrap(),
            fingerprint: Fingerprint::from_parts(Scheme::from_byte(200), [7; 32]),
            input: input.map(Sealed::from_bytes),
            attempt: 3,
            owner: Owner::from_bytes([1; 16]),
            incarnation: Incarnation::from_bytes([255; 16]),
            created_at: Timestamp::from_unix_micros(-1),
            retention,
            marks_begun: true,
            state,
        }
    }

    fn states() -> Vec<State> {
        let at = Timestamp::from_unix_micros;
        let recovery = |payload| Some(Recovery { number: 2, payload: Sealed::from_bytes(payload) });
        let held = |given_up, recovery| State::InProgress {
            locked_until: at(i64::MAX),
            given_up,
            recovery,
        };
        let done = |reply, expires_at| State::Completed {
            reply: Sealed::from_bytes(reply),
            completed_at: at(i64::MIN),
            expires_at,
        };
        vec![
            held(false, None),
            held(true, recovery(vec![])),
            held(false, recovery(every_byte())),
            done(every_byte(), Some(at(5))),
            done(vec![], None),
        ]
    }

    fn changed(from: &str, to: &str) -> Result<Record, StoredError> {
        let bytes = encode(&record(None, Retention::Forever, states().remove(0)));
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(from), "{text}");
        decode(text.replacen(from, to, 1).as_bytes())
    }

    #[test]
    fn every_record_comes_back_as_it_was() {
        let retentions = [
            Retention::Forever,
            Retention::of(Duration::ZERO),
            Retention::at_least(Duration::from_nanos(1_500_000_001), Duration::MAX),
        ];
        for state in states() {
            for retention in retentions {
                for input in [None, Some(vec![]), Some(every_byte())] {
                    let record = record(input, retention, state.clone());
                    assert_eq!(decode(&encode(&record)).unwrap(), record);
                }
            }
        }
    }

    #[test]
    fn what_format_1_wrote_is_read_by_every_later_build() {
        let zeros = vec!["0"; 32].join(",");
        let token = vec!["9"; 16].join(",");
        let text = format!(
            r#"{{"format":1,"scope":"a","key":[98,0],"operation":"c","fingerprint":[1,[{zeros}]],
            "input":[4],"attempt":1,"owner":[{token}],"incarnation":[{token}],"created_at":10,
            "retention":[{{"secs":60,"nanos":5}},{{"secs":0,"nanos":0}}],"marks_begun":false,
            "state":{{"Completed":{{"reply":[1,2],"completed_at":20,"expires_at":null}}}}}}"#
        );
        let read = decode(text.as_bytes()).unwrap();
        assert_eq!((read.scope.as_str(), read.key.as_bytes()), ("a", &b"b\0"[..]));
        assert_eq!(read.retention, Retention::of(Duration::new(60, 5)));
        assert!(
            matches!(&read.state, State::Completed { reply, .. } if reply.as_bytes() == [1, 2])
        );
        let written = String::from_utf8(encode(&read)).unwrap();
        assert_eq!(written, text.split_whitespace().collect::<String>());
    }

    #[test]
    fn bytes_that_are_cut_anywhere_are_refused_and_so_is_more_than_a_record() {
        for state in states() {
            let mut bytes = encode(&record(Some(vec![0]), Retention::Forever, state));
            for length in 0..bytes.len() {
                assert_eq!(decode(&bytes[..length]), Err(StoredError::Malformed), "{length}");
            }
            bytes.push(b'}');
            assert_eq!(decode(&bytes), Err(StoredError::Malformed));
        }
    }

    #[test]
    fn what_no_build_of_this_format_writes_is_refused() {
        for (from, to) in [
            ("\"attempt\":3", "\"attempt\":0"),
            ("\"attempt\":3", "\"attempt\":3,\"later\":1"),
            ("\"given_up\":", "\"later\":1,\"given_up\":"),
            ("\"key\":[", "\"key\":[256,"),
            ("\"key\":[", "\"key\":[],\"input\":["),
            ("\"operation\":\"orders.create\"", "\"operation\":\"\""),
            ("InProgress", "Elsewhere"),
            ("\"marks_begun\":true,", ""),
        ] {
            assert_eq!(changed(from, to), Err(StoredError::Malformed), "{to}");
        }
    }

    #[test]
    fn another_format_is_named_whatever_its_fields_are() {
        let later = Err(StoredError::UnknownFormat { format: 2 });
        assert_eq!(changed("\"format\":1", "\"format\":2"), later);
        assert_eq!(decode(br#"{"format":2,"unheard":"of"}"#), later);
        assert_eq!(changed("\"format\":1,", ""), Err(StoredError::Malformed));
    }

    #[test]
    fn an_error_says_nothing_of_the_content() {
        let error = changed("\"attempt\":3", "\"secret\":\"secret\"").unwrap_err();
        assert!(std::error::Error::source(&error).is_none());
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
}
