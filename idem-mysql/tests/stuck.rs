//! What others hold up: a record that stays locked, with as many calls on it as there are
//! connections, and a table that a migration waits for.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::store::Store;
use idem_mysql::MysqlStore;
use idem_mysql::mysql_async::Conn;
use support::{LEASE, Place, Request, kind_of, number, run, sealed, until_waiting};
use tokio::task::JoinSet;

const CONNECTIONS: usize = 4;

/// Longer than any of these calls may take by its settings, on a machine however slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Twice as many callers as connections ask for a record that somebody has locked, again and again:
/// those who ask for others get their turn, and their answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pool_behind_a_locked_record_lets_others_through() {
    let place = Place::new().await;
    let builder = MysqlStore::builder().max_connections(CONNECTIONS);
    let builder = builder.lock_wait(Duration::from_secs(1)).acquire_limit(Duration::from_secs(20));
    let store = builder.connect(&place.url()).await.unwrap();
    let locked = Request::new("locked");
    let lapsed = locked.clone().lease(Duration::from_millis(1)).acquire(&store).await;
    let mut holder = lock(&place).await;

    let (enough, told) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut stuck = JoinSet::new();
    for _ in 0..2 * CONNECTIONS {
        let (store, locked, enough) = (store.clone(), locked.clone(), enough.clone());
        let told = told.clone();
        stuck.spawn(async move {
            while !enough.load(Ordering::SeqCst) {
                let claimed = locked.again().send(&store).await;
                assert!(matches!(claimed, Claimed::InProgress { .. }), "{claimed:?}");
                told.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    until_waiting(&mut place.plain().await, CONNECTIONS as i64).await;

    let mut others = JoinSet::new();
    for name in 0..CONNECTIONS {
        let store = store.clone();
        others.spawn(async move {
            let request = Request::new(format!("other {name}"));
            let acquired = request.acquire(&store).await;
            store.renew(&acquired.fence, LEASE).await.unwrap();
            store.complete(&acquired.fence, &sealed("reply")).await.unwrap();
            let again = request.again().send(&store).await;
            assert!(matches!(again, Claimed::Completed(_)), "{again:?}");
        });
    }
    let all = tokio::time::timeout(PATIENCE, others.join_all()).await;
    assert_eq!(all.expect("others get their answers").len(), CONNECTIONS);
    assert!(told.load(Ordering::SeqCst) > 0, "those who wait for the record are told so");

    enough.store(true, Ordering::SeqCst);
    let all = tokio::time::timeout(PATIENCE, stuck.join_all()).await;
    assert_eq!(all.expect("each wait has its end").len(), 2 * CONNECTIONS);
    let seen = store.get(&locked.scope, &locked.key).await.unwrap().unwrap().record;
    assert_eq!(seen.fence(), lapsed.fence, "nobody took the record while it was locked");
    run(&mut holder, "ROLLBACK").await;
    assert_eq!(locked.again().acquire(&store).await.fence.attempt, 2);
}

/// A transaction of somebody else's that has locked the one record, and not the place beside it.
async fn lock(place: &Place) -> Conn {
    let mut holder = place.plain().await;
    run(&mut holder, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
    run(&mut holder, "BEGIN").await;
    let lock = "SELECT * FROM idem_records WHERE record_key = 'locked' FOR UPDATE";
    run(&mut holder, lock).await;
    holder
}

/// Where nobody leaves a connection for as long as a call may wait for one, it is told so, and
/// nothing was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_gets_no_connection_in_time_has_done_nothing() {
    let place = Place::new().await;
    let builder = MysqlStore::builder().max_connections(1).lock_wait(Duration::from_secs(8));
    let builder = builder.acquire_limit(Duration::from_millis(100));
    let store = builder.connect(&place.url()).await.unwrap();
    let locked = Request::new("locked");
    locked.clone().lease(Duration::from_millis(1)).acquire(&store).await;
    let mut holder = lock(&place).await;
    let waiting = tokio::spawn({
        let (store, again) = (store.clone(), locked.again());
        async move { again.send(&store).await }
    });
    let other = Request::new("other");
    // Until the other has the connection, this one may.
    let error = loop {
        match store.get(&other.scope, &other.key).await {
            Ok(found) => assert!(found.is_none()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");
    assert_eq!(kind_of(store.claim(&other.claim()).await), ErrorKind::NotApplied);
    run(&mut holder, "ROLLBACK").await;
    assert!(matches!(waiting.await.unwrap(), Claimed::Acquired(_)));
    assert!(store.get(&other.scope, &other.key).await.unwrap().is_none(), "nothing was done");
    other.acquire(&store).await;
}

/// Somebody holds a table for longer than a migration may take. Only the wait is cut short here:
/// time moves on as soon as everybody waits.
#[tokio::test]
async fn a_migration_that_outlasts_its_bound_is_told_and_leaves_no_lock_behind() {
    let place = Place::new().await;
    place.open().await.close().await;
    let mut plain = place.plain().await;
    run(&mut plain, "DELETE FROM idem_schema").await;
    let mut holder = place.plain().await;
    run(&mut holder, "LOCK TABLES idem_records WRITE").await;
    let opening = tokio::spawn({
        let url = place.url();
        async move { MysqlStore::connect(&url).await.map(drop) }
    });
    let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
         WHERE DB = DATABASE() AND STATE LIKE 'Waiting for table metadata lock'";
    while number(&mut plain, waits).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::pause();
    let error = opening.await.unwrap().unwrap_err();
    tokio::time::resume();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");

    // The lock that keeps migrations apart is given back although the table is still held.
    for _ in 0..3_000 {
        if number(&mut plain, waits).await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(number(&mut plain, waits).await, 0, "the statement still waits");
    run(&mut holder, "UNLOCK TABLES").await;
    let store = place.open().await;
    assert_eq!(number(&mut plain, "SELECT COUNT(*) FROM idem_schema").await, 1);
    Request::new("after").acquire(&store).await;
}
