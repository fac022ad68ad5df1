//! Three relay processes on one database, one of them killed every 200 ms.

mod support;

use std::process::Command;

use idem_mysql::MysqlStore;
use idem_testkit::relay_kills::{RelayKills, Worker};
use support::Place;

const STORE: &str = "IDEM_RELAY_STORE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_relays_lose_nothing_and_keep_the_order() {
    let place = Place::new().await;
    let directory = tempfile::tempdir().unwrap();
    let store = place.open().await;
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["relay", "--exact", "--nocapture"]).env(STORE, place.url());
        command
    };
    let outbox = store.outbox();
    RelayKills::default().run(store, outbox, directory.path(), start).await;
}

/// Nothing, unless this process was started as a relay.
#[tokio::test]
async fn relay() {
    if Worker::is_wanted() {
        let builder = MysqlStore::builder().max_connections(3).max_transactions(1);
        let store = builder.connect(&std::env::var(STORE).unwrap()).await.unwrap();
        Worker::run(store.outbox()).await;
    }
}
