//! MySQL or MariaDB: a database of its own on the server of `IDEM_MYSQL_URL`.

use idem_core::async_trait;
use idem_mysql::MysqlStore;
use idem_mysql::mysql_async::prelude::Queryable as _;
use idem_mysql::mysql_async::{Pool, Transaction, TxOpts};

use crate::backends;
use crate::measure::{BoxError, Effort, Row};
use crate::shop::{Shop, measured};

#[derive(Clone)]
struct Place {
    pool: Pool,
    store: MysqlStore,
}

/// Measures it.
pub(crate) async fn run(effort: Effort) -> Result<Vec<Row>, BoxError> {
    let url = backends::url("IDEM_MYSQL_URL")?;
    let server = Pool::from_url(&url)?;
    let database = backends::place();
    let mut admin = server.get_conn().await?;
    admin.query_drop(format!("CREATE DATABASE {database}")).await?;
    let (before, _) = url.rsplit_once('/').ok_or("a URL with a database")?;
    let rows = in_database(&format!("{before}/{database}"), effort).await;
    admin.query_drop(format!("DROP DATABASE {database}")).await?;
    drop(admin);
    server.disconnect().await?;
    rows
}

async fn in_database(url: &str, effort: Effort) -> Result<Vec<Row>, BoxError> {
    let place = Place { pool: Pool::from_url(url)?, store: MysqlStore::connect(url).await? };
    let table = "CREATE TABLE effects (number BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB";
    place.pool.get_conn().await?.query_drop(table).await?;
    let rows = measured("mysql", place.clone(), effort).await;
    place.store.close().await;
    place.pool.disconnect().await?;
    rows
}

#[async_trait]
impl Shop for Place {
    type Store = MysqlStore;

    fn store(&self) -> &MysqlStore {
        &self.store
    }

    async fn alone(&self, number: u64) -> Result<(), BoxError> {
        let mut transaction = self.pool.start_transaction(TxOpts::default()).await?;
        self.within(&mut transaction, number).await?;
        Ok(transaction.commit().await?)
    }

    async fn within(
        &self,
        connection: &mut Transaction<'static>,
        number: u64,
    ) -> Result<(), BoxError> {
        connection.exec_drop("INSERT INTO effects (number) VALUES (?)", (number,)).await?;
        Ok(())
    }

    async fn rows(&self) -> Result<u64, BoxError> {
        let count = self.pool.get_conn().await?.query_first("SELECT COUNT(*) FROM effects").await?;
        count.ok_or_else(|| "no count".into())
    }
}
