//! The suite on SQLite files, in the folder of the one that was named.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::key::{Key, Scope};
use idem_sqlite::SqliteStore;
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use idem_sqlite::sqlx::{self, Connection, Row};
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::effects::Effects;
use idem_testkit::fixture::{Connected, Fixture, SetupError};
use tempfile::TempDir;

use super::Suite;
use crate::exit::{Exit, Failure};

/// How long a call waits for another's transaction: the cases about that wait as long.
const BUSY: Duration = Duration::from_secs(1);

/// SQLite has one lock for writing, so each case gets a file of its own: on the file system of the
/// one that was named, which is what differs from one place to another.
pub(crate) async fn suite(url: String) -> Result<Suite, Failure> {
    let options: SqliteConnectOptions =
        url.parse().map_err(|error: sqlx::Error| Failure::new(Exit::Usage, error))?;
    if url.contains(":memory:") || url.contains("mode=memory") {
        let why = "a database in memory has no second connection; name a file, sqlite:PATH";
        return Err(Failure::new(Exit::Usage, why));
    }
    let parent = options.get_filename().parent().unwrap_or_else(|| "".as_ref()).to_owned();
    let parent = if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent };
    let folder = tempfile::Builder::new().prefix(".idem-conformance-").tempdir_in(parent);
    let folder = Arc::new(folder.map_err(|error| Failure::new(Exit::Setup, error))?);
    let of = folder.clone();
    let conformance = Conformance::new("sqlite", capabilities(), move || Fresh::within(of.clone()));
    let clean_up = async move {
        // The suite is gone by now, with its fixtures, so this is the last hold on the folder.
        let closed = Arc::into_inner(folder).map_or(Ok(()), TempDir::close);
        closed.map_err(|error| Failure::new(Exit::Setup, error))
    };
    Ok(Suite { conformance, clean_up: Box::pin(clean_up) })
}

fn capabilities() -> Capabilities {
    Capabilities::none()
        .with(Capability::Isolated)
        .with(Capability::Admin)
        .with(Capability::Transactions)
        .with(Capability::Outbox)
        .with(Capability::Processes)
        .with(Capability::Damage)
        .without(Capability::SteppedClock, "the machine's own clock judges")
        .without(Capability::IndependentRecords, "SQLite has one writer at a time")
        .without(Capability::Restart, "there is no server")
        .without(Capability::NetworkFaults, "there is no network")
}

/// What stands for this store's data in another process.
pub(super) async fn attach(path: &str) -> Result<Connected, SetupError> {
    Ok(Connected::admin(SqliteStore::builder().busy_timeout(BUSY).open(path).await?))
}

/// A file in a folder of its own, which goes with it.
struct Fresh {
    own: TempDir,
    _within: Arc<TempDir>,
}

impl Fresh {
    async fn within(folder: Arc<TempDir>) -> Result<Self, SetupError> {
        let own = tempfile::tempdir_in(folder.path())?;
        let fresh = Self { own, _within: folder };
        let mut connection = raw(fresh.path(), true).await?;
        sqlx::query("CREATE TABLE effects (marker TEXT NOT NULL)").execute(&mut connection).await?;
        connection.close().await?;
        Ok(fresh)
    }

    fn path(&self) -> PathBuf {
        self.own.path().join("idem.db")
    }
}

/// A connection behind the store's back.
async fn raw(path: PathBuf, creates: bool) -> Result<SqliteConnection, SetupError> {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(creates);
    Ok(SqliteConnection::connect_with(&options).await?)
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        let store = SqliteStore::builder().busy_timeout(BUSY).open(self.path()).await?;
        let rows = Rows { path: self.path() };
        Ok(Connected::admin(store.clone())
            .with_outbox(store.outbox())
            .with_transactions(store, rows))
    }

    fn address(&self) -> Option<String> {
        Some(format!("sqlite {}", self.path().display()))
    }

    async fn damage(&self, scope: &Scope, key: &Key) -> Result<(), SetupError> {
        let mut connection = raw(self.path(), false).await?;
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
        let mut connection = raw(self.path.clone(), false).await?;
        let count = sqlx::query("SELECT count(*) FROM effects WHERE marker = ?").bind(marker);
        let count: i64 = count.fetch_one(&mut connection).await?.get(0);
        connection.close().await?;
        Ok(u64::try_from(count)?)
    }
}
