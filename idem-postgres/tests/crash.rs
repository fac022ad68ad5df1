//! The server is killed under load, and connections are cut, until there were enough of both:
//! each key has exactly one effect, and one answer for all who asked.

mod support;

use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::engine::Failure;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::{self, PgConnection, Row};
use idem_testkit::crashes::{Crashes, Shop};
use idem_testkit::faults::messages::MessageProxy;
use idem_testkit::fixture::SetupError;
use support::own_server::OwnServer;
use support::wire::Messages;
use support::{plain, run};
use tokio::task::spawn_blocking;

struct Orders(Arc<OwnServer>);

#[async_trait]
impl Shop<PostgresStore> for Orders {
    async fn order(&self, connection: &mut PgConnection, key: &str) -> Result<String, Failure> {
        let insert = "INSERT INTO orders (key) VALUES ($1) RETURNING number::text";
        Ok(sqlx::query_scalar(insert).bind(key).fetch_one(connection).await?)
    }

    async fn orders(&self) -> Result<Vec<(String, String)>, SetupError> {
        let orders = sqlx::query("SELECT key, number::text FROM orders");
        let rows = orders.fetch_all(&mut plain(&self.0.url).await).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    async fn kill_and_restart(&self) -> Result<(), SetupError> {
        let server = self.0.clone();
        let restarted = spawn_blocking(move || {
            server.kill();
            server.restart("");
        });
        Ok(restarted.await?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kills_and_cuts_under_load_lose_nothing_and_double_nothing() {
    let crashes = Crashes::default();
    let server = Arc::new(spawn_blocking(|| OwnServer::start("")).await.unwrap());
    let table = "CREATE TABLE orders (number bigserial, key text NOT NULL)";
    run(&mut plain(&server.url).await, table).await;
    let target = server.url.split(['@', '/']).nth(3).unwrap().parse().unwrap();
    let proxy = MessageProxy::to(target, Messages::default).await.unwrap();
    let url = server.url.replace(&target.to_string(), &proxy.address().to_string());
    let builder = PostgresStore::builder().max_connections(8);
    let builder = builder.max_transactions(crashes.clients as u32);
    let store = builder.acquire_limit(Duration::from_secs(2)).connect(&url).await.unwrap();
    crashes.run(store.clone(), store.outbox(), &proxy, Arc::new(Orders(server))).await;
    store.close().await;
}
