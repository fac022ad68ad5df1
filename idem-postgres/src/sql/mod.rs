//! The text of every statement, made once for a schema and a table prefix.
//!
//! A verb is one statement. It reads the record as its snapshot shows it, locks and changes it
//! where a predicate holds, and gives back either the row that it wrote or the row that it found.
//! What was *found* is answered by the pure rules of `idem_core::transition`; the predicates of
//! what may be *written* are the only rules that stand here a second time, and are tested against
//! those functions with random records.
//!
//! Two things hold in every statement. Its first parameter is its own name, compared before
//! anything is written: a proxy that runs another statement than the one that was prepared then
//! writes nothing, and the name that comes back gives it away. And it sets its own bound on waits
//! for locks, inside its own transaction, so that no session state is needed.

mod claim;
mod fenced;
mod listing;
mod tables;

use std::fmt;
use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

pub(crate) use self::claim::{INSERTED, RENEWED, REPLACED};
pub(crate) use self::tables::Tables;

/// Microseconds since 1970 on the server, now: not when the transaction began.
pub(crate) const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// How many columns stand before those of the record in what a verb gives back: the statement's
/// name, the time of the snapshot, what was done, and the time after the write.
pub(crate) const RECORD_AT: usize = 4;

/// The column after those of the record: the number of the transaction that the statement ran in.
pub(crate) const TRANSACTION_ID: &str = "transaction_id";

/// Every statement of the verbs.
pub(crate) struct Statements {
    pub(crate) claim: SqlStr,
    pub(crate) table_lock: SqlStr,
    pub(crate) renew: SqlStr,
    pub(crate) checkpoint: SqlStr,
    pub(crate) complete: SqlStr,
    pub(crate) release: SqlStr,
    pub(crate) hold: SqlStr,
    pub(crate) remove: SqlStr,
    pub(crate) get: SqlStr,
    pub(crate) lapsed: SqlStr,
    pub(crate) sweep: SqlStr,
    pub(crate) stats: SqlStr,
    pub(crate) list: SqlStr,
    pub(crate) list_in_scope: SqlStr,
    pub(crate) forget: SqlStr,
    pub(crate) push: SqlStr,
    pub(crate) standing: SqlStr,
}

impl Statements {
    pub(crate) fn new(tables: &Tables) -> Self {
        let records = &tables.records;
        Self {
            claim: sql(claim::claim(records)),
            table_lock: sql(claim::table_lock(records)),
            renew: sql(fenced::renew(records)),
            checkpoint: sql(fenced::checkpoint(records)),
            complete: sql(fenced::complete(records)),
            release: sql(fenced::release(records)),
            hold: sql(fenced::hold(records)),
            remove: sql(fenced::remove(records)),
            get: sql(listing::get(records)),
            lapsed: sql(listing::lapsed(records)),
            sweep: sql(listing::sweep(records)),
            stats: sql(listing::stats(records, &tables.outbox)),
            list: sql(listing::list(records, "(r.scope, r.key) > ($2, $3)")),
            list_in_scope: sql(listing::list(records, "r.scope = $2 AND r.key > $3")),
            forget: sql(listing::forget(records)),
            push: sql(listing::push(&tables.outbox)),
            standing: sql(format!(
                "SELECT 'standing'::text, {} WHERE $1::text = 'standing'",
                stands("$2")
            )),
        }
    }
}

impl fmt::Debug for Statements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statements").finish_non_exhaustive()
    }
}

/// A statement made of this crate's own text and checked names; values are always bound.
pub(crate) fn sql(text: String) -> SqlStr {
    AssertSqlSafe(Arc::<str>::from(text)).into_sql_str()
}

/// Which of the long columns a statement gives back. Those that it does not are shown as empty,
/// so that whether they are there is still seen.
#[derive(Clone, Copy)]
struct Payloads {
    input: bool,
    recovery: bool,
    reply: bool,
}

impl Payloads {
    const ALL: Self = Self { input: true, recovery: true, reply: true };
    const NONE: Self = Self { input: false, recovery: false, reply: false };
}

/// The columns of a record in the order in which they are read, from the row `alias`.
fn columns(alias: &str, payloads: Payloads) -> String {
    const SHORT: [&str; 17] = [
        "scope",
        "key",
        "operation",
        "scheme",
        "digest",
        "attempt",
        "owner",
        "incarnation",
        "created_at",
        "retention",
        "retention_after_completion",
        "marks_begun",
        "locked_until",
        "given_up",
        "recovery_number",
        "completed_at",
        "expires_at",
    ];
    let long =
        [("input", payloads.input), ("recovery", payloads.recovery), ("reply", payloads.reply)];
    let short = SHORT.iter().map(|column| format!("{alias}.{column}"));
    let long = long.iter().map(|(column, wanted)| match wanted {
        true => format!("{alias}.{column}"),
        false => format!("substr({alias}.{column}, 1, 0) AS {column}"),
    });
    short.chain(long).collect::<Vec<_>>().join(", ")
}

/// Whether the row `r` reads as a record: what the table's constraints say too, for a table from
/// which they were taken away. What does not is left as it is, and the caller fails on it (R9).
fn is_sound(r: &str) -> String {
    let longest = idem_core::time::micros(idem_core::time::MAX_DURATION);
    format!(
        "({r}.scheme BETWEEN 0 AND 255 AND octet_length({r}.digest) = 32 \
         AND octet_length({r}.operation) BETWEEN 1 AND 255 \
         AND octet_length({r}.owner) = 16 AND octet_length({r}.incarnation) = 16 \
         AND {r}.attempt BETWEEN 1 AND 4294967295 AND {r}.created_at IS NOT NULL \
         AND {r}.marks_begun IS NOT NULL \
         AND ({r}.retention IS NULL) = ({r}.retention_after_completion IS NULL) \
         AND coalesce({r}.retention BETWEEN 0 AND {longest}, true) \
         AND coalesce({r}.retention_after_completion BETWEEN 0 AND {longest}, true) \
         AND ({r}.recovery_number IS NULL) = ({r}.recovery IS NULL) \
         AND coalesce({r}.recovery_number BETWEEN 1 AND 4294967295, true) \
         AND CASE WHEN {r}.completed_at IS NULL \
           THEN {r}.locked_until IS NOT NULL AND {r}.given_up IS NOT NULL \
             AND {r}.expires_at IS NULL AND {r}.reply IS NULL \
           ELSE {r}.reply IS NOT NULL AND {r}.input IS NULL AND {r}.recovery IS NULL \
             AND ({r}.expires_at IS NULL) = ({r}.retention IS NULL) END)"
    )
}

/// The time of the snapshot, and the bound on waits for locks in `parameter`, which stands until
/// the statement's transaction ends. Whatever may wait reads from this first.
fn bound(parameter: &str) -> String {
    format!(
        "bound AS MATERIALIZED (\
         SELECT set_config('lock_timeout', {parameter}, true) AS lock_timeout, {CLOCK} AS now)"
    )
}

/// Whether the transaction whose number is in `parameter` was not rolled back: it is the open one,
/// or was committed. NULL is no transaction of a handler's, and the verb stands for itself.
fn stands(parameter: &str) -> String {
    format!(
        "({parameter}::text IS NULL \
         OR pg_xact_status({parameter}::text::xid8) IS DISTINCT FROM 'aborted')"
    )
}

/// One row: what was written, else what was found, else only the name and the time. The number of
/// the transaction comes last.
fn answer(name: &str, written: &str, payloads: Payloads) -> String {
    let found = columns("f", payloads);
    format!(
        "SELECT '{name}'::text, b.now, x.*, \
         pg_current_xact_id_if_assigned()::text AS {TRANSACTION_ID} FROM bound b LEFT JOIN (\
         {written} UNION ALL \
         SELECT NULL::text, NULL::bigint, {found} FROM found f WHERE NOT EXISTS ({written})\
         ) x ON true"
    )
}

/// The conditions that repeat a pure rule, on the row `r` at the time `now`.
#[cfg(test)]
pub(crate) struct Conditions {
    pub(crate) action: String,
    pub(crate) lapsed: &'static str,
    pub(crate) sweepable: &'static str,
    pub(crate) expired: &'static str,
    pub(crate) forgettable: &'static str,
}

#[cfg(test)]
impl Conditions {
    pub(crate) fn at(now: &str) -> Self {
        Self {
            action: claim::action("r", now),
            lapsed: listing::LAPSED,
            sweepable: listing::SWEEPABLE,
            expired: listing::EXPIRED,
            forgettable: listing::FORGETTABLE,
        }
    }
}
