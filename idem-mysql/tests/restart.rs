//! The testkit's cases that restart the server, each on a server of its own: it is killed with
//! SIGKILL and started again.

mod support;

use std::sync::Arc;

use idem_core::async_trait;
use idem_mysql::MysqlStore;
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::fixture::{Connected, Fixture, SetupError};
use support::own_server::OwnServer;
use tokio::task::spawn_blocking;

struct Own(Arc<OwnServer>);

#[async_trait]
impl Fixture for Own {
    async fn connect(&self) -> Result<Connected, SetupError> {
        Ok(Connected::admin(MysqlStore::connect(&self.0.url).await?))
    }

    async fn restart(&self) -> Result<(), SetupError> {
        let server = self.0.clone();
        let restarted = spawn_blocking(move || {
            server.kill();
            server.restart("");
        });
        Ok(restarted.await?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_killed_server() {
    let offered = Capabilities::none().with(Capability::Isolated).with(Capability::Restart);
    let open = async || Ok(Own(Arc::new(spawn_blocking(|| OwnServer::start("")).await?)));
    let suite = Conformance::new("mysql-killed", offered, open).filter("restart::");
    let report = suite.run().await;
    let failures: Vec<_> = report.failures().collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(report.passed >= 2 && report.ignored == 0, "{report:?}");
}
