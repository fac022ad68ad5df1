//! The text of the outbox's statements. Times and spans are in microseconds.

use sqlx::SqlStr;

use crate::sql::{Tables, sql};

/// A message of an ordering key that may hold back others: what the index `touched` holds.
const TOUCHED: &str = "ordering_key IS NOT NULL \
     AND (state = 2 OR (state = 0 AND (leased_until IS NOT NULL OR attempts > 0)))";
/// A lease runs; `?1` is now.
const LEASED: &str = "(state = 0 AND leased_until IS NOT NULL AND leased_until > ?1)";

pub(crate) struct OutboxStatements {
    /// `?1` now, `?2` limit, `?3` whether dead ones hold nothing back. As `choose` of
    /// `idem_core::outbox`, which it is tested against.
    pub(super) due: SqlStr,
    /// `?1` numbers as JSON, `?2` owner, `?3` end of the lease.
    pub(super) take: SqlStr,
    /// `?1` number, `?2` reason.
    pub(super) bury: SqlStr,
    /// `?1` id, `?2` owner, `?3` end of the lease.
    pub(super) renew: SqlStr,
    /// `?1` id, `?2` owner, `?3` now.
    pub(super) sent: SqlStr,
    /// `?1` id, `?2` owner, `?3` time of the next try, `?4` reason.
    pub(super) failed: SqlStr,
    /// `?1` id, `?2` owner, `?3` reason.
    pub(super) dead: SqlStr,
    /// `?1` id, `?2` owner.
    pub(super) given_back: SqlStr,
    /// `?1` id, `?2` owner.
    pub(super) was_settled: SqlStr,
    /// `?1` number of the row before, `?2` limit; one for each state.
    pub(super) list: [SqlStr; 3],
    /// `?1` id.
    pub(super) requeue: SqlStr,
    /// `?1` id.
    pub(super) discard: SqlStr,
    /// `?1` the latest time of sending, `?2` limit.
    pub(super) delete_sent: SqlStr,
    /// `?1` the latest time of sending.
    pub(super) more_sent: SqlStr,
    /// `?1` now; gives how many wait, how many of them are leased, the oldest, and the dead.
    pub(super) backlog: SqlStr,
}

impl OutboxStatements {
    pub(super) fn new(tables: &Tables) -> Self {
        let outbox = &tables.outbox;
        let settle = |set: &str| {
            sql(format!(
                "UPDATE {outbox} SET leased_until = NULL{set} \
                 WHERE id = ?1 AND lease_owner = ?2 AND state = 0 AND leased_until IS NOT NULL"
            ))
        };
        Self {
            due: sql(due(outbox)),
            take: sql(format!(
                "UPDATE {outbox} SET lapses = lapses + (leased_until IS NOT NULL), \
                 lease_owner = ?2, leased_until = ?3 \
                 WHERE seq IN (SELECT value FROM json_each(?1)) AND state = 0"
            )),
            bury: sql(format!(
                "UPDATE {outbox} SET state = 2, leased_until = NULL, attempts = attempts + 1, \
                 reason = ?2 WHERE seq = ?1"
            )),
            renew: sql(format!(
                "UPDATE {outbox} SET leased_until = MAX(leased_until, ?3) \
                 WHERE id = ?1 AND lease_owner = ?2 AND state = 0 AND leased_until IS NOT NULL"
            )),
            sent: settle(", state = 1, sent_at = ?3"),
            failed: settle(
                ", attempts = attempts + 1, lapses = 0, next_attempt_at = ?3, reason = ?4",
            ),
            dead: settle(", state = 2, attempts = attempts + 1, lapses = 0, reason = ?3"),
            given_back: settle(""),
            was_settled: sql(format!(
                "SELECT EXISTS (SELECT 1 FROM {outbox} WHERE id = ?1 AND lease_owner = ?2)"
            )),
            // Each with its state in the text, so that the index for it is used.
            list: [0, 1, 2].map(|state| sql(list(outbox, state))),
            requeue: sql(format!(
                "UPDATE {outbox} SET state = 0, attempts = 0, lapses = 0, reason = NULL, \
                 lease_owner = NULL WHERE id = ?1 AND state = 2"
            )),
            discard: sql(format!("DELETE FROM {outbox} WHERE id = ?1 AND state = 2")),
            delete_sent: sql(format!(
                "DELETE FROM {outbox} WHERE seq IN (SELECT seq FROM {outbox} \
                 WHERE state = 1 AND sent_at <= ?1 ORDER BY sent_at, seq LIMIT ?2)"
            )),
            more_sent: sql(format!(
                "SELECT EXISTS (SELECT 1 FROM {outbox} WHERE state = 1 AND sent_at <= ?1)"
            )),
            backlog: sql(format!(
                "SELECT COUNT(*), COUNT(*) FILTER (WHERE {LEASED}), MIN(created_at), \
                 (SELECT COUNT(*) FROM {outbox} WHERE state = 2) FROM {outbox} WHERE state = 0"
            )),
        }
    }
}

/// Each ordering key that holds something back stands in `held` once, with the number from which
/// on: 0 where a lease holds the whole key.
fn due(outbox: &str) -> String {
    format!(
        "WITH held AS MATERIALIZED (\
           SELECT ordering_key AS held_key, \
             MIN(CASE WHEN {LEASED} THEN 0 ELSE seq END) AS held_from \
           FROM {outbox} WHERE {TOUCHED} \
             AND ({LEASED} OR (state = 2 AND NOT ?3) \
               OR (state = 0 AND attempts > 0 AND next_attempt_at > ?1)) \
           GROUP BY ordering_key) \
         SELECT seq, id, topic, ordering_key, headers, payload, attempts, \
           lapses + (leased_until IS NOT NULL) \
         FROM {outbox} LEFT JOIN held ON held_key = ordering_key \
         WHERE state = 0 AND NOT {LEASED} AND (attempts = 0 OR next_attempt_at <= ?1) \
           AND (held_key IS NULL OR seq < held_from) \
         ORDER BY seq LIMIT ?2"
    )
}

fn list(outbox: &str, state: u8) -> String {
    format!(
        "SELECT seq, id, topic, ordering_key, headers, length(payload), attempts, lapses, \
           created_at, next_attempt_at, leased_until, reason \
         FROM {outbox} WHERE state = {state} AND seq > ?1 ORDER BY seq LIMIT ?2"
    )
}
