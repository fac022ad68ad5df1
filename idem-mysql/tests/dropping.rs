//! Calls that are dropped at each of their awaits, over pools of one connection: nothing is left
//! for the next caller to trip over (R25).

mod support;

use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use idem_mysql::MysqlStore;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_testkit::faults::cancel::{Dropped, at_each_poll};
use idem_testkit::random::fresh_seed;
use support::{LEASE, Place, Request, kind_of, number, run, sealed};

async fn narrow(place: &Place) -> MysqlStore {
    let builder = MysqlStore::builder().max_connections(1).max_transactions(1);
    let builder = builder.acquire_limit(Duration::from_secs(10));
    builder.connect(&place.url()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_dropped_leaves_a_pool_of_one_at_work() {
    let place = Place::new().await;
    let store = narrow(&place).await;
    let mut tries = 0;
    // Several rounds: a connection that was lost once would be missed at the second.
    for round in 0..3 {
        at_each_poll(
            200,
            || {
                tries += 1;
                let request = Request::new(format!("dropped-{round}-{tries}"));
                let store = store.clone();
                async move { request.send(&store).await }
            },
            async |_| {
                let request = Request::new(format!("next-{round}-{}", fresh_seed()));
                let acquired = request.acquire(&store).await;
                store.complete(&acquired.fence, &sealed("reply")).await?;
                let again = request.again().send(&store).await;
                assert!(matches!(again, Claimed::Completed(_)), "{again:?}");
                Ok::<_, StoreError>(())
            },
        )
        .await
        .unwrap();
    }
    assert!(tries > 6, "{tries} tries are too few to have met an await");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_dropped_is_committed_whole_or_not_at_all() {
    let place = Place::new().await;
    let mut plain = place.plain().await;
    run(&mut plain, "CREATE TABLE effects (marker VARCHAR(64) NOT NULL)").await;
    let store = narrow(&place).await;
    let mut whole = 0;
    for (attempt, polls) in (0..400_usize).enumerate() {
        let request = Request::new(format!("key-{attempt}"));
        let acquired = request.acquire(&store).await;
        let work = async {
            let mut tx = store.begin().await?;
            store.hold_in(&mut tx, &acquired.fence).await?;
            let marker = format!("effect-{attempt}");
            let insert = "INSERT INTO effects VALUES (?)";
            store.connection(&mut tx).exec_drop(insert, (marker,)).await.unwrap();
            store.complete_in(&mut tx, &acquired.fence, &sealed("reply")).await?;
            store.commit(tx).await
        };
        let end = idem_testkit::faults::cancel::after_polls(polls, work).await;
        // The lock goes with the transaction, so this waits for its end on the server.
        store.renew(&acquired.fence, LEASE).await.unwrap();
        let effects = format!("SELECT COUNT(*) FROM effects WHERE marker = 'effect-{attempt}'");
        let effects = number(&mut plain, &effects).await;
        let record = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
        let completed = record.recovery().is_none()
            && matches!(record.state, idem_core::record::State::Completed { .. });
        assert_eq!(effects == 1, completed, "after {polls} polls");
        match end {
            Dropped::Finished { output, .. } => {
                output.unwrap();
                assert!(completed);
                whole += 1;
                if whole == 3 {
                    return;
                }
            }
            Dropped::After { .. } => {}
        }
    }
    panic!("it never ran to its end");
}

/// The handler's own limit cuts a query off, and what follows must not read that query's answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_of_the_handlers_that_is_cut_off_ends_the_transaction() {
    let place = Place::new().await;
    let mut plain = place.plain().await;
    run(&mut plain, "CREATE TABLE effects (marker VARCHAR(64) NOT NULL)").await;
    let store = narrow(&place).await;
    for commits in [true, false] {
        let request = Request::new(format!("cut-{commits}"));
        let acquired = request.acquire(&store).await;
        let mut tx = store.begin().await.unwrap();
        let mine = store.connection(&mut tx);
        mine.query_drop("INSERT INTO effects VALUES ('cut')").await.unwrap();
        let slow = mine.query_drop("DO SLEEP(0.3)");
        assert!(tokio::time::timeout(Duration::from_millis(20), slow).await.is_err());
        let reply = sealed("reply");
        // With nothing in between: a statement that is prepared would trip over the late answer.
        match commits {
            true => assert_eq!(kind_of(store.commit(tx).await), ErrorKind::NotApplied),
            false => store.rollback(tx).await.unwrap(),
        }
        // The next one is not a step behind.
        let mut next = store.begin().await.unwrap();
        let one: Option<i64> =
            store.connection(&mut next).query_first("SELECT 41 + 1").await.unwrap();
        assert_eq!(one, Some(42));
        store.rollback(next).await.unwrap();
        store.complete(&acquired.fence, &reply).await.unwrap();
    }
    assert_eq!(number(&mut plain, "SELECT COUNT(*) FROM effects").await, 0);
}
