//! The job on MySQL or MariaDB.

use idem_core::engine::Failure;
use idem_mysql::MysqlStore;
use idem_mysql::mysql_async::prelude::Queryable as _;
use idem_mysql::mysql_async::{Conn, Opts, Transaction};
use tempfile::TempDir;

use crate::backend::Backend;

pub(crate) struct Mysql;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS job_rows \
     (job VARCHAR(64) NOT NULL, what VARCHAR(64) NOT NULL) ENGINE = InnoDB";

impl Backend for Mysql {
    type Store = MysqlStore;
    const NAME: &'static str = "mysql";

    async fn fresh(_: &TempDir) -> String {
        let server = std::env::var("IDEM_MYSQL_URL")
            .expect("set IDEM_MYSQL_URL: this test needs a server; `scripts/test cli` starts one");
        let name = format!("idem_recovery_{:016x}", getrandom::u64().unwrap());
        connect(&server).await.query_drop(format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, _) = server.rsplit_once('/').expect("the URL names a database");
        format!("{base}/{name}")
    }

    async fn open(url: &str) -> MysqlStore {
        let store = MysqlStore::builder().connect(url).await.unwrap();
        connect(url).await.query_drop(TABLE).await.unwrap();
        store
    }

    async fn insert(
        connection: &mut Transaction<'static>,
        job: &str,
        row: &str,
    ) -> Result<(), Failure> {
        let insert = "INSERT INTO job_rows (job, what) VALUES (?, ?)";
        connection.exec_drop(insert, (job, row)).await?;
        Ok(())
    }

    async fn rows(url: &str, job: &str) -> Vec<String> {
        let rows = "SELECT what FROM job_rows WHERE job = ? ORDER BY what";
        connect(url).await.exec(rows, (job,)).await.unwrap()
    }
}

async fn connect(url: &str) -> Conn {
    Conn::new(Opts::from_url(url).unwrap()).await.unwrap()
}
