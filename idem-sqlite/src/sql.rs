//! The text of every statement, made once for a table prefix.
//!
//! The conditions of `lapsed`, `sweep`, `list`, `stats` and `forget` are the only rules that are
//! written a second time, since an index must answer them. They stand next to one another at the
//! top, each beside the pure function that it repeats, and are tested against those.

use std::fmt;
use std::sync::Arc;

use idem_core::error::{ErrorKind, StoreError, Verb};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// [`idem_core::transition::is_lapsed`]; `?1` is now.
const LAPSED: &str = "state = 0 AND locked_until <= ?1";
/// The first half of [`idem_core::transition::is_sweepable`]: an expired reply.
const EXPIRED: &str = "state = 1 AND expires_at IS NOT NULL AND expires_at <= ?1";
/// Its second half: lapsed, marks begun, never began, has outlived its retention.
const ABANDONED: &str = "state = 0 AND locked_until <= ?1 AND marks_begun = 1 \
     AND recovery_number IS NULL AND retention IS NOT NULL AND created_at + retention <= ?1";
/// [`idem_core::transition::is_forgettable`].
const FORGETTABLE: &str = "state = 1";
/// Which sort of record it is: 0 live, 1 lapsed, 2 completed, 3 expired.
const SORT: &str = "CASE WHEN state = 1 AND expires_at IS NOT NULL AND expires_at <= ?1 THEN 3 \
     WHEN state = 1 THEN 2 WHEN locked_until <= ?1 THEN 1 ELSE 0 END";

/// The value of [`SORT`] for a live record.
pub(crate) const SORT_LIVE: i64 = 0;
/// The value of [`SORT`] for a lapsed record.
pub(crate) const SORT_LAPSED: i64 = 1;
/// The value of [`SORT`] for a completed record that is kept.
pub(crate) const SORT_COMPLETED: i64 = 2;
/// The value of [`SORT`] for a completed record that counts as absent.
pub(crate) const SORT_EXPIRED: i64 = 3;

/// The columns of a record, in the order in which they are read and written. The long ones come
/// last, so that a scan does not walk through them.
const COLUMNS: [&str; 21] = [
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
    "state",
    "locked_until",
    "given_up",
    "recovery_number",
    "completed_at",
    "expires_at",
    "input",
    "recovery",
    "reply",
];

/// The most bytes of a table prefix.
const MAX_PREFIX_BYTES: usize = 32;

/// What the store's tables are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    /// One row for each record.
    pub(crate) records: String,
    /// One row for each message.
    pub(crate) outbox: String,
    /// One row for each migration that was applied.
    pub(crate) schema: String,
}

impl Tables {
    /// The tables of a prefix: 1 to 32 of `a`-`z`, `0`-`9` and `_`, the first one a letter, and
    /// not `sqlite_`, which SQLite keeps for itself.
    pub(crate) fn new(prefix: &str) -> Result<Self, StoreError> {
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let good = (1..=MAX_PREFIX_BYTES).contains(&prefix.len())
            && prefix.bytes().all(plain)
            && prefix.starts_with(|first: char| first.is_ascii_lowercase())
            && !prefix.starts_with("sqlite_");
        if !good {
            let detail = "a table prefix is 1 to 32 of a-z, 0-9 and _, the first one a letter, \
                          and does not begin with sqlite_";
            return Err(StoreError::new(ErrorKind::InvalidInput, Verb::Open, detail));
        }
        Ok(Self {
            records: format!("{prefix}_records"),
            outbox: format!("{prefix}_outbox"),
            schema: format!("{prefix}_schema"),
        })
    }
}

/// Every statement of the verbs.
pub(crate) struct Statements {
    /// `?1` scope, `?2` key.
    pub(crate) find: SqlStr,
    /// `?1`.. as [`COLUMNS`].
    pub(crate) put: SqlStr,
    /// `?1` scope, `?2` key.
    pub(crate) delete: SqlStr,
    /// `?1` now, `?2` limit.
    pub(crate) lapsed: SqlStr,
    /// `?1` now, `?2` limit, `?3` locked_until, `?4` scope and `?5` key of the row before.
    pub(crate) lapsed_after: SqlStr,
    /// `?1` now, `?2` limit.
    pub(crate) sweep: SqlStr,
    /// `?1` now.
    pub(crate) sweep_more: SqlStr,
    /// `?1` now; gives the sort, whether it began, how many, and the least locked_until.
    pub(crate) stats: SqlStr,
    /// Counts the messages that wait.
    pub(crate) outbox_pending: SqlStr,
    /// `?1` now, `?2` limit, `?3` scope and `?4` key of the row before, `?5` operation or NULL,
    /// `?6` sort or NULL.
    pub(crate) list: SqlStr,
    /// As [`list`](Self::list), within scope `?3`.
    pub(crate) list_in_scope: SqlStr,
    /// `?1` scope, `?2` limit.
    pub(crate) forget: SqlStr,
    /// `?1` scope; gives how many are forgettable and how many are not.
    pub(crate) count_scope: SqlStr,
    /// `?1` id, `?2` topic, `?3` ordering key, `?4` headers, `?5` payload, `?6` now.
    pub(crate) push: SqlStr,
}

impl Statements {
    pub(crate) fn new(tables: &Tables) -> Self {
        let Tables { records, outbox, .. } = tables;
        let columns = COLUMNS.join(", ");
        let select = format!("SELECT {columns} FROM {records}");
        let sweepable = format!(
            "SELECT rowid FROM {records} WHERE {EXPIRED} \
             UNION ALL SELECT rowid FROM {records} WHERE {ABANDONED}"
        );
        let passes = format!(
            "({SORT}) <> {SORT_EXPIRED} AND (?5 IS NULL OR operation = ?5) \
             AND (?6 IS NULL OR ({SORT}) = ?6) ORDER BY scope, key LIMIT ?2"
        );
        let lapsed_order = "ORDER BY locked_until, scope, key LIMIT ?2";
        Self {
            find: sql(format!("{select} WHERE scope = ?1 AND key = ?2")),
            put: sql(put(records, &columns)),
            delete: sql(format!("DELETE FROM {records} WHERE scope = ?1 AND key = ?2")),
            lapsed: sql(format!("{select} WHERE {LAPSED} {lapsed_order}")),
            lapsed_after: sql(format!(
                "{select} WHERE {LAPSED} AND (locked_until, scope, key) > (?3, ?4, ?5) \
                 {lapsed_order}"
            )),
            sweep: sql(format!("DELETE FROM {records} WHERE rowid IN ({sweepable} LIMIT ?2)")),
            sweep_more: sql(format!("SELECT EXISTS ({sweepable})")),
            stats: sql(format!(
                "SELECT {SORT}, recovery_number IS NOT NULL, COUNT(*), MIN(locked_until) \
                 FROM {records} GROUP BY 1, 2"
            )),
            outbox_pending: sql(format!("SELECT COUNT(*) FROM {outbox} WHERE state = 0")),
            list: sql(format!("{select} WHERE (scope, key) > (?3, ?4) AND {passes}")),
            list_in_scope: sql(format!("{select} WHERE scope = ?3 AND key > ?4 AND {passes}")),
            forget: sql(format!(
                "DELETE FROM {records} WHERE rowid IN \
                 (SELECT rowid FROM {records} WHERE scope = ?1 AND {FORGETTABLE} LIMIT ?2)"
            )),
            count_scope: sql(format!(
                "SELECT COUNT(*) FILTER (WHERE {FORGETTABLE}), \
                 COUNT(*) FILTER (WHERE NOT ({FORGETTABLE})) FROM {records} WHERE scope = ?1"
            )),
            push: sql(format!(
                "INSERT INTO {outbox} \
                 (id, topic, ordering_key, headers, payload, created_at, next_attempt_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)"
            )),
        }
    }
}

impl fmt::Debug for Statements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statements").finish_non_exhaustive()
    }
}

/// A statement made of this crate's own text and a checked prefix; values are always bound.
pub(crate) fn sql(text: String) -> SqlStr {
    AssertSqlSafe(Arc::<str>::from(text)).into_sql_str()
}

fn put(records: &str, columns: &str) -> String {
    let values: Vec<String> = (1..=COLUMNS.len()).map(|number| format!("?{number}")).collect();
    let updates: Vec<String> =
        COLUMNS[2..].iter().map(|column| format!("{column} = excluded.{column}")).collect();
    format!(
        "INSERT INTO {records} ({columns}) VALUES ({}) \
         ON CONFLICT (scope, key) DO UPDATE SET {}",
        values.join(", "),
        updates.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_plain_name_and_nothing_else() {
        for good in ["idem", "a", "app_1", &"x".repeat(32)] {
            assert!(Tables::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(33);
        for bad in ["", "1a", "_a", "Idem", "a b", "a;b", "a\"b", "é", "sqlite_x", &long] {
            let error = Tables::new(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
        }
    }
}
