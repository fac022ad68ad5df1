//! SQLite: a file in a temporary folder.

use idem_core::async_trait;
use idem_sqlite::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{SqliteConnection, SqlitePool};

use crate::measure::{BoxError, Effort, Row};
use crate::shop::{Shop, measured};

#[derive(Clone)]
struct Place {
    pool: SqlitePool,
    store: SqliteStore,
}

/// Measures it.
pub(crate) async fn run(effort: Effort) -> Result<Vec<Row>, BoxError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bench.db");
    let store = SqliteStore::open(&path).await?;
    // As durable as the store's own connections.
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
    sqlx::query("CREATE TABLE effects (number INTEGER NOT NULL)").execute(&pool).await?;
    let place = Place { pool, store };
    let rows = measured("sqlite", place.clone(), effort).await;
    place.pool.close().await;
    place.store.close().await;
    rows
}

#[async_trait]
impl Shop for Place {
    type Store = SqliteStore;

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    async fn alone(&self, number: u64) -> Result<(), BoxError> {
        let mut transaction = self.pool.begin().await?;
        self.within(&mut transaction, number).await?;
        Ok(transaction.commit().await?)
    }

    async fn within(&self, connection: &mut SqliteConnection, number: u64) -> Result<(), BoxError> {
        let insert = sqlx::query("INSERT INTO effects (number) VALUES (?)");
        insert.bind(number.cast_signed()).execute(connection).await?;
        Ok(())
    }

    async fn rows(&self) -> Result<u64, BoxError> {
        let count = sqlx::query_scalar("SELECT count(*) FROM effects");
        let count: i64 = count.fetch_one(&self.pool).await?;
        Ok(count.try_into()?)
    }
}
