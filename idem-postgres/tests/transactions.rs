//! A handler's own rows commit with the record, or not at all.

mod support;

use std::time::Duration;

use idem_core::admin::Admin;
use idem_core::claim::Claimed;
use idem_core::engine::{Call, Engine, Execution, Failure, RunError};
use idem_core::error::ErrorKind;
use idem_core::operation::{LocalForm, Operation};
use idem_core::outbox::OutboxMessage;
use idem_core::reply::Reply;
use idem_core::store::{Renewed, Store};
use idem_core::transactional::TransactionalStore;
use idem_postgres::sqlx::{self, Acquire};
use idem_postgres::{Isolation, PostgresStore, PostgresTransaction};
use idem_testkit::faults::messages::{Cut, Lose, MessageProxy};
use support::wire::Messages;
use support::{LEASE, Place, Request, Server, kind_of, number, point, print, quick, run};
use support::{sealed, until_somebody_waits};

const SERVERS: [Server; 3] = [Server::Postgres, Server::Postgres18, Server::PgBouncer];
const LEVELS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];
const FORMS: [LocalForm; 2] = [LocalForm::ClaimFirst, LocalForm::OneCommit];

async fn with_orders(server: Server) -> Place {
    let place = Place::new(server).await;
    run(&mut place.plain().await, "CREATE TABLE orders (sku text NOT NULL)").await;
    place
}

async fn orders(place: &Place) -> i64 {
    number(&mut place.plain().await, "SELECT count(*) FROM orders").await
}

async fn order(store: &PostgresStore, tx: &mut PostgresTransaction) {
    let insert = sqlx::query("INSERT INTO orders VALUES ($1)").bind("tea").persistent(false);
    insert.execute(store.connection(tx)).await.unwrap();
}

fn operation(form: LocalForm) -> Operation {
    let builder = Operation::builder("orders.create").local_form(form);
    builder.lease(Duration::from_millis(600)).build().unwrap()
}

fn engine(store: &PostgresStore) -> Engine {
    let builder = Engine::builder(store.clone()).one_commit_on(store.clone());
    builder.namespace("shop").unwrap().build().unwrap()
}

fn call(key: &str) -> Call {
    let Request { scope, key, .. } = Request::new(key);
    Call::new(scope, key, print(1))
}

/// What a service writes: the same in both forms.
async fn create_order(store: PostgresStore, run: Execution) -> Result<Reply, Failure> {
    let mut tx = run.transaction(&store).await?;
    let insert = sqlx::query("INSERT INTO orders VALUES ($1)").bind("tea").persistent(false);
    insert.execute(tx.connection()).await?;
    // Two heartbeats fall into this.
    tokio::time::sleep(Duration::from_millis(500)).await;
    tx.push(&OutboxMessage::new("order.created", "tea")?).await?;
    Ok(tx.commit(Reply::from("created")).await?.into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_reply_and_message_commit_together_in_both_forms_under_every_isolation() {
    for server in SERVERS {
        let place = with_orders(server).await;
        let mut done = 0;
        for isolation in LEVELS {
            let store = place.open_with(PostgresStore::builder().isolation(isolation)).await;
            let engine = engine(&store);
            for form in FORMS {
                let (operation, key) = (operation(form), format!("{isolation:?} {form:?}"));
                for copy in 0..2 {
                    let store = store.clone();
                    let handled = engine
                        .run(&operation, call(&key), move |run| create_order(store, run))
                        .await;
                    let outcome = handled.unwrap_or_else(|error| panic!("{key}: {error}"));
                    assert_eq!(outcome.reply.body().unwrap(), "created", "{server:?} {key}");
                    assert_eq!(outcome.is_executed(), copy == 0, "{server:?} {key}");
                }
                done += 1;
                assert_eq!(orders(&place).await, done, "{server:?} {key}");
                let pending = store.stats().await.unwrap().outbox_pending;
                assert_eq!(pending, Some(u64::try_from(done).unwrap()), "{server:?} {key}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_of_the_one_commit_form_is_told_in_progress_within_the_bound() {
    for server in SERVERS {
        for isolation in LEVELS {
            let place = with_orders(server).await;
            let store = place.open_with(quick().isolation(isolation)).await;
            let first = Request::new("key");
            let mut tx = store.begin().await.unwrap();
            let Claimed::Acquired(won) = store.claim_in(&mut tx, &first.claim()).await.unwrap()
            else {
                panic!("nobody else is here")
            };
            order(&store, &mut tx).await;
            let mut late = store.begin().await.unwrap();
            let again = first.again();
            let told = store.claim_in(&mut late, &again.claim()).await.unwrap();
            assert!(matches!(told, Claimed::InProgress { .. }), "{server:?}: seen {told:?}");
            // Its transaction is still good for the caller's own rows.
            order(&store, &mut late).await;
            store.rollback(late).await.unwrap();
            store.complete_in(&mut tx, &won.fence, &sealed("reply")).await.unwrap();
            store.commit(tx).await.unwrap();
            assert!(matches!(first.again().send(&store).await, Claimed::Completed(_)));
            assert_eq!(orders(&place).await, 1, "{server:?} {isolation:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_that_waits_while_the_first_commits_is_answered_under_every_isolation() {
    for isolation in LEVELS {
        let place = with_orders(Server::Postgres).await;
        let store = place.open_with(PostgresStore::builder().isolation(isolation)).await;
        let first = Request::new("key");
        let mut tx = store.begin().await.unwrap();
        let Claimed::Acquired(won) = store.claim_in(&mut tx, &first.claim()).await.unwrap() else {
            panic!("nobody else is here")
        };
        let waiting = tokio::spawn({
            let (store, again) = (store.clone(), first.again());
            async move {
                let mut late = store.begin().await.unwrap();
                let told = store.claim_in(&mut late, &again.claim()).await;
                store.rollback(late).await.unwrap();
                told
            }
        });
        until_somebody_waits(&mut place.plain().await).await;
        store.complete_in(&mut tx, &won.fence, &sealed("reply")).await.unwrap();
        store.commit(tx).await.unwrap();
        match waiting.await.unwrap().unwrap() {
            // Its snapshot is older than the reply, under the stricter levels.
            Claimed::InProgress { .. } if isolation != Isolation::ReadCommitted => {}
            Claimed::Completed(_) if isolation == Isolation::ReadCommitted => {}
            other => panic!("{isolation:?}: seen {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_inside_a_transaction_harms_nothing_once_the_row_is_held() {
    for server in SERVERS {
        for isolation in LEVELS {
            let place = with_orders(server).await;
            let store = place.open_with(PostgresStore::builder().isolation(isolation)).await;
            let witness = place.open().await;
            let fence = Request::new("key").acquire(&store).await.fence;
            let mut tx = store.begin().await.unwrap();
            store.hold_in(&mut tx, &fence).await.unwrap();
            order(&store, &mut tx).await;
            let beat = tokio::spawn({
                let (witness, fence) = (witness.clone(), fence.clone());
                async move { witness.renew(&fence, LEASE).await }
            });
            until_somebody_waits(&mut place.plain().await).await;
            store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
            store.commit(tx).await.unwrap();
            let beat = beat.await.unwrap().unwrap();
            assert_eq!(beat, Renewed::Completed, "{server:?} {isolation:?}");
            assert_eq!(orders(&place).await, 1);
        }
    }
}

#[tokio::test]
async fn without_holding_the_row_a_heartbeat_spoils_a_stricter_transaction() {
    // The reason for `hold_in`: were it not needed, it could go.
    let place = with_orders(Server::Postgres).await;
    let builder = PostgresStore::builder().isolation(Isolation::RepeatableRead);
    let store = place.open_with(builder).await;
    let fence = Request::new("key").acquire(&store).await.fence;
    let mut tx = store.begin().await.unwrap();
    order(&store, &mut tx).await;
    store.renew(&fence, LEASE * 2).await.unwrap();
    let failed = store.complete_in(&mut tx, &fence, &sealed("reply")).await;
    assert_eq!(kind_of(failed), ErrorKind::NotApplied);
    store.rollback(tx).await.unwrap();
    assert_eq!(orders(&place).await, 0);
}

#[tokio::test]
async fn what_is_dropped_or_rolled_back_leaves_nothing() {
    for server in SERVERS {
        let place = with_orders(server).await;
        let store = place.open_with(PostgresStore::builder().max_transactions(1)).await;
        let fence = Request::new("key").acquire(&store).await.fence;
        for rolls_back in [true, false] {
            let mut tx = store.begin().await.unwrap();
            store.hold_in(&mut tx, &fence).await.unwrap();
            order(&store, &mut tx).await;
            store.push_in(&mut tx, &OutboxMessage::new("t", "x").unwrap()).await.unwrap();
            store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
            if rolls_back {
                store.rollback(tx).await.unwrap();
            } else {
                drop(tx);
            }
        }
        // With one connection, the next transaction waits until the dropped one is gone.
        let mut tx = store.begin().await.unwrap();
        store.hold_in(&mut tx, &fence).await.unwrap();
        store.rollback(tx).await.unwrap();
        assert_eq!(orders(&place).await, 0, "{server:?}");
        assert_eq!(store.stats().await.unwrap().outbox_pending, Some(0), "{server:?}");
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
}

#[tokio::test]
async fn a_repeat_inside_a_transaction_is_refused() {
    let place = with_orders(Server::Postgres).await;
    let store = place.open().await;
    let fence = Request::new("key").acquire(&store).await.fence;
    let mut tx = store.begin().await.unwrap();
    store.checkpoint_in(&mut tx, &fence, &point(1), LEASE).await.unwrap();
    store.commit(tx).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let again = store.checkpoint_in(&mut tx, &fence, &point(1), LEASE).await;
    assert_eq!(kind_of(again), ErrorKind::AlreadyApplied);
    store.rollback(tx).await.unwrap();
    store.complete(&fence, &sealed("reply")).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let again = store.complete_in(&mut tx, &fence, &sealed("reply")).await;
    assert_eq!(kind_of(again), ErrorKind::AlreadyApplied);
    store.rollback(tx).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    assert_eq!(kind_of(store.hold_in(&mut tx, &fence).await), ErrorKind::FenceLost);
}

#[tokio::test]
async fn a_commit_of_a_transaction_in_which_a_statement_failed_is_not_a_success() {
    let place = with_orders(Server::Postgres).await;
    let store = place.open().await;
    let fence = Request::new("key").acquire(&store).await.fence;
    let mut tx = store.begin().await.unwrap();
    store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
    let failed = sqlx::query("SELECT 1 / 0").execute(store.connection(&mut tx)).await;
    failed.expect_err("it divides by zero");
    assert_eq!(kind_of(store.commit(tx).await), ErrorKind::NotApplied);
    assert!(store.get(&fence.scope, &fence.key).await.unwrap().unwrap().lapsed_for().is_none());
    store.complete(&fence, &sealed("another")).await.unwrap();
}

#[tokio::test]
async fn a_constraint_that_fails_at_commit_takes_the_reply_back_too() {
    let place = with_orders(Server::Postgres).await;
    let defer = "ALTER TABLE orders ADD CONSTRAINT once UNIQUE (sku) DEFERRABLE INITIALLY DEFERRED";
    run(&mut place.plain().await, defer).await;
    let store = place.open().await;
    let fence = Request::new("key").acquire(&store).await.fence;
    let mut tx = store.begin().await.unwrap();
    order(&store, &mut tx).await;
    order(&store, &mut tx).await;
    store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
    assert_eq!(kind_of(store.commit(tx).await), ErrorKind::NotApplied);
    assert_eq!(orders(&place).await, 0);
    store.complete(&fence, &sealed("reply")).await.unwrap();
}

#[tokio::test]
async fn a_savepoint_of_the_handlers_own_and_the_stores_do_not_meet() {
    let place = with_orders(Server::Postgres).await;
    let store = place.open().await;
    let mut tx = store.begin().await.unwrap();
    let request = Request::new("key");
    let Claimed::Acquired(won) = store.claim_in(&mut tx, &request.claim()).await.unwrap() else {
        panic!("nobody else is here")
    };
    store.savepoint_in(&mut tx).await.unwrap();
    let mut inner = store.connection(&mut tx).begin().await.unwrap();
    sqlx::query("INSERT INTO orders VALUES ('inner')").execute(&mut *inner).await.unwrap();
    inner.commit().await.unwrap();
    order(&store, &mut tx).await;
    store.undo_to_savepoint_in(&mut tx).await.unwrap();
    store.complete_in(&mut tx, &won.fence, &sealed("refused")).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!(orders(&place).await, 0);
    assert!(matches!(request.again().send(&store).await, Claimed::Completed(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_acknowledgement_of_commit_is_resolved_by_the_own_record() {
    for isolation in LEVELS {
        for form in FORMS {
            let place = with_orders(Server::Postgres).await;
            let proxy = MessageProxy::to(place.address(), Messages::default).await.unwrap();
            let builder = PostgresStore::builder().isolation(isolation);
            let store = builder.connect(&place.url_at(proxy.address())).await.unwrap();
            let (engine, operation) = (engine(&store), operation(form));
            proxy.arm(Cut::Commit(Lose::Reply));
            let handler = {
                let store = store.clone();
                move |run| create_order(store, run)
            };
            let outcome = engine.run(&operation, call("key"), handler).await;
            let outcome = outcome.unwrap_or_else(|error| panic!("{isolation:?} {form:?}: {error}"));
            let cuts = proxy.cuts();
            assert_eq!((cuts.requests, cuts.replies, cuts.commits), (0, 1, 1));
            assert!(outcome.is_executed(), "{isolation:?} {form:?}");
            assert_eq!(outcome.reply.body().unwrap(), "created");
            assert_eq!(orders(&place).await, 1, "{isolation:?} {form:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_request_of_commit_is_never_told_as_success() {
    for isolation in LEVELS {
        for form in FORMS {
            let place = with_orders(Server::Postgres).await;
            let proxy = MessageProxy::to(place.address(), Messages::default).await.unwrap();
            let builder = PostgresStore::builder().isolation(isolation);
            let store = builder.connect(&place.url_at(proxy.address())).await.unwrap();
            let (engine, operation) = (engine(&store), operation(form));
            let run = || {
                let store = store.clone();
                engine.run(&operation, call("key"), move |run| create_order(store, run))
            };
            proxy.arm(Cut::Commit(Lose::Request));
            let first = run().await;
            let cuts = proxy.cuts();
            assert_eq!((cuts.requests, cuts.replies, cuts.commits), (1, 0, 1));
            let error = first.expect_err("nothing was committed");
            println!("{isolation:?} {form:?}: {error}");
            assert!(!matches!(error, RunError::Invalid { .. }), "{error}");
            assert_eq!(orders(&place).await, 0, "{isolation:?} {form:?}");
            let outcome = until_answered(run).await;
            assert_eq!(outcome.reply.body().unwrap(), "created");
            assert_eq!(orders(&place).await, 1, "{isolation:?} {form:?}");
        }
    }
}

/// A client that tries again, as clients do.
async fn until_answered<F>(run: impl Fn() -> F) -> idem_core::engine::Outcome
where
    F: Future<Output = Result<idem_core::engine::Outcome, RunError>>,
{
    for _ in 0..100 {
        match run().await {
            Ok(outcome) => return outcome,
            Err(error) => println!("tried again after: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the call was never answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn as_many_handlers_as_there_are_transactions_do_not_starve_their_heartbeats() {
    let place = with_orders(Server::Postgres).await;
    let builder = PostgresStore::builder().max_connections(2).max_transactions(6);
    let store = place.open_with(builder).await;
    for form in FORMS {
        let (engine, operation) = (engine(&store), operation(form));
        let mut running = tokio::task::JoinSet::new();
        for number in 0..12 {
            let (engine, operation, store) = (engine.clone(), operation.clone(), store.clone());
            running.spawn(async move {
                let key = format!("{form:?} {number}");
                engine.run(&operation, call(&key), move |run| create_order(store, run)).await
            });
        }
        while let Some(outcome) = running.join_next().await {
            outcome.unwrap().unwrap_or_else(|error| panic!("{form:?}: {error}"));
        }
    }
    assert_eq!(orders(&place).await, 24);
}
