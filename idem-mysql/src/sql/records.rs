//! Statements about one record, by its key.

use super::Find;

/// How many records a statement of a batch takes, largest first.
pub(crate) const CHUNKS: [usize; 4] = [64, 16, 4, 1];

/// The columns of a record that are never long, in the order in which they are read.
const SHORT: &str = "scope, record_key, operation, scheme, digest, attempt, owner, incarnation, \
     revision, created_at, retention, retention_after_completion, marks_begun, locked_until, \
     given_up, recovery_number, completed_at, expires_at";

/// The columns that an insert writes.
const WRITTEN: &str = "scope, record_key, operation, scheme, digest, attempt, owner, incarnation, \
     revision, created_at, retention, retention_after_completion, marks_begun, locked_until, \
     given_up, sweep_after, input";

/// The record as it was read.
const AS_READ: &str = "scope = ? AND record_key = ? AND incarnation = ? AND revision = ?";

/// Which of the long columns a statement reads. Those that it does not are shown as empty, so that
/// whether they are there is still seen.
pub(super) fn columns(input: bool, recovery: bool, reply: bool) -> String {
    let long = [("input", input), ("recovery", recovery), ("reply", reply)];
    let long = long.map(|(column, wanted)| match wanted {
        true => column.to_owned(),
        false => format!("LEFT({column}, 0) AS {column}"),
    });
    format!("{SHORT}, {}", long.join(", "))
}

/// Scope and key. The time comes first.
pub(super) fn find(records: &str, now: &str, lock: &str) -> Find {
    let find = |columns: String| {
        format!("SELECT {now}, {columns} FROM {records} WHERE scope = ? AND record_key = ?{lock}")
    };
    Find {
        all: find(columns(true, true, true)),
        short: find(columns(false, false, false)),
        with_recovery: find(columns(false, true, false)),
        with_reply: find(columns(false, false, true)),
    }
}

/// The values of a new life at the server's time: scope, key, operation, scheme, digest, owner,
/// nonce, retention, its minimum after completion, marks begun, lease, the span until a sweep,
/// input.
///
/// The incarnation is made of the server's time and the caller's randomness, so that a copy of the
/// statement that arrives later makes another. `LAST_INSERT_ID` hands the time back with the
/// acknowledgement. The caller works out the incarnation from it as the server did.
fn values(now: &str) -> String {
    format!(
        "?, ?, ?, CAST(? AS SIGNED), ?, 1, ?, \
         LEFT(UNHEX(SHA2(CONCAT(?, {now}), 256)), 16), 0, LAST_INSERT_ID({now}), \
         CAST(? AS SIGNED), CAST(? AS SIGNED), CAST(? AS SIGNED), {now} + CAST(? AS SIGNED), 0, \
         {now} + CAST(? AS SIGNED), ?"
    )
}

/// [`values`], then scope and key. Under READ COMMITTED the row that is there is seen without a
/// lock, so that a duplicate waits for nobody; of two that see none, one inserts and the other is
/// told that the row is there.
pub(super) fn insert(records: &str, now: &str) -> String {
    let values = values(now);
    format!(
        "INSERT INTO {records} ({WRITTEN}) SELECT {values} FROM DUAL WHERE NOT EXISTS \
         (SELECT 1 FROM {records} standing WHERE standing.scope = ? AND standing.record_key = ?)"
    )
}

/// [`values`]. The row that is there is locked at once for writing: a plain insert would lock it
/// for reading, and two that then write would be each other's deadlock.
pub(super) fn insert_or_lock(records: &str, now: &str) -> String {
    let values = values(now);
    format!(
        "INSERT INTO {records} ({WRITTEN}) SELECT {values} FROM DUAL WHERE TRUE \
         ON DUPLICATE KEY UPDATE revision = {records}.revision"
    )
}

/// How far [`hold`] moves the revision: farther than other writes ever do while a transaction is
/// open, so that what is found tells whether the hold stands.
const HOLD_STEP: i64 = 1_000_000;

/// Scope, key, incarnation, attempt, owner. Locks the record and hands its new revision back. That
/// is all that it writes: it stands where the transaction was committed, and is gone where it was
/// rolled back, by whomever.
pub(super) fn hold(records: &str) -> String {
    format!(
        "UPDATE {records} SET revision = LAST_INSERT_ID(revision + {HOLD_STEP}) \
         WHERE scope = ? AND record_key = ? AND incarnation = ? AND attempt = ? AND owner = ? \
         AND completed_at IS NULL"
    )
}

/// Attempt, owner, marks begun, locked until, given up.
pub(super) fn set_lease(records: &str) -> String {
    format!(
        "UPDATE {records} SET revision = revision + 1, attempt = ?, owner = ?, marks_begun = ?, \
         locked_until = ?, given_up = ? WHERE {AS_READ}"
    )
}

/// Locked until, given up, number, payload.
pub(super) fn set_recovery(records: &str) -> String {
    format!(
        "UPDATE {records} SET revision = revision + 1, locked_until = ?, given_up = ?, \
         recovery_number = ?, recovery = ? WHERE {AS_READ}"
    )
}

/// Completed at, expires at, reply.
pub(super) fn set_reply(records: &str) -> String {
    format!(
        "UPDATE {records} SET revision = revision + 1, locked_until = NULL, given_up = NULL, \
         recovery_number = NULL, recovery = NULL, input = NULL, completed_at = ?, \
         expires_at = ?, reply = ? WHERE {AS_READ}"
    )
}

/// Operation, scheme, digest, owner, incarnation, created at, retention, its minimum after
/// completion, marks begun, locked until, sweep after, input.
pub(super) fn make_anew(records: &str) -> String {
    format!(
        "UPDATE {records} SET revision = revision + 1, operation = ?, scheme = ?, digest = ?, \
         attempt = 1, owner = ?, created_at = ?, retention = ?, retention_after_completion = ?, \
         marks_begun = ?, locked_until = ?, given_up = 0, recovery_number = NULL, \
         recovery = NULL, completed_at = NULL, expires_at = NULL, reply = NULL, \
         sweep_after = ?, input = ?, incarnation = ? WHERE {AS_READ}"
    )
}

pub(super) fn delete(records: &str) -> String {
    format!("DELETE FROM {records} WHERE {AS_READ}")
}

/// Scope, key, incarnation, attempt, owner: whether it reads as a record or not, a person asked.
pub(super) fn remove(records: &str) -> String {
    format!(
        "DELETE FROM {records} WHERE scope = ? AND record_key = ? AND incarnation = ? \
         AND attempt = ? AND owner = ?"
    )
}

/// Locks those that stand as they were read, and passes over what another has locked.
pub(super) fn lock_chunk(records: &str, size: usize) -> String {
    let chunk = chunk(size);
    format!(
        "SELECT scope, record_key, incarnation, revision FROM {records} WHERE {chunk} \
         FOR UPDATE SKIP LOCKED"
    )
}

pub(super) fn delete_chunk(records: &str, size: usize) -> String {
    let chunk = chunk(size);
    format!("DELETE FROM {records} WHERE {chunk}")
}

fn chunk(size: usize) -> String {
    vec![format!("({AS_READ})"); size].join(" OR ")
}
