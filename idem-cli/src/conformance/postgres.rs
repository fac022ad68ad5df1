//! The suite on a Postgres server, each case in a schema of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::key::{Key, Scope};
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::{self, AssertSqlSafe, Connection, PgConnection};
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::effects::Effects;
use idem_testkit::fixture::{Connected, Fixture, SetupError};

use super::{Suite, fresh_name};
use crate::exit::{Exit, Failure};

/// A call that gets no answer is given up while its case still waits for it.
const CALL_LIMIT: Duration = Duration::from_secs(3);

pub(crate) async fn suite(url: String) -> Result<Suite, Failure> {
    let run = fresh_name("idem_conformance_");
    let (count, server, prefix) = (AtomicU64::new(0), url.clone(), run.clone());
    let fresh = move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        Fresh::open(server.clone(), format!("{prefix}_{number}"))
    };
    let conformance = Conformance::new("postgres", capabilities(), fresh);
    let clean_up =
        async move { drop_all(&url, &run).await.map_err(|error| Failure::new(Exit::Setup, error)) };
    Ok(Suite { conformance, clean_up: Box::pin(clean_up) })
}

fn capabilities() -> Capabilities {
    Capabilities::none()
        .with(Capability::Isolated)
        .with(Capability::Admin)
        .with(Capability::Transactions)
        .with(Capability::Outbox)
        .with(Capability::IndependentRecords)
        .with(Capability::Processes)
        .with(Capability::Damage)
        .without(Capability::SteppedClock, "the server's own clock judges")
        .without(Capability::Restart, "the server is not this command's own")
        .without(Capability::NetworkFaults, "the way to the server is not this command's own")
}

/// What stands for this store's data in another process.
pub(super) async fn attach(address: &str) -> Result<Connected, SetupError> {
    let (schema, url) = address.split_once(' ').ok_or("an address of two words")?;
    connect(url, schema).await
}

async fn connect(url: &str, schema: &str) -> Result<Connected, SetupError> {
    let store = PostgresStore::builder().schema(schema).call_limit(CALL_LIMIT).connect(url).await?;
    let (outbox, rows) = (store.outbox(), Rows { schema: schema.to_owned() });
    Ok(Connected::admin(store.clone()).with_outbox(outbox).with_transactions(store, rows))
}

/// Schemas are dropped one by one: one transaction would need a lock for each table of all.
async fn drop_all(url: &str, run: &str) -> Result<(), SetupError> {
    let mut connection = PgConnection::connect(url).await?;
    let named = "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE starts_with(nspname, $1)";
    let named = sqlx::query_scalar::<_, String>(named).bind(run).persistent(false);
    for schema in named.fetch_all(&mut connection).await? {
        change(&mut connection, format!("DROP SCHEMA \"{schema}\" CASCADE")).await?;
    }
    Ok(connection.close().await?)
}

async fn change(connection: &mut PgConnection, statement: String) -> Result<(), SetupError> {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}

struct Fresh {
    url: String,
    schema: String,
}

impl Fresh {
    async fn open(url: String, schema: String) -> Result<Self, SetupError> {
        connect(&url, &schema).await?;
        let mut connection = PgConnection::connect(&url).await?;
        let rows = format!("CREATE TABLE \"{schema}\".effects (marker text NOT NULL)");
        change(&mut connection, rows).await?;
        connection.close().await?;
        Ok(Self { url, schema })
    }
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        connect(&self.url, &self.schema).await
    }

    fn address(&self) -> Option<String> {
        Some(format!("postgres {} {}", self.schema, self.url))
    }

    async fn damage(&self, scope: &Scope, key: &Key) -> Result<(), SetupError> {
        let mut connection = PgConnection::connect(&self.url).await?;
        let table = format!("\"{}\".idem_records", self.schema);
        // The table's own constraint keeps such a row out.
        let unchecked = format!("ALTER TABLE {table} DROP CONSTRAINT idem_records_digest_check");
        change(&mut connection, unchecked).await?;
        let damage = format!("UPDATE {table} SET digest = '' WHERE scope = $1 AND key = $2");
        let damage = sqlx::query(AssertSqlSafe(damage)).persistent(false);
        let damage = damage.bind(scope.as_bytes()).bind(key.as_bytes());
        let changed = damage.execute(&mut connection).await?.rows_affected();
        connection.close().await?;
        if changed == 1 { Ok(()) } else { Err("no such record".into()) }
    }
}

/// The rows of a handler.
struct Rows {
    schema: String,
}

#[async_trait]
impl Effects<PostgresStore> for Rows {
    async fn insert(&self, connection: &mut PgConnection, marker: &str) -> Result<(), SetupError> {
        let insert = format!("INSERT INTO \"{}\".effects VALUES ($1)", self.schema);
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(marker).persistent(false);
        insert.execute(connection).await?;
        Ok(())
    }

    async fn count(&self, store: &PostgresStore, marker: &str) -> Result<u64, SetupError> {
        let mut connection = store.pool().begin().await?;
        let count = format!("SELECT count(*) FROM \"{}\".effects WHERE marker = $1", self.schema);
        let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(count)).bind(marker);
        let count = count.persistent(false).fetch_one(&mut *connection).await?;
        connection.rollback().await?;
        Ok(u64::try_from(count)?)
    }
}
