//! Rows of a handler and the record commit together, or not at all.

mod support;

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::Admin;
use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::outbox::OutboxMessage;
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_core::transactional::TransactionalStore;
use idem_sqlite::sqlx::{self, Acquire, SqliteConnection};
use idem_sqlite::{SqliteStore, SqliteTransaction};

use crate::support::{LEASE, Place, Request, kind_of, point, sealed};

async fn with_orders() -> (Place, Arc<ManualClock>, SqliteStore) {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let store = place.open_at(&clock).await;
    sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT NOT NULL UNIQUE) STRICT")
        .execute(&mut place.sql().await)
        .await
        .unwrap();
    (place, clock, store)
}

async fn order(connection: &mut SqliteConnection, what: &str) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO orders (what) VALUES (?1)").bind(what);
    insert.execute(connection).await.map(|_| ())
}

async fn orders(place: &Place) -> Vec<String> {
    let rows = sqlx::query_scalar("SELECT what FROM orders ORDER BY id");
    rows.fetch_all(&mut place.sql().await).await.unwrap()
}

async fn reply_of(store: &SqliteStore, request: &Request) -> Option<Vec<u8>> {
    match request.again().send(store).await {
        Claimed::Completed(replay) => Some(replay.reply.as_bytes().to_vec()),
        _ => None,
    }
}

/// A transaction that holds the record and has written an order.
async fn open(
    store: &SqliteStore,
    request: &Request,
) -> (SqliteTransaction, idem_core::record::Fence) {
    let fence = request.acquire(store).await.fence;
    let mut transaction = store.begin().await.unwrap();
    store.hold_in(&mut transaction, &fence).await.unwrap();
    order(store.connection(&mut transaction), "one").await.unwrap();
    (transaction, fence)
}

#[tokio::test]
async fn rows_message_and_reply_commit_together() {
    let (place, _clock, store) = with_orders().await;
    let request = Request::new("k");
    let (mut transaction, fence) = open(&store, &request).await;
    let message = OutboxMessage::new("orders", &b"\x00\xff"[..]).unwrap();
    let message = message.ordered_by("account-1").unwrap().with_header("a", "ä\"").unwrap();
    let message = message.with_header("a", "").unwrap();
    store.push_in(&mut transaction, &message).await.unwrap();
    store.complete_in(&mut transaction, &fence, &sealed("reply")).await.unwrap();
    assert_eq!(orders(&place).await, [""; 0], "nobody sees it before the commit");
    store.commit(transaction).await.unwrap();

    assert_eq!(orders(&place).await, ["one"]);
    assert_eq!(reply_of(&store, &request).await.unwrap(), b"reply");
    assert_eq!(store.stats().await.unwrap().outbox_pending, Some(1));
    type Row = (i64, Vec<u8>, String, Option<String>, String, Vec<u8>, i64, i64);
    let row: Row = sqlx::query_as(
        "SELECT seq, id, topic, ordering_key, headers, payload, state, attempts FROM idem_outbox",
    )
    .fetch_one(&mut place.sql().await)
    .await
    .unwrap();
    let id = message.id().as_bytes().to_vec();
    let headers = r#"[["a","ä\""],["a",""]]"#.to_owned();
    let ordering_key = Some("account-1".to_owned());
    assert_eq!(row, (1, id, "orders".into(), ordering_key, headers, vec![0, 255], 0, 0));
}

#[tokio::test]
async fn a_rollback_or_a_drop_takes_everything_back() {
    let (place, _clock, store) = with_orders().await;
    for by_drop in [false, true] {
        let request = Request::new(if by_drop { "dropped" } else { "rolled back" });
        let (mut transaction, fence) = open(&store, &request).await;
        let message = OutboxMessage::new("orders", "payload").unwrap();
        store.push_in(&mut transaction, &message).await.unwrap();
        store.complete_in(&mut transaction, &fence, &sealed("reply")).await.unwrap();
        if by_drop {
            drop(transaction);
        } else {
            store.rollback(transaction).await.unwrap();
        }
        assert!(matches!(request.again().send(&store).await, Claimed::InProgress { .. }));
        assert_eq!(orders(&place).await, [""; 0]);
        assert_eq!(store.stats().await.unwrap().outbox_pending, Some(0));
        store.complete(&fence, &sealed("later")).await.expect("it is still held");
    }
}

#[tokio::test]
async fn claim_rows_and_reply_in_one_commit() {
    let (place, _clock, store) = with_orders().await;
    let request = Request::new("k");
    let mut transaction = store.begin().await.unwrap();
    let claimed = store.claim_in(&mut transaction, &request.claim()).await.unwrap();
    let Claimed::Acquired(acquired) = claimed else { panic!("nobody else is here") };
    store.savepoint_in(&mut transaction).await.unwrap();
    order(transaction.connection(), "one").await.unwrap();
    assert_eq!(store.get(&request.scope, &request.key).await.unwrap(), None);
    store.complete_in(&mut transaction, &acquired.fence, &sealed("reply")).await.unwrap();
    store.commit(transaction).await.unwrap();
    assert_eq!(orders(&place).await, ["one"]);
    assert_eq!(reply_of(&store, &request).await.unwrap(), b"reply");

    // The next one finds the reply inside its own transaction.
    let mut transaction = store.begin().await.unwrap();
    let claimed = store.claim_in(&mut transaction, &request.again().claim()).await.unwrap();
    assert!(matches!(claimed, Claimed::Completed(_)));
    store.rollback(transaction).await.unwrap();
}

#[tokio::test]
async fn one_commit_that_rolls_back_leaves_no_claim() {
    let (place, _clock, store) = with_orders().await;
    let request = Request::new("k");
    let mut transaction = store.begin().await.unwrap();
    store.claim_in(&mut transaction, &request.claim()).await.unwrap();
    order(transaction.connection(), "one").await.unwrap();
    drop(transaction);
    assert_eq!(request.again().acquire(&store).await.fence.attempt, 1);
    assert_eq!(orders(&place).await, [""; 0]);
}

#[tokio::test]
async fn an_error_reply_is_stored_and_the_rows_are_undone() {
    let (place, _clock, store) = with_orders().await;
    let request = Request::new("k");
    let mut transaction = store.begin().await.unwrap();
    let claimed = store.claim_in(&mut transaction, &request.claim()).await.unwrap();
    let Claimed::Acquired(acquired) = claimed else { panic!("nobody else is here") };
    store.savepoint_in(&mut transaction).await.unwrap();
    order(transaction.connection(), "one").await.unwrap();
    store.undo_to_savepoint_in(&mut transaction).await.unwrap();
    order(transaction.connection(), "two").await.unwrap();
    store.undo_to_savepoint_in(&mut transaction).await.expect("the mark still stands");
    store.complete_in(&mut transaction, &acquired.fence, &sealed("no stock")).await.unwrap();
    store.commit(transaction).await.unwrap();
    assert_eq!(orders(&place).await, [""; 0]);
    assert_eq!(reply_of(&store, &request).await.unwrap(), b"no stock");
}

#[tokio::test]
async fn a_later_savepoint_replaces_the_earlier() {
    let (place, _clock, store) = with_orders().await;
    let request = Request::new("k");
    let (mut transaction, fence) = open(&store, &request).await;
    store.savepoint_in(&mut transaction).await.unwrap();
    order(transaction.connection(), "two").await.unwrap();
    store.savepoint_in(&mut transaction).await.unwrap();
    order(transaction.connection(), "three").await.unwrap();
    store.undo_to_savepoint_in(&mut transaction).await.unwrap();
    store.undo_to_savepoint_in(&mut transaction).await.unwrap();
    store.complete_in(&mut transaction, &fence, &sealed("reply")).await.unwrap();
    store.commit(transaction).await.unwrap();
    assert_eq!(orders(&place).await, ["one", "two"]);
}

#[tokio::test]
async fn a_step_commits_its_rows_with_its_recovery_point() {
    let (place, _clock, store) = with_orders().await;
    let request = Request::new("k");
    let (mut transaction, fence) = open(&store, &request).await;
    let lease = store.checkpoint_in(&mut transaction, &fence, &point(1), LEASE * 2).await.unwrap();
    assert_eq!(lease.remaining, LEASE * 2);
    store.commit(transaction).await.unwrap();
    let record = store.get(&fence.scope, &fence.key).await.unwrap().unwrap().record;
    assert_eq!(record.recovery(), Some(&point(1)));
    assert_eq!(orders(&place).await, ["one"]);

    // Its acknowledgement was lost: the same step again must not write its row twice.
    let mut transaction = store.begin().await.unwrap();
    order(transaction.connection(), "one again").await.unwrap();
    let again = store.checkpoint_in(&mut transaction, &fence, &point(1), LEASE).await;
    assert_eq!(kind_of(again), ErrorKind::AlreadyApplied);
    let skipped = store.checkpoint_in(&mut transaction, &fence, &point(3), LEASE).await;
    assert_eq!(kind_of(skipped), ErrorKind::Refused);
    store.rollback(transaction).await.unwrap();
    assert_eq!(orders(&place).await, ["one"]);
}

#[tokio::test]
async fn a_completion_that_stands_already_is_told() {
    let (place, _clock, store) = with_orders().await;
    let request = Request::new("k");
    let (mut transaction, fence) = open(&store, &request).await;
    store.complete_in(&mut transaction, &fence, &sealed("reply")).await.unwrap();
    store.commit(transaction).await.unwrap();

    let mut transaction = store.begin().await.unwrap();
    order(transaction.connection(), "two").await.unwrap();
    let again = store.complete_in(&mut transaction, &fence, &sealed("reply")).await;
    assert_eq!(kind_of(again), ErrorKind::AlreadyApplied);
    let other = store.complete_in(&mut transaction, &fence, &sealed("other")).await;
    assert_eq!(kind_of(other), ErrorKind::FenceLost);
    drop(transaction);
    assert_eq!(orders(&place).await, ["one"]);
}

#[tokio::test]
async fn a_fence_that_was_lost_stops_the_transaction_first() {
    let (place, clock, store) = with_orders().await;
    let request = Request::new("k");
    let old = request.acquire(&store).await.fence;
    clock.advance(LEASE);
    let new = request.again().acquire(&store).await.fence;
    let mut transaction = store.begin().await.unwrap();
    assert_eq!(kind_of(store.hold_in(&mut transaction, &old).await), ErrorKind::FenceLost);
    store.hold_in(&mut transaction, &new).await.unwrap();
    let stale = store.complete_in(&mut transaction, &old, &sealed("stale")).await;
    assert_eq!(kind_of(stale), ErrorKind::FenceLost);
    drop(transaction);
    assert_eq!(orders(&place).await, [""; 0]);
}

/// The lease lapses while the transaction is open: nobody can take over before it ends, and then
/// the record is completed.
#[tokio::test]
async fn an_open_transaction_keeps_takers_out() {
    let (place, clock, store) = with_orders().await;
    let waits = Duration::from_secs(1);
    let builder = SqliteStore::builder().clock(Arc::clone(&clock)).busy_timeout(waits);
    let impatient = place.open_with(builder).await;
    impatient.stats().await.expect("its reading connection is open from here on");
    let request = Request::new("k");
    let (mut transaction, fence) = open(&store, &request).await;
    clock.advance(LEASE * 2);
    let taker = request.again();
    assert_eq!(kind_of(impatient.claim(&taker.claim()).await), ErrorKind::NotApplied);
    assert_eq!(kind_of(impatient.renew(&fence, LEASE).await), ErrorKind::NotApplied);
    assert_eq!(kind_of(impatient.begin().await), ErrorKind::NotApplied);
    assert!(impatient.get(&fence.scope, &fence.key).await.unwrap().is_some(), "reading goes on");
    impatient.stats().await.expect("reading goes on");
    store.complete_in(&mut transaction, &fence, &sealed("reply")).await.unwrap();
    store.commit(transaction).await.unwrap();
    assert_eq!(reply_of(&impatient, &request).await.unwrap(), b"reply");
}

#[tokio::test]
async fn inside_one_store_calls_wait_for_an_open_transaction_and_no_longer_than_the_bound() {
    let (place, clock, _store) = with_orders().await;
    let waits = Duration::from_secs(1);
    let builder = SqliteStore::builder().clock(Arc::clone(&clock)).busy_timeout(waits);
    let store = place.open_with(builder).await;
    store.stats().await.expect("its reading connection is open from here on");
    let request = Request::new("k");
    let (transaction, fence) = open(&store, &request).await;
    assert_eq!(kind_of(store.renew(&fence, LEASE).await), ErrorKind::NotApplied);
    assert_eq!(kind_of(store.begin().await), ErrorKind::NotApplied);
    assert!(store.get(&fence.scope, &fence.key).await.unwrap().is_some(), "reading goes on");
    drop(transaction);
    store.renew(&fence, LEASE).await.unwrap();
}

#[tokio::test]
async fn a_message_cannot_be_pushed_twice() {
    let (_place, _clock, store) = with_orders().await;
    let message = OutboxMessage::new("orders", "payload").unwrap();
    let mut transaction = store.begin().await.unwrap();
    store.push_in(&mut transaction, &message).await.unwrap();
    let again = store.push_in(&mut transaction, &message).await;
    assert_eq!(kind_of(again), ErrorKind::InvalidInput);
    store.commit(transaction).await.expect("the first one stands");
    assert_eq!(store.stats().await.unwrap().outbox_pending, Some(1));
}

#[tokio::test]
async fn a_handler_may_use_transactions_of_its_own_inside() {
    let (place, _clock, store) = with_orders().await;
    let request = Request::new("k");
    let (mut transaction, fence) = open(&store, &request).await;
    let connection = store.connection(&mut transaction);
    let mut kept = connection.begin().await.unwrap();
    order(&mut kept, "kept").await.unwrap();
    kept.commit().await.unwrap();
    let mut dropped = connection.begin().await.unwrap();
    order(&mut dropped, "dropped").await.unwrap();
    drop(dropped);
    store.complete_in(&mut transaction, &fence, &sealed("reply")).await.unwrap();
    store.commit(transaction).await.unwrap();
    assert_eq!(orders(&place).await, ["one", "kept"]);
}
