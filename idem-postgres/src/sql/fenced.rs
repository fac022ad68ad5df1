//! The verbs that are conditional on the whole fence (R8).
//!
//! Each takes `$1` its own name, `$2` scope, `$3` key, `$4` incarnation, `$5` attempt, `$6` owner
//! and `$7` the bound on waits; what else it takes is said at each.

use super::{CLOCK, Payloads, answer, bound, columns, is_sound, stands};

const FENCE: &str = "r.scope = $2::bytea AND r.key = $3::bytea AND r.incarnation = $4::bytea \
     AND r.attempt = $5::bigint AND r.owner = $6::bytea";

/// Locks the record where `condition` holds, and sets `changes` at the time after the lock: `l`
/// is the row as it stood, `l.locked_at` that time.
fn change(records: &str, name: &str, condition: &str, changes: &str, payloads: Payloads) -> String {
    let head = head(records, name, condition);
    let written = columns("r", payloads);
    let short = columns("w", Payloads::ALL);
    let answer =
        answer(name, &format!("SELECT w.action, w.seen_at, {short} FROM written w"), payloads);
    format!(
        "{head}, \
         changed AS (\
           UPDATE {records} r SET {changes} FROM timed l \
           WHERE r.scope = l.scope AND r.key = l.key \
           RETURNING CASE WHEN l.recovery_number IS NOT DISTINCT FROM r.recovery_number \
             THEN 'kept' ELSE 'moved' END AS action, l.locked_at AS seen_at, {written}), \
         written AS (SELECT * FROM changed) \
         {answer}"
    )
}

fn head(records: &str, name: &str, condition: &str) -> String {
    let (bound, sound) = (bound("$7::text"), is_sound("r"));
    format!(
        "WITH {bound}, \
         found AS MATERIALIZED (\
           SELECT r.* FROM {records} r WHERE r.scope = $2::bytea AND r.key = $3::bytea), \
         locked AS MATERIALIZED (\
           SELECT r.* FROM {records} r, bound b \
           WHERE $1::text = '{name}' AND b.lock_timeout IS NOT NULL AND {FENCE} AND {condition} \
             AND {sound} \
           FOR NO KEY UPDATE OF r), \
         timed AS MATERIALIZED (SELECT l.*, {CLOCK} AS locked_at FROM locked l)"
    )
}

/// `$8` lease, 0 to give it up.
pub(crate) fn renew(records: &str) -> String {
    change(
        records,
        "renew",
        "r.completed_at IS NULL AND NOT r.given_up",
        "locked_until = CASE WHEN $8::bigint = 0 THEN least(l.locked_at, r.locked_until) \
           ELSE greatest(l.locked_at + $8, r.locked_until) END, \
         given_up = ($8 = 0)",
        Payloads::NONE,
    )
}

/// `$8` lease, `$9` number, `$10` payload, `$11` the handler's transaction.
pub(crate) fn checkpoint(records: &str) -> String {
    change(
        records,
        "checkpoint",
        &format!(
            "r.completed_at IS NULL AND (coalesce(r.recovery_number, 0) = $9::bigint - 1 \
             OR (r.recovery_number = $9 AND r.recovery = $10::bytea)) AND {}",
            stands("$11")
        ),
        "locked_until = CASE WHEN r.given_up THEN r.locked_until \
           ELSE greatest(l.locked_at + $8::bigint, r.locked_until) END, \
         recovery_number = $9, recovery = $10",
        Payloads { recovery: true, ..Payloads::NONE },
    )
}

/// `$8` reply, `$9` the handler's transaction.
pub(crate) fn complete(records: &str) -> String {
    change(
        records,
        "complete",
        &format!("r.completed_at IS NULL AND {}", stands("$9")),
        "completed_at = l.locked_at, \
         expires_at = greatest(r.created_at + r.retention, \
           l.locked_at + r.retention_after_completion), \
         reply = $8::bytea, input = NULL, recovery_number = NULL, recovery = NULL, \
         locked_until = NULL, given_up = NULL",
        Payloads { reply: true, ..Payloads::NONE },
    )
}

/// Locks the record and changes nothing.
pub(crate) fn hold(records: &str) -> String {
    let head = head(records, "hold", "r.completed_at IS NULL");
    let held = columns("l", Payloads::NONE);
    let answer =
        answer("hold", &format!("SELECT 'held', l.locked_at, {held} FROM timed l"), Payloads::NONE);
    format!("{head} {answer}")
}

pub(crate) fn release(records: &str) -> String {
    let sound = is_sound("r");
    let condition = format!(
        "r.completed_at IS NULL AND r.attempt = 1 AND r.recovery_number IS NULL AND {sound}"
    );
    delete(records, "release", &condition)
}

/// Whether it reads as a record or not: a person asked.
pub(crate) fn remove(records: &str) -> String {
    delete(records, "remove", "true")
}

fn delete(records: &str, name: &str, condition: &str) -> String {
    let bound = bound("$7::text");
    let gone = columns("r", Payloads::NONE);
    let short = columns("g", Payloads::ALL);
    let answer =
        answer(name, &format!("SELECT 'gone', g.seen_at, {short} FROM gone g"), Payloads::NONE);
    format!(
        "WITH {bound}, \
         found AS MATERIALIZED (\
           SELECT r.* FROM {records} r WHERE r.scope = $2::bytea AND r.key = $3::bytea), \
         gone AS (\
           DELETE FROM {records} r USING bound b \
           WHERE $1::text = '{name}' AND b.lock_timeout IS NOT NULL AND {FENCE} AND {condition} \
           RETURNING {CLOCK} AS seen_at, {gone}) \
         {answer}"
    )
}
