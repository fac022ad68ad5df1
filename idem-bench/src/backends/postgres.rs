//! Postgres: a schema of its own on a server of `IDEM_POSTGRES_URL`.

use idem_core::async_trait;
use idem_postgres::PostgresStore;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use crate::backends;
use crate::measure::{BoxError, Effort, Row};
use crate::shop::{Shop, measured};

#[derive(Clone)]
struct Place {
    pool: PgPool,
    store: PostgresStore,
    schema: String,
}

/// Measures it.
pub(crate) async fn run(effort: Effort) -> Result<Vec<Row>, BoxError> {
    let url = backends::url("IDEM_POSTGRES_URL")?;
    let schema = backends::place();
    let store = PostgresStore::builder().schema(&schema).connect(&url).await?;
    let place = Place { pool: PgPool::connect(&url).await?, store, schema };
    let rows = place.measured(effort).await;
    place.execute(&format!("DROP SCHEMA {} CASCADE", place.schema)).await?;
    place.store.close().await;
    rows
}

impl Place {
    async fn measured(&self, effort: Effort) -> Result<Vec<Row>, BoxError> {
        self.execute(&format!("CREATE TABLE {}.effects (number bigint)", self.schema)).await?;
        measured("postgres", self.clone(), effort).await
    }

    async fn execute(&self, statement: &str) -> Result<(), BoxError> {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&self.pool).await?;
        Ok(())
    }
}

#[async_trait]
impl Shop for Place {
    type Store = PostgresStore;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn alone(&self, number: u64) -> Result<(), BoxError> {
        let mut transaction = self.pool.begin().await?;
        self.within(&mut transaction, number).await?;
        Ok(transaction.commit().await?)
    }

    async fn within(&self, connection: &mut PgConnection, number: u64) -> Result<(), BoxError> {
        let insert = format!("INSERT INTO {}.effects (number) VALUES ($1)", self.schema);
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(number.cast_signed());
        insert.execute(connection).await?;
        Ok(())
    }

    async fn rows(&self) -> Result<u64, BoxError> {
        let count = format!("SELECT count(*) FROM {}.effects", self.schema);
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&self.pool).await?;
        Ok(count.try_into()?)
    }
}
