//! Reading one record, pages, and what looks after many records. `$1` is the statement's name.

use super::{CLOCK, Payloads, bound, columns, stands};
use crate::store::MAX_PAGE_BYTES;

/// [`idem_core::transition::is_lapsed`].
pub(super) const LAPSED: &str = "r.completed_at IS NULL AND r.locked_until <= b.now";

/// [`idem_core::transition::is_sweepable`], and what lets the index find it.
pub(super) const SWEEPABLE: &str = "r.sweep_after IS NOT NULL AND r.sweep_after <= b.now \
     AND (r.expires_at <= b.now OR (r.completed_at IS NULL AND r.locked_until <= b.now \
       AND r.marks_begun AND r.recovery_number IS NULL \
       AND r.created_at + r.retention <= b.now))";

/// Completed and expired: counts as absent.
pub(super) const EXPIRED: &str = "r.expires_at <= b.now";

/// [`idem_core::transition::is_forgettable`].
pub(super) const FORGETTABLE: &str = "r.completed_at IS NOT NULL";

/// `$2` scope, `$3` key.
pub(crate) fn get(records: &str) -> String {
    let columns = columns("r", Payloads::ALL);
    format!(
        "WITH bound AS MATERIALIZED (SELECT {CLOCK} AS now) \
         SELECT 'get'::text, b.now, NULL::text, NULL::bigint, {columns} FROM bound b \
         LEFT JOIN {records} r ON $1::text = 'get' AND r.scope = $2::bytea AND r.key = $3::bytea"
    )
}

/// Rows of at most `limit` + 1 records. Before those of the record stand the name, the time, how
/// many rows there were before the page was cut by its bytes, and NULL.
fn page(records: &str, name: &str, condition: &str, order: &str, limit: &str) -> String {
    let columns = columns("r", Payloads::ALL);
    format!(
        "WITH bound AS MATERIALIZED (SELECT {CLOCK} AS now), \
         chosen AS MATERIALIZED (\
           SELECT r.*, b.now FROM {records} r, bound b \
           WHERE $1::text = '{name}' AND {condition} ORDER BY {order} LIMIT {limit} + 1), \
         measured AS (\
           SELECT r.*, row_number() OVER w AS place, count(*) OVER () AS total, \
             sum(coalesce(octet_length(r.input), 0) + coalesce(octet_length(r.recovery), 0) \
               + coalesce(octet_length(r.reply), 0)) OVER w AS bytes \
           FROM chosen r WINDOW w AS (ORDER BY {order})) \
         SELECT '{name}'::text, r.now, r.total::text, NULL::bigint, {columns} FROM measured r \
         WHERE r.place = 1 OR r.bytes <= {MAX_PAGE_BYTES} ORDER BY {order}"
    )
}

/// `$2` limit, `$3` locked_until, `$4` scope and `$5` key of the row before.
pub(crate) fn lapsed(records: &str) -> String {
    let condition = format!(
        "{LAPSED} AND (r.locked_until, r.scope, r.key) > ($3::bigint, $4::bytea, $5::bytea)"
    );
    page(records, "lapsed", &condition, "r.locked_until, r.scope, r.key", "$2::bigint")
}

/// `$2` scope and `$3` key of the row before, `$4` limit, `$5` operation or NULL, `$6` state or
/// NULL.
pub(crate) fn list(records: &str, after: &str) -> String {
    let condition = format!(
        "{after} AND ({EXPIRED}) IS NOT TRUE \
         AND ($5::bytea IS NULL OR r.operation = $5) \
         AND ($6::text IS NULL OR $6 = CASE WHEN r.completed_at IS NOT NULL THEN 'completed' \
           WHEN {LAPSED} THEN 'lapsed' ELSE 'live' END)"
    );
    page(records, "list", &condition, "r.scope, r.key", "$4::bigint")
}

/// `$2` limit, `$3` the bound on waits. Gives how many went, and whether more wait.
pub(crate) fn sweep(records: &str) -> String {
    let bound = bound("$3::text");
    format!(
        "WITH {bound}, \
         due AS MATERIALIZED (\
           SELECT r.scope, r.key FROM {records} r, bound b \
           WHERE $1::text = 'sweep' AND {SWEEPABLE} \
           ORDER BY r.sweep_after LIMIT $2::bigint + 1 FOR UPDATE OF r SKIP LOCKED), \
         gone AS (\
           DELETE FROM {records} r USING (SELECT * FROM due LIMIT $2) d \
           WHERE r.scope = d.scope AND r.key = d.key RETURNING 1) \
         SELECT 'sweep'::text, (SELECT count(*) FROM gone), (SELECT count(*) FROM due) > $2"
    )
}

/// Gives live, lapsed with and without a recovery point, the least lease that is over, all
/// records, expired ones, and messages that wait.
pub(crate) fn stats(records: &str, outbox: &str) -> String {
    format!(
        "WITH bound AS MATERIALIZED (SELECT {CLOCK} AS now), \
         open AS MATERIALIZED (\
           SELECT count(*) FILTER (WHERE r.locked_until > b.now) AS live, \
             count(*) FILTER (WHERE r.locked_until <= b.now AND r.recovery IS NOT NULL) AS begun, \
             count(*) FILTER (WHERE r.locked_until <= b.now AND r.recovery IS NULL) AS not_begun, \
             min(r.locked_until) FILTER (WHERE r.locked_until <= b.now) AS oldest \
           FROM {records} r, bound b WHERE r.completed_at IS NULL) \
         SELECT 'stats'::text, b.now, o.live, o.begun, o.not_begun, o.oldest, \
           (SELECT count(*) FROM {records}), \
           (SELECT count(*) FROM {records} r WHERE r.sweep_after IS NOT NULL \
             AND r.sweep_after <= b.now AND {EXPIRED}), \
           (SELECT count(*) FROM {outbox} WHERE state = 0) \
         FROM bound b, open o WHERE $1::text = 'stats'"
    )
}

/// `$2` scope, `$3` limit, `$4` the bound on waits. Gives how many went, whether more wait, and
/// how many stay because they are in progress.
pub(crate) fn forget(records: &str) -> String {
    let bound = bound("$4::text");
    format!(
        "WITH {bound}, \
         due AS MATERIALIZED (\
           SELECT r.key FROM {records} r, bound b \
           WHERE $1::text = 'forget' AND b.lock_timeout IS NOT NULL AND r.scope = $2::bytea \
             AND {FORGETTABLE} ORDER BY r.key LIMIT $3::bigint + 1 FOR UPDATE OF r), \
         gone AS (\
           DELETE FROM {records} r USING (SELECT * FROM due LIMIT $3) d \
           WHERE r.scope = $2 AND r.key = d.key RETURNING 1) \
         SELECT 'forget'::text, (SELECT count(*) FROM gone), (SELECT count(*) FROM due) > $3, \
           (SELECT count(*) FROM {records} r WHERE r.scope = $2 AND NOT ({FORGETTABLE}))"
    )
}

/// `$2` id, `$3` topic, `$4` ordering key, `$5` headers, `$6` payload, `$7` the transaction. The key
/// is locked before the message is given its number, and until the transaction is over.
pub(crate) fn push(outbox: &str) -> String {
    let (table, stands) = (outbox.replace('"', ""), stands("$7"));
    format!(
        "WITH locked AS MATERIALIZED (\
           SELECT CASE WHEN $4::bytea IS NOT NULL THEN pg_advisory_xact_lock(\
             hashtextextended('idem outbox {table} ' || encode($4, 'hex'), 0))::text END AS done \
           WHERE $1::text = 'push' AND {stands}) \
         INSERT INTO {outbox} \
         (id, topic, ordering_key, headers, payload, created_at, next_attempt_at) \
         SELECT $2::bytea, $3::bytea, $4, $5::bytea, $6::bytea, {CLOCK}, {CLOCK} FROM locked \
         RETURNING 'push'::text"
    )
}
