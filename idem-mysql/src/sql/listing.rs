//! Pages, and what looks after many records.

use super::Pages;
use super::records::columns;

/// After scope (twice) and key of the row before.
pub(super) const AFTER: &str = "(scope > ? OR (scope = ? AND record_key > ?))";
/// In a scope, after a key.
pub(super) const AFTER_IN_SCOPE: &str = "scope = ? AND record_key > ?";

/// What the long columns of a record have together.
const BYTES: &str =
    "COALESCE(LENGTH(input), 0) + COALESCE(LENGTH(recovery), 0) + COALESCE(LENGTH(reply), 0)";

/// [`idem_core::transition::is_lapsed`].
pub(crate) fn is_lapsed(now: &str) -> String {
    format!("completed_at IS NULL AND locked_until <= {now}")
}

/// [`idem_core::transition::is_sweepable`], and what lets the index find it.
pub(crate) fn is_sweepable(now: &str) -> String {
    format!(
        "sweep_after <= {now} AND (expires_at <= {now} OR (completed_at IS NULL \
         AND locked_until <= {now} AND marks_begun AND recovery_number IS NULL \
         AND created_at + retention <= {now}))"
    )
}

/// Completed and expired: counts as absent.
pub(crate) fn is_expired(now: &str) -> String {
    format!("expires_at <= {now}")
}

/// [`idem_core::transition::is_forgettable`].
pub(crate) const FORGETTABLE: &str = "completed_at IS NOT NULL";

/// The parameters of the condition, then the most rows.
fn pages(records: &str, now: &str, condition: &str, order: &str) -> Pages {
    let columns = columns(true, true, true);
    let select = |what: &str| {
        format!("SELECT {what} FROM {records} WHERE {condition} ORDER BY {order} LIMIT ?")
    };
    Pages { sizes: select(BYTES), records: select(&format!("{now}, {columns}")) }
}

/// Locked until (twice), scope (twice) and key of the row before; the most rows.
pub(super) fn lapsed(records: &str, now: &str) -> Pages {
    let condition =
        format!("{} AND (locked_until > ? OR (locked_until = ? AND {AFTER}))", is_lapsed(now));
    pages(records, now, &condition, "locked_until, scope, record_key")
}

/// The parameters of `after`, operation or NULL (twice), state or NULL (twice), the most rows.
pub(super) fn list(records: &str, now: &str, after: &str) -> Pages {
    let (lapsed, expired) = (is_lapsed(now), is_expired(now));
    let condition = format!(
        "{after} AND ({expired}) IS NOT TRUE AND (? IS NULL OR operation = ?) \
         AND (? IS NULL OR CAST(? AS SIGNED) = CASE WHEN completed_at IS NOT NULL THEN 2 \
         WHEN {lapsed} THEN 1 ELSE 0 END)"
    );
    pages(records, now, &condition, "scope, record_key")
}

/// The most rows.
pub(super) fn sweepable(records: &str, now: &str) -> String {
    let condition = is_sweepable(now);
    format!(
        "SELECT scope, record_key, incarnation, revision FROM {records} WHERE {condition} \
         ORDER BY sweep_after LIMIT ?"
    )
}

/// Scope, the most rows.
pub(super) fn forgettable(records: &str) -> String {
    format!(
        "SELECT scope, record_key, incarnation, revision FROM {records} \
         WHERE scope = ? AND {FORGETTABLE} ORDER BY record_key LIMIT ?"
    )
}

/// Scope.
pub(super) fn in_progress(records: &str) -> String {
    format!("SELECT COUNT(*) FROM {records} WHERE scope = ? AND NOT ({FORGETTABLE})")
}

/// The time; live, lapsed with and without a recovery point, the least lease that is over, all
/// records, expired ones, and messages that wait.
pub(super) fn stats(records: &str, outbox: &str, now: &str) -> String {
    let (lapsed, expired) = (is_lapsed(now), is_expired(now));
    format!(
        "SELECT {now}, \
         (SELECT COUNT(*) FROM {records} WHERE locked_until > {now}), \
         (SELECT COUNT(*) FROM {records} WHERE {lapsed} AND recovery_number IS NOT NULL), \
         (SELECT COUNT(*) FROM {records} WHERE {lapsed} AND recovery_number IS NULL), \
         (SELECT MIN(locked_until) FROM {records} WHERE locked_until <= {now}), \
         (SELECT COUNT(*) FROM {records}), \
         (SELECT COUNT(*) FROM {records} WHERE sweep_after <= {now} AND {expired}), \
         (SELECT COUNT(*) FROM {outbox} WHERE state = 0)"
    )
}
