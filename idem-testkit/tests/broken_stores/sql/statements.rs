//! The statements of the SQL store, each of which decides alone: what it does not touch was
//! refused. A mistake is one of them with a part changed.

/// Every statement of the store.
#[derive(Debug, Clone)]
pub(crate) struct Statements {
    pub(crate) table: String,
    pub(crate) begin: String,
    /// `?1` scope, `?2` key.
    pub(crate) find: String,
    /// As `find`, and `?3` now: what a reader is shown.
    pub(crate) get: String,
    /// The claim's parameters: see [`Statements::right`].
    pub(crate) insert: String,
    /// The same.
    pub(crate) own: String,
    /// The same.
    pub(crate) replace: String,
    /// The same.
    pub(crate) take: String,
    /// The fence's parameters: see [`Statements::right`].
    pub(crate) renew: String,
    /// The same.
    pub(crate) give_up: String,
    /// The same.
    pub(crate) checkpoint: String,
    /// The same.
    pub(crate) complete: String,
    /// The same.
    pub(crate) release: String,
    /// `?1` now, `?2` limit, `?3` to `?5` end of the lease, scope and key of the last row before.
    pub(crate) lapsed: String,
    /// `?1` now, `?2` limit.
    pub(crate) sweep: String,
    /// `?1` now.
    pub(crate) more: String,
}

const TABLE: &str = "CREATE TABLE records (
    scope BLOB NOT NULL,
    key BLOB NOT NULL,
    operation TEXT NOT NULL,
    scheme INTEGER NOT NULL,
    digest BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    owner BLOB NOT NULL,
    incarnation BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    retention INTEGER,
    least INTEGER,
    marks_begun INTEGER NOT NULL,
    input BLOB,
    state INTEGER NOT NULL,
    locked_until INTEGER,
    given_up INTEGER,
    number INTEGER,
    point BLOB,
    completed_at INTEGER,
    expires_at INTEGER,
    reply BLOB,
    PRIMARY KEY (scope, key)
)";

/// A life's columns, in the order of [`VALUES`]; the rest is NULL in a new one.
const COLUMNS: &str = "scope, key, operation, scheme, digest, attempt, owner, incarnation, \
     created_at, retention, least, marks_begun, input, state, locked_until, given_up";
const VALUES: &str = "?1, ?2, ?6, ?7, ?8, 1, ?4, ?5, ?3, ?10, ?11, ?12, ?13, 0, ?9, 0";
/// What a new life sets where an old one stands.
const ANEW: &str = "operation = ?6, scheme = ?7, digest = ?8, attempt = 1, owner = ?4, \
     incarnation = ?5, created_at = ?3, retention = ?10, least = ?11, marks_begun = ?12, \
     input = ?13, state = 0, locked_until = ?9, given_up = 0, number = NULL, point = NULL, \
     completed_at = NULL, expires_at = NULL, reply = NULL";

/// Whether the claim knows the record's scheme; `?14` holds its prints as `scheme:digest`.
const KNOWN: &str = "(scheme = 0 OR ?7 = 0 OR EXISTS \
     (SELECT 1 FROM json_each(?14) WHERE value LIKE scheme || ':%'))";
/// Whether it is the same request, as far as that can be compared.
const SAME: &str = "(operation = ?6 AND (scheme = 0 OR ?7 = 0 OR EXISTS \
     (SELECT 1 FROM json_each(?14) WHERE value = scheme || ':' || hex(digest))))";
const YOUNGER: &str = "?3 < created_at + ?17";
const FENCE: &str = "scope = ?1 AND key = ?2 AND owner = ?4 AND incarnation = ?5 AND attempt = ?6";
const EXPIRED: &str = "state = 1 AND expires_at <= ?1";
const ABANDONED: &str = "state = 0 AND locked_until <= ?1 AND marks_begun = 1 AND number IS NULL \
     AND created_at + retention <= ?1";

impl Statements {
    /// The right ones.
    ///
    /// A claim's parameters are `?1` scope, `?2` key, `?3` now, `?4` owner, `?5` fresh incarnation,
    /// `?6` operation, `?7` scheme, `?8` digest, `?9` end of the lease, `?10` retention, `?11` least
    /// after completion, `?12` marks begun, `?13` input, `?14` prints, and its policy: `?15` never,
    /// below or only, `?16` attempts or attempt, `?17` younger than, `?18` incarnation.
    ///
    /// A fenced write's are `?1` scope, `?2` key, `?3` now, `?4` owner, `?5` incarnation, `?6`
    /// attempt, `?7` end of the lease, `?8` number, `?9` recovery point or reply.
    pub(crate) fn right() -> Self {
        let row = "scope = ?1 AND key = ?2";
        let sweepable = format!("({EXPIRED}) OR ({ABANDONED})");
        Self {
            table: TABLE.to_owned(),
            begin: "BEGIN IMMEDIATE".to_owned(),
            find: format!("SELECT * FROM records WHERE {row}"),
            get: format!(
                "SELECT * FROM records WHERE {row} AND (expires_at IS NULL OR expires_at > ?3)"
            ),
            insert: format!(
                "INSERT INTO records ({COLUMNS}) SELECT {VALUES} WHERE ?15 <> 'only' \
                 ON CONFLICT (scope, key) DO UPDATE SET {ANEW} \
                 WHERE state = 1 AND expires_at <= ?3 RETURNING *"
            ),
            own: format!(
                "UPDATE records SET locked_until = max(locked_until, ?9) \
                 WHERE {row} AND state = 0 AND owner = ?4 RETURNING *"
            ),
            replace: format!(
                "UPDATE records SET {ANEW} WHERE {row} AND ?15 <> 'only' AND state = 0 \
                 AND locked_until <= ?3 AND number IS NULL \
                 AND (marks_begun = 1 OR created_at + retention <= ?3) \
                 AND {KNOWN} AND NOT {SAME} RETURNING *"
            ),
            take: format!(
                "UPDATE records SET attempt = attempt + 1, owner = ?4, locked_until = ?9, \
                 given_up = 0, marks_begun = marks_begun AND ?12 \
                 WHERE {row} AND state = 0 AND locked_until <= ?3 AND {SAME} \
                 AND attempt < 4294967295 AND CASE ?15 \
                 WHEN 'never' THEN number IS NULL \
                 WHEN 'below' THEN attempt < ?16 AND {YOUNGER} \
                 ELSE incarnation = ?18 AND attempt = ?16 AND (?17 IS NULL OR {YOUNGER}) END \
                 RETURNING *"
            ),
            renew: format!(
                "UPDATE records SET locked_until = max(locked_until, ?7) \
                 WHERE {FENCE} AND state = 0 AND given_up = 0 RETURNING *"
            ),
            give_up: format!(
                "UPDATE records SET locked_until = min(locked_until, ?3), given_up = 1 \
                 WHERE {FENCE} AND state = 0 AND given_up = 0 RETURNING *"
            ),
            checkpoint: format!(
                "UPDATE records SET number = ?8, point = ?9, locked_until = \
                 CASE given_up WHEN 1 THEN locked_until ELSE max(locked_until, ?7) END \
                 WHERE {FENCE} AND state = 0 \
                 AND (coalesce(number, 0) = ?8 - 1 OR (number = ?8 AND point = ?9)) RETURNING *"
            ),
            complete: format!(
                "UPDATE records SET state = 1, reply = ?9, completed_at = ?3, \
                 expires_at = max(created_at + retention, ?3 + least), locked_until = NULL, \
                 given_up = NULL, number = NULL, point = NULL, input = NULL \
                 WHERE {FENCE} AND state = 0 RETURNING *"
            ),
            release: format!(
                "DELETE FROM records WHERE {FENCE} AND state = 0 AND attempt = 1 \
                 AND number IS NULL RETURNING *"
            ),
            lapsed: "SELECT * FROM records WHERE state = 0 AND locked_until <= ?1 \
                 AND (?3 IS NULL OR (locked_until, scope, key) > (?3, ?4, ?5)) \
                 ORDER BY locked_until, scope, key LIMIT ?2"
                .to_owned(),
            sweep: format!(
                "DELETE FROM records WHERE rowid IN \
                 (SELECT rowid FROM records WHERE {sweepable} LIMIT ?2)"
            ),
            more: format!("SELECT EXISTS (SELECT 1 FROM records WHERE {sweepable})"),
        }
    }
}
