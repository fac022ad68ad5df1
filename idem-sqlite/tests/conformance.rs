//! The testkit's suite on SQLite: a file of its own for each case, on a clock that is stepped.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::key::{Key, Scope};
use idem_core::time::{Clock, ManualClock};
use idem_sqlite::SqliteStore;
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::effects::Effects;
use idem_testkit::fixture::{Connected, Fixture, SetupError, SteppedClock};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection, Row};
use tempfile::TempDir;

fn main() -> ExitCode {
    Conformance::new("sqlite", capabilities(), Fresh::new).main()
}

fn capabilities() -> Capabilities {
    Capabilities::none()
        .with(Capability::Isolated)
        .with(Capability::SteppedClock)
        .with(Capability::Admin)
        .with(Capability::Transactions)
        .with(Capability::Damage)
        .without(Capability::IndependentRecords, "SQLite has one writer at a time")
        .without(Capability::Restart, "there is no server; tests/processes.rs kills processes")
        .without(Capability::NetworkFaults, "there is no network")
        .without(Capability::Processes, "another process has another clock")
}

/// A file in a directory of its own, which goes with it.
struct Fresh {
    directory: TempDir,
    clock: Arc<ManualClock>,
}

impl Fresh {
    async fn new() -> Result<Self, SetupError> {
        let fresh = Self { directory: tempfile::tempdir()?, clock: Arc::new(ManualClock::new()) };
        let mut connection = fresh.raw().await?;
        sqlx::query("CREATE TABLE effects (marker TEXT NOT NULL)").execute(&mut connection).await?;
        connection.close().await?;
        Ok(fresh)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("idem.db")
    }

    /// A connection behind the store's back.
    async fn raw(&self) -> Result<SqliteConnection, SetupError> {
        let options = SqliteConnectOptions::new().filename(self.path()).create_if_missing(true);
        Ok(SqliteConnection::connect_with(&options).await?)
    }
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        let store = SqliteStore::builder()
            .busy_timeout(Duration::from_secs(1))
            .clock(self.clock.clone() as Arc<dyn Clock>)
            .open(self.path())
            .await?;
        let rows = Rows { path: self.path() };
        Ok(Connected::admin(store.clone()).with_transactions(store, rows))
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        Some(self.clock.clone())
    }

    async fn damage(&self, scope: &Scope, key: &Key) -> Result<(), SetupError> {
        let mut connection = self.raw().await?;
        // The table's own checks refuse what is not a record; a broken file does not ask them.
        sqlx::query("PRAGMA ignore_check_constraints = ON").execute(&mut connection).await?;
        let statement = "UPDATE idem_records SET owner = zeroblob(3) WHERE scope = ? AND key = ?";
        let statement = sqlx::query(statement).bind(scope.as_bytes()).bind(key.as_bytes());
        let changed = statement.execute(&mut connection).await?.rows_affected();
        connection.close().await?;
        if changed == 1 { Ok(()) } else { Err("no such record".into()) }
    }
}

/// The rows of a handler.
struct Rows {
    path: PathBuf,
}

#[async_trait]
impl Effects<SqliteStore> for Rows {
    async fn insert(&self, on: &mut SqliteConnection, marker: &str) -> Result<(), SetupError> {
        sqlx::query("INSERT INTO effects (marker) VALUES (?)").bind(marker).execute(on).await?;
        Ok(())
    }

    async fn count(&self, _: &SqliteStore, marker: &str) -> Result<u64, SetupError> {
        let options = SqliteConnectOptions::new().filename(&self.path);
        let mut connection = SqliteConnection::connect_with(&options).await?;
        let count = sqlx::query("SELECT count(*) FROM effects WHERE marker = ?").bind(marker);
        let count: i64 = count.fetch_one(&mut connection).await?.get(0);
        connection.close().await?;
        Ok(u64::try_from(count)?)
    }
}
