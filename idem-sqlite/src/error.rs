//! What SQLite and its driver report, sorted by what the caller may do about it (R9).

use idem_core::error::{ErrorKind, StoreError, Verb};
use sqlx::Error;

// https://www.sqlite.org/rescode.html
const ERROR: i32 = 1;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const READONLY: i32 = 8;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const TOOBIG: i32 = 18;
const CONSTRAINT: i32 = 19;
const NOTADB: i32 = 26;
/// The shared-memory file could not grow: with a full disk this comes before `FULL`.
const IOERR_SHMSIZE: i32 = 10 | 19 << 8;
const CONSTRAINT_COMMITHOOK: i32 = 19 | 2 << 8;

/// The error of a statement that ran before any COMMIT: nothing of the transaction was written,
/// whatever failed.
pub(crate) fn before_commit(verb: Verb, error: Error) -> StoreError {
    let (kind, detail) = match &error {
        Error::Database(_) => of_code(verb, code(&error)),
        Error::PoolTimedOut => (ErrorKind::NotApplied, "no connection was free in time"),
        Error::PoolClosed => (ErrorKind::NotApplied, "the store is closed"),
        Error::Configuration(_) => {
            // The driver's text may repeat the URL.
            let detail = "the address is not one of an SQLite database";
            return StoreError::new(ErrorKind::InvalidInput, verb, detail);
        }
        _ => (ErrorKind::NotApplied, "the connection to the database failed"),
    };
    StoreError::new(kind, verb, detail).with_source(error)
}

/// The error of a COMMIT. SQLite keeps the transaction open only where it says `BUSY`, and it is
/// then rolled back; after anything else nobody can say what reached the disk.
pub(crate) fn at_commit(verb: Verb, error: Error) -> StoreError {
    if primary(code(&error)) == BUSY {
        return before_commit(verb, error);
    }
    let detail = match primary(code(&error)) {
        FULL => "the disk was full at the commit, which may have happened",
        _ => "the commit failed and may have happened",
    };
    StoreError::new(ErrorKind::OutcomeUnknown, verb, detail).with_source(error)
}

/// Whether the disk or the quota is full.
pub(crate) fn is_full(error: &Error) -> bool {
    primary(code(error)) == FULL
}

/// A write to one row that did not change one row: a trigger of somebody else's.
pub(crate) fn interfered(verb: Verb) -> StoreError {
    let detail = "the store's table did not take what this build wrote";
    StoreError::new(ErrorKind::WrongSchema, verb, detail)
}

/// Whether somebody else holds the lock.
pub(crate) fn is_busy(error: &Error) -> bool {
    matches!(primary(code(error)), BUSY | LOCKED)
}

/// Whether a table's own constraint refused a row.
pub(crate) fn is_constraint(error: &Error) -> bool {
    primary(code(error)) == CONSTRAINT && code(error) != CONSTRAINT_COMMITHOOK
}

fn of_code(verb: Verb, code: i32) -> (ErrorKind, &'static str) {
    match (code, primary(code)) {
        (IOERR_SHMSIZE, _) | (_, FULL) => {
            (ErrorKind::StoreFull, "the database or its disk has no room")
        }
        (CONSTRAINT_COMMITHOOK, _) => (ErrorKind::NotApplied, ROLLED_BACK),
        (_, BUSY | LOCKED) => {
            (ErrorKind::NotApplied, "another connection held the database for too long")
        }
        (_, READONLY) => {
            (ErrorKind::WrongSchema, "the database file, or its directory, cannot be written")
        }
        (_, CANTOPEN) if verb == Verb::Open || verb == Verb::Preflight => {
            (ErrorKind::WrongSchema, "the database file cannot be opened or created")
        }
        (_, NOTADB) => (ErrorKind::WrongSchema, "the file is not an SQLite database"),
        (_, ERROR) => (
            ErrorKind::WrongSchema,
            "the store's tables are missing or not as this build made them",
        ),
        (_, CONSTRAINT) => {
            (ErrorKind::WrongSchema, "the store's tables refuse what this build writes")
        }
        (_, CORRUPT) => (ErrorKind::CorruptRecord, "the database file is damaged"),
        (_, TOOBIG) => (ErrorKind::InvalidInput, "a value is larger than SQLite takes"),
        _ => (ErrorKind::NotApplied, "the database could not carry out the statement"),
    }
}

/// SQLite takes a whole transaction back by itself after some errors.
pub(crate) const ROLLED_BACK: &str =
    "the transaction was rolled back before, and nothing in it was written";

/// The extended result code; 0 when the error is not SQLite's.
fn code(error: &Error) -> i32 {
    let code = error.as_database_error().and_then(|error| error.code());
    code.and_then(|code| code.parse().ok()).unwrap_or(0)
}

fn primary(code: i32) -> i32 {
    code & 0xff
}
