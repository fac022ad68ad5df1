//! How many statements a claim takes, and what it waits for.

mod support;

use std::time::Duration;

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

#[tokio::test]
async fn a_claim_of_a_new_key_is_one_statement_and_a_duplicate_two() {
    let place = Place::new().await;
    let store = MysqlStore::builder().max_connections(1).connect(&place.url()).await.unwrap();
    let request = Request::new("k");
    let mut before = executions(&store).await;
    let mut spent = async |what: &str, expected: u64| {
        let after = executions(&store).await;
        assert_eq!(after - before, expected, "{what}");
        before = after;
    };
    let fence = request.acquire(&store).await.fence;
    spent("a new key", 1).await;
    assert!(matches!(request.again().send(&store).await, Claimed::InProgress { .. }));
    spent("a key in progress", 2).await;
    store.complete(&fence, &sealed("reply")).await.unwrap();
    spent("a completion", 2).await;
    assert!(matches!(request.again().send(&store).await, Claimed::Completed(_)));
    spent("a replay", 2).await;
    let short = Request::new("short").lease(Duration::from_millis(1));
    short.acquire(&store).await;
    spent("another new key", 1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    short.again().acquire(&store).await;
    spent("a takeover", 3).await;
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
