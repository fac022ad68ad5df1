//! The tables, in numbered steps, and what a database must be before a store works on it.
//!
//! The tables live in the user's own database, so SQLite's `user_version` and `application_id`
//! are theirs; the version stands in a table of its own.
//!
//! The records are an ordinary table with an index on (scope, key), not a WITHOUT ROWID one: a
//! row holds a whole reply, and in a WITHOUT ROWID table every level of the tree would hold such
//! rows. Measured with 20,000 keys, it made no difference at replies of 200 bytes; at 1,500 bytes
//! a claim with its completion took twice the time and the file twice the space.

use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::time::Timestamp;
use sqlx::{Connection, Executor, SqliteConnection, SqlitePool};
use tokio::time::Instant;

use crate::error;
use crate::sql::{Statements, Tables, sql};

/// The schema that this build works on.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// Step n leads from version n to n + 1. A published step never changes.
const MIGRATIONS: &[&[&str]] = &[RECORDS_AND_MESSAGES, RELAY];

const RECORDS_AND_MESSAGES: &[&str] = &[
    "CREATE TABLE {records} (
        scope BLOB NOT NULL CHECK (length(scope) BETWEEN 1 AND 255),
        key BLOB NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
        operation BLOB NOT NULL CHECK (length(operation) BETWEEN 1 AND 255),
        scheme INTEGER NOT NULL CHECK (scheme BETWEEN 0 AND 255),
        digest BLOB NOT NULL CHECK (length(digest) = 32),
        attempt INTEGER NOT NULL CHECK (attempt BETWEEN 1 AND 4294967295),
        owner BLOB NOT NULL CHECK (length(owner) = 16),
        incarnation BLOB NOT NULL CHECK (length(incarnation) = 16),
        created_at INTEGER NOT NULL,
        retention INTEGER CHECK (retention >= 0),
        retention_after_completion INTEGER CHECK (retention_after_completion >= 0),
        marks_begun INTEGER NOT NULL CHECK (marks_begun IN (0, 1)),
        state INTEGER NOT NULL CHECK (state IN (0, 1)),
        locked_until INTEGER,
        given_up INTEGER CHECK (given_up IN (0, 1)),
        recovery_number INTEGER CHECK (recovery_number BETWEEN 1 AND 4294967295),
        completed_at INTEGER,
        expires_at INTEGER,
        input BLOB,
        recovery BLOB,
        reply BLOB,
        PRIMARY KEY (scope, key),
        CHECK ((retention IS NULL) = (retention_after_completion IS NULL)),
        CHECK ((recovery_number IS NULL) = (recovery IS NULL)),
        CHECK ((state = 0) = (locked_until IS NOT NULL)),
        CHECK ((state = 0) = (given_up IS NOT NULL)),
        CHECK ((state = 1) = (completed_at IS NOT NULL)),
        CHECK ((state = 1) = (reply IS NOT NULL)),
        CHECK (state = 0 OR (input IS NULL AND recovery IS NULL)),
        CHECK ((expires_at IS NOT NULL) = (state = 1 AND retention IS NOT NULL))
    ) STRICT",
    "CREATE INDEX {records}_lapsed ON {records} (locked_until, scope, key) WHERE state = 0",
    "CREATE INDEX {records}_expired ON {records} (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE TABLE {outbox} (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
        topic TEXT NOT NULL,
        ordering_key TEXT,
        headers TEXT NOT NULL,
        payload BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        state INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)),
        attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
        next_attempt_at INTEGER NOT NULL,
        leased_until INTEGER,
        lease_owner BLOB CHECK (length(lease_owner) = 16)
    ) STRICT",
    "CREATE INDEX {outbox}_pending ON {outbox} (next_attempt_at, seq) WHERE state = 0",
    "CREATE INDEX {outbox}_order ON {outbox} (ordering_key, seq) WHERE state <> 1",
];

/// What a relay needs: `attempts` counts failures, `lapses` leases that ran out since the last.
/// The indexes hold what waits, what holds back its ordering key, and what was sent or given up.
const RELAY: &[&str] = &[
    "ALTER TABLE {outbox} ADD COLUMN lapses INTEGER NOT NULL DEFAULT 0 CHECK (lapses >= 0)",
    "ALTER TABLE {outbox} ADD COLUMN reason TEXT",
    "ALTER TABLE {outbox} ADD COLUMN sent_at INTEGER \
        CHECK ((state = 1) = (sent_at IS NOT NULL))",
    "DROP INDEX {outbox}_pending",
    "DROP INDEX {outbox}_order",
    "CREATE INDEX {outbox}_waiting ON {outbox} (seq) WHERE state = 0",
    "CREATE INDEX {outbox}_touched ON {outbox} (ordering_key, seq) WHERE ordering_key IS NOT NULL \
        AND (state = 2 OR (state = 0 AND (leased_until IS NOT NULL OR attempts > 0)))",
    "CREATE INDEX {outbox}_sent ON {outbox} (sent_at, seq) WHERE state = 1",
    "CREATE INDEX {outbox}_dead ON {outbox} (seq) WHERE state = 2",
];

/// How long to wait between two tries to switch a new file to WAL.
const WAL_RETRY: Duration = Duration::from_millis(10);

/// Looks at the database, and makes it fit where `migrate` allows that.
pub(crate) async fn prepare(
    writer: &SqlitePool,
    tables: &Tables,
    migrate: bool,
    now: Timestamp,
    wait: Duration,
) -> Result<(), StoreError> {
    let mut connection = writer.acquire().await.map_err(failed)?;
    check_version_of_sqlite(&mut connection).await?;
    check_writable(&mut connection, tables).await?;
    ensure_wal(&mut connection, migrate, wait).await?;
    check_synchronous(&mut connection).await?;
    if migrate && version(&mut connection, tables).await? != Some(SCHEMA_VERSION) {
        apply(&mut connection, tables, now).await?;
    }
    check_schema(&mut connection, tables).await
}

/// The version of the tables; `None` when there are none, 0 when the first step is not done.
pub(crate) async fn version(
    connection: &mut SqliteConnection,
    tables: &Tables,
) -> Result<Option<i64>, StoreError> {
    let there = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM sqlite_schema WHERE name = ?1");
    let there = there.bind(&tables.schema).fetch_one(&mut *connection).await;
    if there.map_err(failed)? == 0 {
        return Ok(None);
    }
    let version = format!("SELECT COALESCE(MAX(version), 0) FROM {}", tables.schema);
    sqlx::query_scalar(sql(version)).fetch_one(connection).await.map(Some).map_err(failed)
}

/// What is wrong with a version, if anything is.
pub(crate) fn complaint(version: Option<i64>) -> Option<String> {
    match version {
        Some(SCHEMA_VERSION) => None,
        None => Some("the store's tables are missing: migrate the database".to_owned()),
        Some(older) if older < SCHEMA_VERSION => Some(format!(
            "the store's tables have version {older} and this build needs {SCHEMA_VERSION}: \
             migrate the database"
        )),
        Some(newer) => Some(format!(
            "the store's tables have version {newer} and this build knows {SCHEMA_VERSION}: \
             use a newer build"
        )),
    }
}

/// Whether this SQLite has the fix of the race in which resetting the WAL loses commits:
/// 3.51.3, or one of its backports.
pub(crate) fn is_sound_sqlite(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = [(); 3].map(|()| parts.next().unwrap_or(0));
    match version {
        [3, 44, patch] => patch >= 6,
        [3, 50, patch] => patch >= 7,
        other => other >= [3, 51, 3],
    }
}

/// Runs one statement without parameters that gives one value.
pub(crate) async fn ask<T>(
    connection: &mut SqliteConnection,
    statement: &'static str,
) -> Result<T, sqlx::Error>
where
    T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    sqlx::query_scalar(statement).fetch_one(connection).await
}

async fn apply(
    connection: &mut SqliteConnection,
    tables: &Tables,
    now: Timestamp,
) -> Result<(), StoreError> {
    let failed = |error| error::before_commit(Verb::Migrate, error);
    // Whoever comes second waits here, and then finds the steps done.
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {} (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) \
         STRICT",
        tables.schema
    );
    transaction.execute(sql(create)).await.map_err(failed)?;
    let found = version(&mut transaction, tables).await?.unwrap_or(0);
    if found > SCHEMA_VERSION {
        return Err(wrong(Verb::Migrate, complaint(Some(found)).unwrap_or_default()));
    }
    for (step, number) in MIGRATIONS.iter().zip(1_i64..).filter(|(_, number)| *number > found) {
        for statement in *step {
            let statement =
                statement.replace("{records}", &tables.records).replace("{outbox}", &tables.outbox);
            transaction.execute(sql(statement)).await.map_err(failed)?;
        }
        let applied =
            format!("INSERT INTO {} (version, applied_at) VALUES (?1, ?2)", tables.schema);
        let applied = sqlx::query(sql(applied)).bind(number).bind(now.as_unix_micros());
        applied.execute(&mut *transaction).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(|error| error::at_commit(Verb::Migrate, error))
}

async fn check_schema(
    connection: &mut SqliteConnection,
    tables: &Tables,
) -> Result<(), StoreError> {
    if let Some(complaint) = complaint(version(connection, tables).await?) {
        return Err(wrong(Verb::Open, complaint));
    }
    let statements = Statements::new(tables);
    for statement in [statements.find, statements.put, statements.push] {
        // Preparing finds out whether the tables and their columns are there.
        connection.prepare(statement).await.map_err(failed)?;
    }
    Ok(())
}

async fn check_version_of_sqlite(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let version: String = ask(connection, "SELECT sqlite_version()").await.map_err(failed)?;
    if is_sound_sqlite(&version) {
        return Ok(());
    }
    Err(wrong(Verb::Open, format!("SQLite {version} can lose commits; 3.51.3 or newer is needed")))
}

/// `BEGIN IMMEDIATE` alone succeeds on a read-only file, so a write is tried and taken back.
async fn check_writable(
    connection: &mut SqliteConnection,
    tables: &Tables,
) -> Result<(), StoreError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let probe = format!("CREATE TABLE {}_probe (x INTEGER) STRICT", tables.schema);
    transaction.execute(sql(probe)).await.map_err(failed)?;
    transaction.rollback().await.map_err(failed)
}

/// Switching needs the file alone, and SQLite does not wait for that by itself.
async fn ensure_wal(
    connection: &mut SqliteConnection,
    may_switch: bool,
    wait: Duration,
) -> Result<(), StoreError> {
    let deadline = Instant::now() + wait;
    let statement = if may_switch { "PRAGMA journal_mode = WAL" } else { "PRAGMA journal_mode" };
    loop {
        match ask::<String>(connection, statement).await {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let detail = format!("the journal mode is {mode}; a file on disk in WAL is needed");
                return Err(wrong(Verb::Open, detail));
            }
            Err(error) if error::is_busy(&error) && Instant::now() < deadline => {
                tokio::time::sleep(WAL_RETRY).await;
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

async fn check_synchronous(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let synchronous: i64 = ask(connection, "PRAGMA synchronous").await.map_err(failed)?;
    if synchronous >= 2 {
        return Ok(());
    }
    let detail = "PRAGMA synchronous is below FULL, so that a power cut loses commits";
    Err(wrong(Verb::Open, detail.to_owned()))
}

fn failed(error: sqlx::Error) -> StoreError {
    error::before_commit(Verb::Open, error)
}

fn wrong(verb: Verb, detail: String) -> StoreError {
    StoreError::new(ErrorKind::WrongSchema, verb, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_with_the_fix_are_sound() {
        for sound in ["3.51.3", "3.51.10", "3.52.0", "3.100.0", "3.44.6", "3.50.7", "4.0.0"] {
            assert!(is_sound_sqlite(sound), "{sound}");
        }
        for unsound in ["3.51.2", "3.51", "3.44.5", "3.45.1", "3.50.6", "3.46.0", "3.40.1", "x"] {
            assert!(!is_sound_sqlite(unsound), "{unsound}");
        }
    }

    #[test]
    fn versions_other_than_this_builds_are_named() {
        assert_eq!(complaint(Some(SCHEMA_VERSION)), None);
        assert!(complaint(None).unwrap().contains("missing"));
        assert!(complaint(Some(0)).unwrap().contains("version 0"));
        assert!(complaint(Some(99)).unwrap().contains("newer build"));
    }
}
