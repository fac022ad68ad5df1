//! The claim as one statement.
//!
//! An absent record is inserted. A record that the claim may change is locked, judged once more
//! on its newest version and on the time after the lock, and changed. Everything else is only
//! read: a duplicate that is told "in progress" or gets a reply writes nothing and locks nothing.

use super::{CLOCK, Payloads, answer, bound, columns, is_sound};

/// What was done, as the statement says it.
pub(crate) const INSERTED: &str = "inserted";
/// An expired record was made anew.
pub(crate) const RENEWED: &str = "renewed";
/// A lapsed record of another request gave way.
pub(crate) const REPLACED: &str = "replaced";

/// Whether the claim may change the row `r` at the time `now`, and how; NULL when it may not.
/// It repeats the writing rows of [`idem_core::transition::claim`], and leaves alone what cannot
/// be read as a record: the caller then sees it as it stands, and fails (R9).
pub(super) fn action(r: &str, now: &str) -> String {
    let sound = is_sound(r);
    let compared = format!("{r}.scheme <> 0 AND $6::smallint <> 0");
    let same_print = format!(
        "EXISTS (SELECT FROM unnest($8::smallint[], $9::bytea[]) AS p (scheme, digest) \
         WHERE p.scheme = {r}.scheme AND p.digest = {r}.digest)"
    );
    let young = format!("{now} < {r}.created_at + $17::bigint");
    format!(
        "CASE \
         WHEN {sound} IS NOT TRUE THEN NULL \
         WHEN {r}.completed_at IS NOT NULL THEN \
           CASE WHEN {r}.expires_at <= {now} AND $15::text <> 'only' THEN '{RENEWED}' END \
         WHEN {r}.owner = $4::bytea THEN 'again' \
         WHEN {compared} AND {r}.scheme <> ALL ($8::smallint[]) THEN NULL \
         WHEN {r}.locked_until > {now} THEN NULL \
         WHEN {r}.operation <> $5::bytea OR ({compared} AND NOT {same_print}) THEN \
           CASE WHEN $15 <> 'only' AND {r}.recovery_number IS NULL \
             AND ({r}.marks_begun OR {r}.created_at + {r}.retention <= {now}) \
             THEN '{REPLACED}' END \
         WHEN {r}.attempt >= 4294967295 THEN NULL \
         WHEN $15 = 'never' THEN CASE WHEN {r}.recovery_number IS NULL THEN 'taken' END \
         WHEN $15 = 'below' THEN \
           CASE WHEN {r}.attempt < $16::bigint AND {young} THEN 'taken' END \
         WHEN $15 = 'only' THEN \
           CASE WHEN {r}.incarnation = $18::bytea AND {r}.attempt = $16 \
             AND ($17 IS NULL OR {young}) THEN 'taken' END \
         END"
    )
}

/// When a sweep may look at a record that is inserted at `now`: [`Retention::expiry`] is never
/// before this, nor is the end of the retention of one that never began.
///
/// [`Retention::expiry`]: idem_core::record::Retention::expiry
fn sweep_after(now: &str) -> String {
    format!(
        "{now} + CASE WHEN $11::boolean THEN $13::bigint \
         ELSE greatest($13::bigint, $14::bigint) END"
    )
}

/// `$1` the statement's name, `$2` scope, `$3` key, `$4` owner, `$5` operation, `$6` scheme and
/// `$7` digest that an insert writes, `$8` and `$9` all schemes and digests, `$10` input, `$11`
/// marks begun, `$12` lease, `$13` retention and `$14` its minimum after completion or NULL,
/// `$15` policy, `$16` its attempt, `$17` its age, `$18` its incarnation, `$19` the bound on
/// waits.
pub(crate) fn claim(records: &str) -> String {
    let bound = bound("$19::text");
    let by_snapshot = action("r", "b.now");
    let by_lock = action("j", "j.judged_at");
    let inserts = sweep_after("b.now");
    let anew = format!("a.action IN ('{RENEWED}', '{REPLACED}')");
    let anew_sweep = sweep_after("a.judged_at");
    let written = columns("w", Payloads::ALL);
    let answer = answer(
        "claim",
        &format!("SELECT w.action, w.seen_at, {written} FROM won w"),
        Payloads::ALL,
    );
    format!(
        "WITH {bound}, \
         found AS MATERIALIZED (\
           SELECT r.* FROM {records} r WHERE r.scope = $2::bytea AND r.key = $3::bytea), \
         inserted AS (\
           INSERT INTO {records} (scope, key, operation, scheme, digest, attempt, owner, \
             incarnation, created_at, retention, retention_after_completion, marks_begun, \
             locked_until, given_up, sweep_after, input) \
           SELECT $2, $3, $5::bytea, $6::smallint, $7::bytea, 1, $4::bytea, \
             uuid_send(gen_random_uuid()), b.now, $13::bigint, $14::bigint, $11::boolean, \
             b.now + $12::bigint, false, {inserts}, $10::bytea \
           FROM bound b \
           WHERE $1::text = 'claim' AND $15::text <> 'only' AND NOT EXISTS (SELECT FROM found) \
           ON CONFLICT (scope, key) DO NOTHING \
           RETURNING *, '{INSERTED}'::text AS action, {CLOCK} AS seen_at), \
         locked AS MATERIALIZED (\
           SELECT r.* FROM {records} r, bound b \
           WHERE $1 = 'claim' AND r.scope = $2 AND r.key = $3 AND {by_snapshot} IS NOT NULL \
           FOR NO KEY UPDATE OF r), \
         judged AS MATERIALIZED (SELECT l.*, {CLOCK} AS judged_at FROM locked l), \
         acted AS MATERIALIZED (SELECT j.*, {by_lock} AS action FROM judged j), \
         changed AS (\
           UPDATE {records} r SET \
             operation = CASE WHEN {anew} THEN $5 ELSE r.operation END, \
             scheme = CASE WHEN {anew} THEN $6 ELSE r.scheme END, \
             digest = CASE WHEN {anew} THEN $7 ELSE r.digest END, \
             attempt = CASE WHEN {anew} THEN 1 WHEN a.action = 'taken' THEN r.attempt + 1 \
               ELSE r.attempt END, \
             owner = $4, \
             incarnation = CASE WHEN {anew} THEN uuid_send(gen_random_uuid()) \
               ELSE r.incarnation END, \
             created_at = CASE WHEN {anew} THEN a.judged_at ELSE r.created_at END, \
             retention = CASE WHEN {anew} THEN $13 ELSE r.retention END, \
             retention_after_completion = CASE WHEN {anew} THEN $14 \
               ELSE r.retention_after_completion END, \
             marks_begun = CASE WHEN {anew} THEN $11 WHEN a.action = 'taken' \
               THEN r.marks_begun AND $11 ELSE r.marks_begun END, \
             locked_until = CASE WHEN a.action = 'again' \
               THEN greatest(r.locked_until, a.judged_at + $12) ELSE a.judged_at + $12 END, \
             given_up = (a.action = 'again' AND r.given_up), \
             recovery_number = CASE WHEN {anew} THEN NULL ELSE r.recovery_number END, \
             completed_at = NULL, \
             expires_at = NULL, \
             sweep_after = CASE WHEN {anew} THEN {anew_sweep} ELSE r.sweep_after END, \
             input = CASE WHEN {anew} THEN $10 ELSE r.input END, \
             recovery = CASE WHEN {anew} THEN NULL ELSE r.recovery END, \
             reply = NULL \
           FROM acted a \
           WHERE r.scope = a.scope AND r.key = a.key AND a.action IS NOT NULL \
           RETURNING r.*, a.action, a.judged_at AS seen_at), \
         won AS (SELECT * FROM inserted UNION ALL SELECT * FROM changed) \
         {answer}"
    )
}

/// Whether another session has, or waits for, a lock on the whole table that keeps writers out.
pub(crate) fn table_lock(records: &str) -> String {
    format!(
        "SELECT 'table_lock'::text, EXISTS (SELECT FROM pg_catalog.pg_locks l \
         JOIN pg_catalog.pg_database d ON d.oid = l.database AND d.datname = current_database() \
         WHERE $1::text = 'table_lock' AND l.locktype = 'relation' \
           AND l.relation = '{records}'::regclass AND l.pid <> pg_backend_pid() \
           AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', \
             'AccessExclusiveLock'))"
    )
}
