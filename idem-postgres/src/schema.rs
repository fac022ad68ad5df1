//! The tables, in numbered steps, and whether they are those of this build.

use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use sqlx::{PgConnection, Row, SqlSafeStr};
use tokio::time::timeout;

use crate::failure::{self, Fault, Stage};
use crate::session::{self, Session};
use crate::sql::{Tables, sql};
use crate::store::Shared;

/// The version of the tables that this build works on.
pub const SCHEMA_VERSION: i32 = 2;

/// Step n leads from version n to n + 1. A published step never changes. The same files serve
/// those who migrate by hand.
pub(crate) const MIGRATIONS: [&str; SCHEMA_VERSION as usize] =
    [include_str!("../migrations/0001.sql"), include_str!("../migrations/0002.sql")];

/// The longest that migrating may take: it waits for others who migrate, and for whoever uses the
/// tables.
const MIGRATION_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Checks that the tables are those of this build.
pub(crate) async fn check(shared: &Shared) -> Result<(), StoreError> {
    let verb = Verb::Open;
    let mut session = Session::acquire(&shared.pool, verb).await?;
    let found = version_in_time(shared, &mut session, verb).await?;
    session.end();
    complaint(found).map_or(Ok(()), |complaint| Err(wrong(verb, complaint)))
}

/// Brings the tables to this build's version, in one transaction. Several processes may do it at
/// once.
pub(crate) async fn migrate(shared: &Shared) -> Result<(), StoreError> {
    let verb = Verb::Migrate;
    let mut session = Session::acquire(&shared.pool, verb).await?;
    if version_in_time(shared, &mut session, verb).await? == Some(SCHEMA_VERSION) {
        session.end();
        return Ok(()); // A role that may not make tables is enough.
    }
    let taken = timeout(MIGRATION_LIMIT, take_steps(shared, session)).await;
    taken.unwrap_or_else(|_| {
        let detail = "the server did not answer in time";
        Err(StoreError::new(ErrorKind::OutcomeUnknown, verb, detail))
    })
}

async fn take_steps(shared: &Shared, mut session: Session) -> Result<(), StoreError> {
    let verb = Verb::Migrate;
    // A limit that the role has for its statements is not meant for this.
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED; \
         SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0; \
         SET LOCAL idle_in_transaction_session_timeout = '60s'";
    session.begin(&begin.into_sql_str(), verb).await?;
    // Whoever comes second waits here, and then finds the steps done.
    run(session.connection(), lock(&shared.tables)).await?;
    let found = version(&mut session, &shared.tables, verb).await?.unwrap_or(0);
    if found > SCHEMA_VERSION {
        session.roll_back(verb).await?;
        return Err(wrong(verb, complaint(Some(found)).unwrap_or_default()));
    }
    if found == 0 {
        create_schema(session.connection(), &shared.tables).await?;
    }
    for step in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        run(session.connection(), shared.tables.rename(step)).await?;
    }
    session.commit(verb).await.map_err(Fault::into_error)
}

async fn version_in_time(
    shared: &Shared,
    session: &mut Session,
    verb: Verb,
) -> Result<Option<i32>, StoreError> {
    let found = version(session, &shared.tables, verb);
    timeout(shared.settings.call_limit, found).await.map_err(|_| slow(verb))?
}

/// The version of the tables; `None` when there are none.
pub(crate) async fn version(
    session: &mut Session,
    tables: &Tables,
    verb: Verb,
) -> Result<Option<i32>, StoreError> {
    let failed = |error| failure::error(verb, Stage::Reading, error);
    // Read from the catalog's tables: `to_regclass` answers from a cache, which a session that
    // waited for another's migration may not have renewed.
    let there = format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
         ON n.oid = c.relnamespace WHERE n.nspname = '{}' AND c.relname = '{}_schema')",
        tables.schema_name, tables.prefix
    );
    let row = sqlx::raw_sql(sql(there)).fetch_one(session.connection()).await.map_err(failed)?;
    if !row.try_get::<bool, _>(0).map_err(failed)? {
        return Ok(None);
    }
    let version = format!("SELECT coalesce(max(version), 0) FROM {}", tables.versions);
    let row = sqlx::raw_sql(sql(version)).fetch_one(session.connection()).await;
    row.and_then(|row| row.try_get(0)).map(Some).map_err(failed)
}

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

/// One lock for each schema, until the transaction ends: two sets of tables in a schema that is not
/// there yet both make it. Two that share a number wait for one another, and that is all.
fn lock(tables: &Tables) -> String {
    format!("SELECT pg_advisory_xact_lock(hashtext('idem migrate {}'))", tables.schema_name)
}

/// `IF NOT EXISTS` alone asks for a right that a role may lack though the schema is there.
async fn create_schema(connection: &mut PgConnection, tables: &Tables) -> Result<(), StoreError> {
    let name = &tables.schema_name;
    let there =
        format!("SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '{name}')");
    let row = sqlx::raw_sql(sql(there)).fetch_one(&mut *connection).await;
    let there = row.and_then(|row| row.try_get::<bool, _>(0));
    if there.map_err(|error| failure::error(Verb::Migrate, Stage::Inside, error))? {
        return Ok(());
    }
    run(connection, format!("CREATE SCHEMA IF NOT EXISTS \"{name}\"")).await
}

async fn run(connection: &mut PgConnection, statements: String) -> Result<(), StoreError> {
    let sent = session::execute(connection, &sql(statements).into_sql_str()).await;
    sent.map_err(|error| failure::error(Verb::Migrate, Stage::Inside, error))
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
}
