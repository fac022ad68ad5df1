//! The server is killed under load, and connections are cut, until there were enough of both:
//! each key has exactly one effect, and one answer for all who asked.

mod support;

use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::engine::Failure;
use idem_mysql::MysqlStore;
use idem_mysql::mysql_async::Transaction;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_testkit::crashes::{Crashes, Shop};
use idem_testkit::faults::messages::MessageProxy;
use idem_testkit::fixture::SetupError;
use support::own_server::OwnServer;
use support::place::plain;
use support::run;
use support::wire::Packets;
use tokio::task::spawn_blocking;

struct Orders(Arc<OwnServer>);

#[async_trait]
impl Shop<MysqlStore> for Orders {
    async fn order(
        &self,
        connection: &mut Transaction<'static>,
        key: &str,
    ) -> Result<String, Failure> {
        connection.exec_drop("INSERT INTO orders (name) VALUES (?)", (key,)).await?;
        Ok(connection.last_insert_id().expect("the order has a number").to_string())
    }

    async fn orders(&self) -> Result<Vec<(String, String)>, SetupError> {
        let orders = "SELECT name, CAST(number AS CHAR) FROM orders";
        Ok(plain(&self.0.url).await.query(orders).await?)
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
    let table = "CREATE TABLE orders (number BIGINT AUTO_INCREMENT PRIMARY KEY, \
         name VARCHAR(255) NOT NULL)";
    run(&mut plain(&server.url).await, table).await;
    let target = server.url.split(['@', '/']).nth(3).unwrap().parse().unwrap();
    let proxy = MessageProxy::to(target, || Packets).await.unwrap();
    let url = server.url.replace(&target.to_string(), &proxy.address().to_string());
    let builder = MysqlStore::builder().max_connections(8).max_transactions(crashes.clients);
    let builder = builder.acquire_limit(Duration::from_secs(2));
    let store = builder.connect(&url).await.unwrap();
    crashes.run(store.clone(), store.outbox(), &proxy, Arc::new(Orders(server))).await;
    store.close().await;
}
