//! The suite on a MySQL or MariaDB server, each case in tables of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::key::{Key, Scope};
use idem_mysql::MysqlStore;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Conn, Opts, OptsBuilder, Transaction};
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
    let conformance = Conformance::new("mysql", capabilities(), fresh);
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
    let (prefix, url) = address.split_once(' ').ok_or("an address of two words")?;
    connect(url, prefix).await
}

async fn connect(url: &str, prefix: &str) -> Result<Connected, SetupError> {
    let builder = MysqlStore::builder().table_prefix(prefix).call_limit(CALL_LIMIT);
    let store = builder.connect(url).await?;
    let rows = Rows { prefix: prefix.to_owned() };
    let outbox = store.outbox();
    Ok(Connected::admin(store.clone()).with_outbox(outbox).with_transactions(store, rows))
}

async fn plain(url: &str) -> Result<Conn, SetupError> {
    Ok(Conn::new(OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false)).await?)
}

async fn drop_all(url: &str, run: &str) -> Result<(), SetupError> {
    let mut connection = plain(url).await?;
    let named = "SELECT CAST(table_name AS CHAR) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND LEFT(table_name, ?) = ?";
    let tables: Vec<String> = connection.exec(named, (run.len(), run)).await?;
    for table in tables {
        connection.query_drop(format!("DROP TABLE IF EXISTS {table}")).await?;
    }
    Ok(connection.disconnect().await?)
}

struct Fresh {
    url: String,
    prefix: String,
}

impl Fresh {
    async fn open(url: String, prefix: String) -> Result<Self, SetupError> {
        connect(&url, &prefix).await?;
        let mut connection = plain(&url).await?;
        let rows = format!("CREATE TABLE {prefix}_effects (marker VARBINARY(255) NOT NULL)");
        connection.query_drop(rows).await?;
        connection.disconnect().await?;
        Ok(Self { url, prefix })
    }
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        connect(&self.url, &self.prefix).await
    }

    fn address(&self) -> Option<String> {
        Some(format!("mysql {} {}", self.prefix, self.url))
    }

    async fn damage(&self, scope: &Scope, key: &Key) -> Result<(), SetupError> {
        let mut connection = plain(&self.url).await?;
        let (prefix, table) = (&self.prefix, format!("{}_records", self.prefix));
        // The table's own constraint keeps such a row out.
        let unchecked = format!("ALTER TABLE {table} DROP CONSTRAINT {prefix}_records_digest");
        connection.query_drop(unchecked).await?;
        let damage = format!("UPDATE {table} SET digest = '' WHERE scope = ? AND record_key = ?");
        connection.exec_drop(damage, (scope.as_bytes(), key.as_bytes())).await?;
        let changed = connection.affected_rows();
        connection.disconnect().await?;
        if changed == 1 { Ok(()) } else { Err("no such record".into()) }
    }
}

/// The rows of a handler.
struct Rows {
    prefix: String,
}

#[async_trait]
impl Effects<MysqlStore> for Rows {
    async fn insert(
        &self,
        connection: &mut Transaction<'static>,
        marker: &str,
    ) -> Result<(), SetupError> {
        let insert = format!("INSERT INTO {}_effects VALUES (?)", self.prefix);
        Ok(connection.exec_drop(insert, (marker,)).await?)
    }

    async fn count(&self, store: &MysqlStore, marker: &str) -> Result<u64, SetupError> {
        let mut connection = store.pool().get_conn().await?;
        let count = format!("SELECT COUNT(*) FROM {}_effects WHERE marker = ?", self.prefix);
        Ok(connection.exec_first(count, (marker,)).await?.ok_or("no row")?)
    }
}
