//! Statements about messages.
//!
//! A lease runs alone: it holds a lock that settling, renewing and an operator's verbs share, and
//! a push does not. What it reads is newer than every settlement before it, since the lock is
//! taken by a statement of its own under READ COMMITTED.

use super::{CHUNKS, Tables};

/// Of a message that a lease holds: its id and the owner.
const HELD: &str = "id = ? AND lease_owner = ? AND state = 0 AND leased_until IS NOT NULL";

/// Every statement of the outbox.
#[derive(Debug)]
pub(crate) struct OutboxStatements {
    /// Ordering key: holds its row until the transaction is over.
    pub(crate) hold_key: String,
    /// Id, topic, ordering key, headers, payload.
    pub(crate) push: String,
    /// For a lease.
    pub(crate) alone: String,
    /// For what must not happen within one.
    pub(crate) shared: String,
    /// The time (twice), whether dead ones hold nothing back, the time, the time (twice), limit.
    /// Gives number and bytes of what may be taken.
    pub(crate) due: String,
    /// Owner, until, numbers: in chunks.
    pub(crate) take: Vec<String>,
    /// The first number and the last, owner. Gives number, id, topic, ordering key, headers,
    /// payload, failures, lapses.
    pub(crate) taken: String,
    /// Reason, number.
    pub(crate) bury: String,
    /// Id, owner: whether it is held, and whether it was held last.
    pub(crate) held: String,
    pub(crate) held_last: String,
    /// Lease, id, owner.
    pub(crate) renew: String,
    /// Id, owner.
    pub(crate) sent: String,
    /// Delay, reason, id, owner.
    pub(crate) failed: String,
    /// Reason, id, owner.
    pub(crate) dead: String,
    /// Id, owner.
    pub(crate) given_back: String,
    /// State, number of the row before, limit.
    pub(crate) list: String,
    /// Ids: in chunks.
    pub(crate) requeue: Vec<String>,
    pub(crate) discard: Vec<String>,
    /// Age, limit. Gives number and ordering key.
    pub(crate) old: String,
    /// Numbers: in chunks.
    pub(crate) delete_sent: Vec<String>,
    /// Ordering keys: in chunks. A key is a lock and nothing else, so one that nobody holds may
    /// go whatever messages there are.
    pub(crate) lock_keys: Vec<String>,
    pub(crate) delete_keys: Vec<String>,
    /// Gives the time, how many wait, how many of them are leased, the oldest, and the dead.
    pub(crate) backlog: String,
}

impl OutboxStatements {
    pub(super) fn new(tables: &Tables, now: &str) -> Self {
        let Tables { outbox, outbox_keys: keys, versions, .. } = tables;
        let lock = format!("SELECT version FROM {versions} WHERE version = 1");
        let chunked = |before: &str, after: &str| -> Vec<String> {
            let marks = |size: &usize| vec!["?"; *size].join(", ");
            CHUNKS.iter().map(|size| format!("{before} ({}){after}", marks(size))).collect()
        };
        Self {
            hold_key: format!(
                "INSERT INTO {keys} (ordering_key) VALUES (?) \
                 ON DUPLICATE KEY UPDATE ordering_key = {keys}.ordering_key"
            ),
            push: format!(
                "INSERT INTO {outbox} (id, topic, ordering_key, headers, payload, created_at, \
                 due_at) SELECT ?, ?, ?, ?, ?, {now}, {now} FROM DUAL"
            ),
            alone: format!("{lock} FOR UPDATE"),
            shared: format!("{lock} LOCK IN SHARE MODE"),
            due: due(outbox),
            take: chunked(
                &format!(
                    "UPDATE {outbox} SET lapses = lapses + (leased_until IS NOT NULL), \
                     lease_owner = ?, leased_until = ?, touched = 1 WHERE state = 0 AND number IN"
                ),
                "",
            ),
            taken: format!(
                "SELECT number, id, topic, ordering_key, headers, payload, failures, lapses \
                 FROM {outbox} WHERE number BETWEEN ? AND ? AND lease_owner = ? AND state = 0 \
                 ORDER BY number"
            ),
            bury: format!(
                "UPDATE {outbox} SET state = 2, failures = failures + 1, leased_until = NULL, \
                 reason = ? WHERE number = ?"
            ),
            held: format!("SELECT COUNT(*) FROM {outbox} WHERE {HELD}"),
            held_last: format!("SELECT COUNT(*) FROM {outbox} WHERE id = ? AND lease_owner = ?"),
            renew: format!(
                "UPDATE {outbox} SET leased_until = \
                 GREATEST(leased_until, {now} + CAST(? AS SIGNED)) WHERE {HELD}"
            ),
            sent: format!(
                "UPDATE {outbox} SET state = 1, settled_at = {now}, touched = 0, \
                 leased_until = NULL WHERE {HELD}"
            ),
            failed: format!(
                "UPDATE {outbox} SET failures = failures + 1, lapses = 0, \
                 due_at = {now} + CAST(? AS SIGNED), reason = ?, leased_until = NULL WHERE {HELD}"
            ),
            dead: format!(
                "UPDATE {outbox} SET state = 2, failures = failures + 1, lapses = 0, reason = ?, \
                 leased_until = NULL WHERE {HELD}"
            ),
            given_back: format!(
                "UPDATE {outbox} SET touched = (failures > 0), leased_until = NULL WHERE {HELD}"
            ),
            list: format!(
                "SELECT number, id, topic, ordering_key, headers, LENGTH(payload), failures, \
                 lapses, {now}, created_at, due_at, leased_until, reason FROM {outbox} \
                 WHERE state = ? AND number > ? ORDER BY number LIMIT ?"
            ),
            requeue: chunked(
                &format!(
                    "UPDATE {outbox} SET state = 0, failures = 0, lapses = 0, touched = 0, \
                     reason = NULL, lease_owner = NULL WHERE state = 2 AND id IN"
                ),
                "",
            ),
            discard: chunked(&format!("DELETE FROM {outbox} WHERE state = 2 AND id IN"), ""),
            old: format!(
                "SELECT number, ordering_key FROM {outbox} WHERE state = 1 \
                 AND settled_at <= {now} - CAST(? AS SIGNED) ORDER BY settled_at, number LIMIT ?"
            ),
            delete_sent: chunked(
                &format!("DELETE FROM {outbox} WHERE state = 1 AND number IN"),
                "",
            ),
            lock_keys: chunked(
                &format!("SELECT ordering_key FROM {keys} WHERE ordering_key IN"),
                " FOR UPDATE SKIP LOCKED",
            ),
            delete_keys: chunked(&format!("DELETE FROM {keys} WHERE ordering_key IN"), ""),
            backlog: format!(
                "SELECT {now}, (SELECT COUNT(*) FROM {outbox} WHERE state = 0), \
                 (SELECT COUNT(*) FROM {outbox} WHERE touched = 1 AND state = 0 \
                   AND leased_until > {now}), \
                 (SELECT MIN(created_at) FROM {outbox} WHERE state = 0), \
                 (SELECT COUNT(*) FROM {outbox} WHERE state = 2)"
            ),
        }
    }
}

/// Each ordering key that holds something back stands in `held` once, with the number from which
/// on: 0 where a lease holds the whole key.
fn due(outbox: &str) -> String {
    format!(
        "SELECT number, LENGTH(payload) FROM {outbox} m LEFT JOIN (\
           SELECT ordering_key AS held_key, \
             MIN(CASE WHEN state = 0 AND leased_until > ? THEN 0 ELSE number END) AS held_from \
           FROM {outbox} WHERE touched = 1 AND ordering_key IS NOT NULL \
             AND ((state = 0 AND leased_until > ?) OR (state = 2 AND NOT ?) \
               OR (state = 0 AND failures > 0 AND due_at > ?)) \
           GROUP BY ordering_key) held ON held_key = m.ordering_key \
         WHERE m.state = 0 AND (m.leased_until IS NULL OR m.leased_until <= ?) \
           AND (m.failures = 0 OR m.due_at <= ?) \
           AND (held_key IS NULL OR m.number < held_from) \
         ORDER BY m.number LIMIT ?"
    )
}
