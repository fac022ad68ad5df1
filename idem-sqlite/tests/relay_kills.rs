//! Three relay processes on one file, one of them killed every 200 ms.

use std::process::Command;

use idem_sqlite::SqliteStore;
use idem_testkit::relay_kills::{RelayKills, Worker};

const STORE: &str = "IDEM_RELAY_STORE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_relays_lose_nothing_and_keep_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("idem.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["relay", "--exact", "--nocapture"]).env(STORE, &path);
        command
    };
    let outbox = store.outbox();
    RelayKills::default().run(store, outbox, directory.path(), start).await;
}

/// Nothing, unless this process was started as a relay.
#[tokio::test]
async fn relay() {
    if Worker::is_wanted() {
        let store = SqliteStore::open(std::env::var(STORE).unwrap()).await.unwrap();
        Worker::run(store.outbox()).await;
    }
}
