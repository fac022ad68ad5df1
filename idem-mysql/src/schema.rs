//! The tables, in numbered steps, and whether they are those of this build.

use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::timeout;

use crate::failure::{self, Fault, Stage};
use crate::sql::Tables;
use crate::store::Shared;

/// The version of the tables that this build works on.
pub const SCHEMA_VERSION: i32 = 1;

/// Step n leads from version n to n + 1. A published step never changes. The same files serve
/// those who migrate by hand. Statements that define tables commit one by one here, so each of
/// them may be run again.
const MIGRATIONS: [&str; SCHEMA_VERSION as usize] = [include_str!("../migrations/0001.sql")];

/// How long a migration waits for another one, in seconds.
const WAIT: u32 = 60;

/// How long a migration may take in all. A statement that defines a table waits for every open
/// transaction on it, by the server's own settings for a day or longer.
const LONGEST_MIGRATION: Duration = Duration::from_secs(10 * 60);

/// Checks that the tables are those of this build.
pub(crate) async fn check(shared: &Shared) -> Result<(), StoreError> {
    let verb = Verb::Open;
    let mut connection = shared.verbs.lend(verb).await?;
    let found = version(&mut connection, &shared.tables, verb);
    let found = timeout(shared.settings.call_limit, found).await.map_err(|_| slow(verb))??;
    complaint(found).map_or(Ok(()), |complaint| Err(wrong(verb, complaint)))
}

/// Brings the tables to this build's version. Several processes may do it at once: each waits for
/// the one before it, and where that is not to be had, each statement may run twice.
pub(crate) async fn migrate(shared: &Shared) -> Result<(), StoreError> {
    // Cut off, its connection is closed, and with it the lock is given back.
    timeout(LONGEST_MIGRATION, migrate_unbounded(shared)).await.unwrap_or_else(|_| {
        let detail = "the migration did not end in time; open again";
        Err(StoreError::new(ErrorKind::OutcomeUnknown, Verb::Migrate, detail))
    })
}

async fn migrate_unbounded(shared: &Shared) -> Result<(), StoreError> {
    let verb = Verb::Migrate;
    let tables = &shared.tables;
    let mut connection = shared.verbs.lend(verb).await?;
    if version(&mut connection, tables, verb).await? == Some(SCHEMA_VERSION) {
        return Ok(()); // A user who may not make tables is enough.
    }
    let lock = format!(
        "CONCAT('idem migrate ', LEFT(SHA2(CONCAT(DATABASE(), '{}'), 256), 32))",
        tables.prefix
    );
    let failed = |error| failure::error(verb, Stage::Reading, error);
    let locked: Option<Option<i64>> =
        connection.query_first(format!("SELECT GET_LOCK({lock}, {WAIT})")).await.map_err(failed)?;
    if locked.flatten() != Some(1) {
        return Err(StoreError::new(ErrorKind::NotApplied, verb, "another migration is running"));
    }
    let migrated = steps(&mut connection, tables).await;
    // Given back before the connection is: another may be lent it at once.
    connection.query_drop(format!("DO RELEASE_LOCK({lock})")).await.map_err(failed)?;
    migrated
}

async fn steps(connection: &mut Conn, tables: &Tables) -> Result<(), StoreError> {
    let verb = Verb::Migrate;
    let found = version(connection, tables, verb).await?.unwrap_or(0);
    if found > SCHEMA_VERSION {
        return Err(wrong(verb, complaint(Some(found)).unwrap_or_default()));
    }
    for step in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        for statement in statements(&tables.rename(step)) {
            match connection.query_drop(statement).await {
                Ok(()) => {}
                Err(error) => match failure::fault(verb, Stage::Committing, error) {
                    // Another one has noted the same step.
                    Fault::Duplicate(_) => {}
                    fault => return Err(fault.into_error()),
                },
            }
        }
    }
    Ok(())
}

/// The statements of a migration: comments are lines of their own, and no text holds a `;`.
pub(crate) fn statements(text: &str) -> Vec<String> {
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let joined = lines.join("\n");
    let statements = joined.split(';').map(str::trim);
    statements.filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}

/// The version of the tables; `None` when there are none.
pub(crate) async fn version(
    connection: &mut Conn,
    tables: &Tables,
    verb: Verb,
) -> Result<Option<i32>, StoreError> {
    let statement = format!("SELECT COALESCE(MAX(version), 0) FROM {}", tables.versions);
    match connection.query_first::<i32, _>(statement).await {
        Ok(version) => Ok(version),
        Err(mysql_async::Error::Server(error)) if error.code == NO_TABLE => Ok(None),
        Err(error) => Err(failure::error(verb, Stage::Reading, error)),
    }
}

const NO_TABLE: u16 = 1146;

/// What is wrong with a version, if anything is.
pub(crate) fn complaint(version: Option<i32>) -> Option<String> {
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

fn wrong(verb: Verb, detail: String) -> StoreError {
    StoreError::new(ErrorKind::WrongSchema, verb, detail)
}

pub(crate) fn slow(verb: Verb) -> StoreError {
    StoreError::new(ErrorKind::NotApplied, verb, "the server did not answer in time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_other_than_this_builds_are_named() {
        assert_eq!(complaint(Some(SCHEMA_VERSION)), None);
        assert!(complaint(None).unwrap().contains("missing"));
        assert!(complaint(Some(0)).unwrap().contains("version 0"));
        assert!(complaint(Some(99)).unwrap().contains("newer build"));
    }

    #[test]
    fn a_migration_is_split_into_its_statements() {
        let statements = statements(MIGRATIONS[0]);
        assert_eq!(statements.len(), 5);
        assert!(statements[..4].iter().all(|text| text.starts_with("CREATE TABLE IF NOT EXISTS")));
        assert!(statements[4].starts_with("INSERT INTO idem_schema"));
    }
}
