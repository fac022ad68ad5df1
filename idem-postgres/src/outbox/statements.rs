//! The text of the outbox's statements, and the locks that order them.
//!
//! A lease runs alone: it holds a lock that every other verb but the push shares. So nothing but
//! pushes happens between what it reads and what it writes, and what it reads is newer than every
//! settlement before it, since the lock is taken by a statement of its own.

use idem_core::outbox::MAX_LEASED_BYTES;
use sqlx::SqlStr;

use crate::sql::{CLOCK, Tables, sql};

/// A message of an ordering key that may hold back others: what the index `touched` holds.
const TOUCHED: &str = "ordering_key IS NOT NULL \
     AND (state = 2 OR (state = 0 AND (leased_until IS NOT NULL OR attempts > 0)))";
/// A lease runs.
const LEASED: &str = "(state = 0 AND leased_until IS NOT NULL \
     AND leased_until > (SELECT now FROM bound))";

pub(super) struct OutboxStatements {
    /// Begins a lease: alone.
    pub(super) begin_lease: SqlStr,
    /// Begins any other verb that writes.
    pub(super) begin: SqlStr,
    /// `$2` limit, `$3` whether dead ones hold nothing back, `$4` owner, `$5` length.
    pub(super) lease: SqlStr,
    /// `$2` number, `$3` reason.
    pub(super) bury: SqlStr,
    /// `$2` ids, `$3` owners, `$4` length. Gives the lost ids and owners.
    pub(super) renew: SqlStr,
    /// `$2` ids, `$3` owners, `$4` outcomes, `$5` delays, `$6` reasons. Gives the lost ids and
    /// owners.
    pub(super) settle: SqlStr,
    /// `$2` number of the row before, `$3` limit; one for each state.
    pub(super) list: [SqlStr; 3],
    /// `$2` ids. Gives how many.
    pub(super) requeue: SqlStr,
    /// `$2` ids. Gives how many.
    pub(super) discard: SqlStr,
    /// `$2` age, `$3` limit. Gives how many, and whether more wait.
    pub(super) delete_sent: SqlStr,
    /// Gives the time, how many wait, how many of them are leased, the oldest, and the dead.
    pub(super) backlog: SqlStr,
}

impl OutboxStatements {
    pub(super) fn new(tables: &Tables, begin: &str) -> Self {
        let outbox = &tables.outbox;
        let lock = format!("hashtextextended('idem relay {}', 0)", outbox.replace('"', ""));
        let states = [0, 1, 2];
        Self {
            // A nested loop over what is held back is quick while that is little, and endless
            // when every delivery fails. The price that the planner puts on a loop that cannot be
            // avoided makes it compile the statement, which takes a hundred times as long as
            // running it. What is held back is compared as a hash, which the planner chooses only
            // where the memory that a session may take has room for it: millions of keys here.
            begin_lease: sql(format!(
                "{begin}; SET LOCAL enable_nestloop = off; SET LOCAL jit = off; \
                 SET LOCAL work_mem = '256MB'; \
                 SELECT pg_advisory_xact_lock({lock})"
            )),
            begin: sql(format!("{begin}; SELECT pg_advisory_xact_lock_shared({lock})")),
            lease: sql(lease(outbox)),
            bury: sql(format!(
                "WITH buried AS (UPDATE {outbox} SET state = 2, leased_until = NULL, \
                   attempts = attempts + 1, reason = $3::bytea \
                   WHERE $1::text = 'bury' AND seq = $2::bigint RETURNING 1) \
                 SELECT 'bury'::text, count(*) FROM buried"
            )),
            renew: sql(renew(outbox)),
            settle: sql(settle(outbox)),
            list: states.map(|state| sql(list(outbox, state))),
            requeue: sql(format!(
                "WITH changed AS (UPDATE {outbox} SET state = 0, attempts = 0, lapses = 0, \
                   reason = NULL, lease_owner = NULL \
                   WHERE $1::text = 'requeue' AND id = ANY ($2::bytea[]) AND state = 2 RETURNING 1) \
                 SELECT 'requeue'::text, count(*) FROM changed"
            )),
            discard: sql(format!(
                "WITH changed AS (DELETE FROM {outbox} \
                   WHERE $1::text = 'discard' AND id = ANY ($2::bytea[]) AND state = 2 RETURNING 1) \
                 SELECT 'discard'::text, count(*) FROM changed"
            )),
            delete_sent: sql(delete_sent(outbox)),
            backlog: sql(format!(
                "WITH bound AS MATERIALIZED (SELECT {CLOCK} AS now) \
                 SELECT 'backlog'::text, (SELECT now FROM bound), count(*), \
                   count(*) FILTER (WHERE {LEASED}), min(created_at), \
                   (SELECT count(*) FROM {outbox} WHERE state = 2) \
                 FROM {outbox} WHERE $1::text = 'backlog' AND state = 0"
            )),
        }
    }
}

/// Each ordering key that holds something back stands in `held` once, with the number from which
/// on: 0 where a lease holds the whole key. Gives one row at least.
///
/// What may go is of a key that holds nothing back, or stands before what does. The first is read
/// in its order until there is enough; the second ends where the last one holds. So neither reads
/// what merely waits, however much that is; what queues behind a message that holds its key back is
/// passed over one by one, as long as there is not enough else.
fn lease(outbox: &str) -> String {
    let ready = format!(
        "$1::text = 'lease' AND state = 0 AND NOT {LEASED} \
         AND (attempts = 0 OR next_attempt_at <= (SELECT now FROM bound))"
    );
    format!(
        "WITH bound AS MATERIALIZED (SELECT {CLOCK} AS now), \
         held AS MATERIALIZED (\
           SELECT ordering_key AS held_key, \
             min(CASE WHEN {LEASED} THEN 0 ELSE seq END) AS held_from \
           FROM {outbox} WHERE {TOUCHED} \
             AND ({LEASED} OR (state = 2 AND NOT $3::boolean) \
               OR (state = 0 AND attempts > 0 AND next_attempt_at > (SELECT now FROM bound))) \
           GROUP BY ordering_key), \
         due AS MATERIALIZED (\
           SELECT seq, bytes FROM (\
             (SELECT seq, octet_length(payload) AS bytes FROM {outbox} \
               WHERE {ready} AND (ordering_key IS NULL \
                 OR ordering_key NOT IN (SELECT held_key FROM held)) \
               ORDER BY seq LIMIT $2::bigint) \
             UNION ALL \
             (SELECT seq, octet_length(payload) FROM {outbox} JOIN held ON held_key = ordering_key \
               WHERE {ready} AND seq < held_from AND seq < (SELECT max(held_from) FROM held) \
               ORDER BY seq LIMIT $2)) either \
           ORDER BY seq LIMIT $2), \
         measured AS MATERIALIZED (\
           SELECT seq, row_number() OVER w AS place, sum(bytes) OVER w AS bytes \
           FROM due WINDOW w AS (ORDER BY seq)), \
         taken AS (\
           UPDATE {outbox} SET lapses = lapses + (leased_until IS NOT NULL)::integer, \
             lease_owner = $4::bytea, leased_until = (SELECT now FROM bound) + $5::bigint \
           WHERE state = 0 AND seq = ANY (ARRAY(SELECT seq FROM measured \
             WHERE place = 1 OR bytes <= {MAX_LEASED_BYTES})) \
           RETURNING seq, id, topic, ordering_key, headers, payload, attempts, lapses) \
         SELECT 'lease'::text, t.* FROM (SELECT 1) one LEFT JOIN taken t ON true ORDER BY seq"
    )
}

/// The rows that are asked about, as `asked`, and the lost ones of them.
fn lost(name: &str, outbox: &str, lost_unless: &str) -> String {
    format!(
        "SELECT '{name}'::text, coalesce(array_agg(a.id), '{{}}'), \
           coalesce(array_agg(a.owner), '{{}}') \
         FROM asked a WHERE NOT EXISTS (SELECT FROM {outbox} m \
           WHERE m.id = a.id AND m.lease_owner = a.owner{lost_unless})"
    )
}

fn renew(outbox: &str) -> String {
    let lost = lost("renew", outbox, " AND m.state = 0 AND m.leased_until IS NOT NULL");
    format!(
        "WITH asked AS MATERIALIZED (\
           SELECT * FROM unnest($2::bytea[], $3::bytea[]) AS a (id, owner)), \
         renewed AS (\
           UPDATE {outbox} m SET leased_until = greatest(m.leased_until, {CLOCK} + $4::bigint) \
           FROM asked a WHERE $1::text = 'renew' AND m.id = a.id AND m.lease_owner = a.owner \
             AND m.state = 0 AND m.leased_until IS NOT NULL) \
         {lost}"
    )
}

/// What was settled before under the same lease has its owner still.
fn settle(outbox: &str) -> String {
    let lost = lost("settle", outbox, "");
    format!(
        "WITH asked AS MATERIALIZED (\
           SELECT * FROM unnest($2::bytea[], $3::bytea[], $4::smallint[], $5::bigint[], \
             $6::bytea[]) AS a (id, owner, outcome, delay, reason)), \
         settled AS (\
           UPDATE {outbox} m SET leased_until = NULL, \
             state = CASE a.outcome WHEN 0 THEN 1 WHEN 2 THEN 2 ELSE 0 END, \
             sent_at = CASE WHEN a.outcome = 0 THEN {CLOCK} END, \
             attempts = m.attempts + (a.outcome IN (1, 2))::integer, \
             lapses = CASE WHEN a.outcome IN (1, 2) THEN 0 ELSE m.lapses END, \
             next_attempt_at = CASE WHEN a.outcome = 1 THEN {CLOCK} + a.delay \
               ELSE m.next_attempt_at END, \
             reason = coalesce(a.reason, m.reason) \
           FROM asked a WHERE $1::text = 'settle' AND m.id = a.id AND m.lease_owner = a.owner \
             AND m.state = 0 AND m.leased_until IS NOT NULL) \
         {lost}"
    )
}

/// Gives one row at least.
fn list(outbox: &str, state: u8) -> String {
    format!(
        "SELECT 'list'::text, m.*, {CLOCK} FROM (SELECT 1) one LEFT JOIN LATERAL (\
           SELECT seq, id, topic, ordering_key, headers, octet_length(payload)::bigint, \
             attempts, lapses, created_at, next_attempt_at, leased_until, reason \
           FROM {outbox} WHERE $1::text = 'list' AND state = {state} AND seq > $2::bigint \
           ORDER BY seq LIMIT $3::bigint) m ON true ORDER BY seq"
    )
}

fn delete_sent(outbox: &str) -> String {
    format!(
        "WITH due AS MATERIALIZED (\
           SELECT seq, row_number() OVER (ORDER BY sent_at, seq) AS place FROM (\
             SELECT seq, sent_at FROM {outbox} WHERE $1::text = 'delete_sent' AND state = 1 \
               AND sent_at <= {CLOCK} - $2::bigint \
             ORDER BY sent_at, seq LIMIT $3::bigint + 1 FOR UPDATE SKIP LOCKED) old), \
         gone AS (\
           DELETE FROM {outbox} WHERE seq = ANY (ARRAY(SELECT seq FROM due WHERE place <= $3)) \
           RETURNING 1) \
         SELECT 'delete_sent'::text, (SELECT count(*) FROM gone), \
           (SELECT count(*) FROM due) > $3"
    )
}
