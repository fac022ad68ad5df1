//! The databases that the job runs on: what is different between them, and no more.

use idem_core::engine::Failure;
use idem_core::transactional::TransactionalStore;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::{self, Connection as _, PgConnection};
use idem_sqlite::SqliteStore;
use idem_sqlite::sqlx::SqliteConnection;
use tempfile::TempDir;

/// A database with transactions.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Its store.
    type Store: TransactionalStore + Clone;

    /// Its name, as a child process is told.
    const NAME: &'static str;

    /// The URL of a fresh database, on disk in `folder` where it is a file.
    fn fresh(folder: &TempDir) -> impl Future<Output = String>;

    /// Opens the store, and makes the table of the job's own rows.
    fn open(url: &str) -> impl Future<Output = Self::Store>;

    /// Writes a row of the job in its transaction.
    fn insert(
        connection: &mut <Self::Store as TransactionalStore>::Connection,
        job: &str,
        row: &str,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// The rows that stand for a job.
    fn rows(url: &str, job: &str) -> impl Future<Output = Vec<String>>;
}

pub(crate) struct Sqlite;

impl Backend for Sqlite {
    type Store = SqliteStore;
    const NAME: &'static str = "sqlite";

    async fn fresh(folder: &TempDir) -> String {
        format!("sqlite:{}", folder.path().join("idem.db").display())
    }

    async fn open(url: &str) -> SqliteStore {
        let store = SqliteStore::builder().connect(url).await.unwrap();
        let mut connection = SqliteConnection::connect(url).await.unwrap();
        sqlx::query(TABLE).execute(&mut connection).await.unwrap();
        store
    }

    async fn insert(
        connection: &mut SqliteConnection,
        job: &str,
        row: &str,
    ) -> Result<(), Failure> {
        sqlx::query(INSERT).bind(job).bind(row).execute(connection).await?;
        Ok(())
    }

    async fn rows(url: &str, job: &str) -> Vec<String> {
        let mut connection = SqliteConnection::connect(url).await.unwrap();
        sqlx::query_scalar(ROWS).bind(job).fetch_all(&mut connection).await.unwrap()
    }
}

pub(crate) struct Postgres;

impl Backend for Postgres {
    type Store = PostgresStore;
    const NAME: &'static str = "postgres";

    async fn fresh(_: &TempDir) -> String {
        let server = std::env::var("IDEM_POSTGRES_URL").expect(
            "set IDEM_POSTGRES_URL: this test needs a server; `scripts/test cli` starts one",
        );
        let mut connection = PgConnection::connect(&server).await.unwrap();
        let name = format!("idem_recovery_{:016x}", getrandom::u64().unwrap());
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0"));
        sqlx::query(create).execute(&mut connection).await.unwrap();
        let (base, _) = server.rsplit_once('/').expect("the URL names a database");
        format!("{base}/{name}")
    }

    async fn open(url: &str) -> PostgresStore {
        let store = PostgresStore::builder().max_connections(4).connect(url).await.unwrap();
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::query(LOCK).execute(&mut connection).await.unwrap();
        sqlx::query(TABLE).execute(&mut connection).await.unwrap();
        store
    }

    async fn insert(connection: &mut PgConnection, job: &str, row: &str) -> Result<(), Failure> {
        sqlx::query(INSERT).bind(job).bind(row).execute(connection).await?;
        Ok(())
    }

    async fn rows(url: &str, job: &str) -> Vec<String> {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::query_scalar(ROWS).bind(job).fetch_all(&mut connection).await.unwrap()
    }
}

/// No key: a row that is written twice stands twice.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS job_rows (job TEXT NOT NULL, what TEXT NOT NULL)";
/// Two processes that make a table at once would collide; the connection's end lets go.
const LOCK: &str = "SELECT pg_advisory_lock(7193)";
const INSERT: &str = "INSERT INTO job_rows (job, what) VALUES ($1, $2)";
const ROWS: &str = "SELECT what FROM job_rows WHERE job = $1 ORDER BY what";
