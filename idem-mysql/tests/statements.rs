//! How many statements a claim takes, and what it waits for.

mod support;

use std::time::{Duration, Instant};

use idem_core::claim::Claimed;
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use idem_mysql::MysqlStore;
use idem_mysql::mysql_async::prelude::Queryable;
use support::{LEASE, Place, Request, sealed};

/// Executions on the only connection of the verbs so far.
async fn executions(store: &MysqlStore) -> u64 {
    let mut connection = store.pool().get_conn().await.unwrap();
    let status = "SHOW SESSION STATUS LIKE 'Com_stmt_execute'";
    let (_, count): (String, u64) = connection.query_first(status).await.unwrap().unwrap();
    count
}

/// A call that took as long may have waited for a lock, so that it asks for the time once more. On
/// a machine that is busy enough it only seems to have waited.
const LONG: Duration = Duration::from_millis(20);

struct Counted {
    store: MysqlStore,
    before: u64,
}

impl Counted {
    async fn on(store: MysqlStore) -> Self {
        let before = executions(&store).await;
        Self { store, before }
    }

    /// What the call gives, after it took `expected` statements.
    async fn call<T>(&mut self, what: &str, expected: u64, call: impl Future<Output = T>) -> T {
        let start = Instant::now();
        let result = call.await;
        let allowed = expected..=expected + u64::from(start.elapsed() >= LONG);
        let after = executions(&self.store).await;
        assert!(allowed.contains(&(after - self.before)), "{what}: {}", after - self.before);
        self.before = after;
        result
    }
}

#[tokio::test]
async fn a_claim_of_a_new_key_is_one_statement_and_a_duplicate_two() {
    let place = Place::new().await;
    let store = MysqlStore::builder().max_connections(1).connect(&place.url()).await.unwrap();
    let mut counted = Counted::on(store.clone()).await;
    let request = Request::new("k");
    let won = counted.call("a new key", 1, request.acquire(&store)).await;
    let again = request.again();
    let seen = counted.call("a key in progress", 2, again.send(&store)).await;
    assert!(matches!(seen, Claimed::InProgress { .. }));
    let reply = sealed("reply");
    counted.call("a completion", 2, store.complete(&won.fence, &reply)).await.unwrap();
    let again = request.again();
    let seen = counted.call("a replay", 2, again.send(&store)).await;
    assert!(matches!(seen, Claimed::Completed(_)));
    let short = Request::new("short").lease(Duration::from_millis(1));
    counted.call("another new key", 1, short.acquire(&store)).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let again = short.again();
    counted.call("a takeover", 3, again.acquire(&store)).await;
}

#[tokio::test]
async fn a_duplicate_does_not_wait_for_the_lock_of_a_handlers_transaction() {
    let place = Place::new().await;
    // A call that waited for the lock would be given up long before it got it.
    let builder = MysqlStore::builder().lock_wait(Duration::from_secs(60));
    let store = builder.call_limit(Duration::from_secs(5)).connect(&place.url()).await.unwrap();
    let request = Request::new("k");
    let fence = request.acquire(&store).await.fence;
    let mut tx = store.begin().await.unwrap();
    store.hold_in(&mut tx, &fence).await.unwrap();
    store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
    match request.again().send(&store).await {
        Claimed::InProgress { remaining } => assert!(remaining <= LEASE),
        other => panic!("{other:?}"),
    }
    store.commit(tx).await.unwrap();
    assert!(matches!(request.again().send(&store).await, Claimed::Completed(_)));
}
