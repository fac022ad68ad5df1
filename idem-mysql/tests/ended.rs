//! Transactions that are ended under the store: by a statement of the handler's, or by the server.

mod support;

use idem_core::admin::Admin;
use idem_core::claim::Claimed;
use idem_core::engine::{Call, Engine, Execution, Failure};
use idem_core::error::ErrorKind;
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::operation::{LocalForm, Operation};
use idem_core::outbox::OutboxMessage;
use idem_core::record::State;
use idem_core::reply::Reply;
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::{Isolation, MysqlStore};
use support::{LEASE, Place, Request, kind_of, point, run, sealed};

const FORMS: [LocalForm; 2] = [LocalForm::ClaimFirst, LocalForm::OneCommit];

/// What takes the rows back.
const ROLL_BACK: [&str; 2] = ["ROLLBACK", "ROLLBACK AND CHAIN"];

/// What commits the rows.
const COMMIT: [&str; 5] =
    ["COMMIT", "COMMIT AND CHAIN", "TRUNCATE TABLE scratch", "SET autocommit = 1", "BEGIN"];

async fn with_orders() -> (Place, MysqlStore) {
    let place = Place::new().await;
    let mut plain = place.plain().await;
    run(&mut plain, "CREATE TABLE orders (sku VARCHAR(20) NOT NULL) ENGINE = InnoDB").await;
    run(&mut plain, "CREATE TABLE scratch (n INT NOT NULL) ENGINE = InnoDB").await;
    let store = place.open().await;
    (place, store)
}

async fn orders(place: &Place) -> i64 {
    support::number(&mut place.plain().await, "SELECT COUNT(*) FROM orders").await
}

const ORDER: &str = "INSERT INTO orders VALUES ('tea')";

#[tokio::test]
async fn after_a_rollback_nothing_is_committed_and_nothing_is_told_as_done() {
    let (place, _) = with_orders().await;
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]
    {
        let store = MysqlStore::builder().isolation(isolation).connect(&place.url()).await.unwrap();
        for statement in ROLL_BACK {
            let request = Request::new(format!("{statement} {isolation:?}"));
            let fence = request.acquire(&store).await.fence;
            let mut tx = store.begin().await.unwrap();
            store.hold_in(&mut tx, &fence).await.unwrap();
            tx.connection().query_drop(ORDER).await.unwrap();
            tx.connection().query_drop(statement).await.unwrap();
            let message = OutboxMessage::new("order.created", "tea").unwrap();
            // It is in a transaction that nobody commits.
            store.push_in(&mut tx, &message).await.unwrap();
            let step = store.checkpoint_in(&mut tx, &fence, &point(1), LEASE).await;
            assert_eq!(kind_of(step), ErrorKind::NotApplied, "{statement}");
            let completed = store.complete_in(&mut tx, &fence, &sealed("reply")).await;
            assert_eq!(kind_of(completed), ErrorKind::NotApplied, "{statement}");
            assert_eq!(kind_of(store.commit(tx).await), ErrorKind::NotApplied, "{statement}");
            let stands = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
            let State::InProgress { recovery: None, .. } = stands.state else {
                panic!("{statement}: {stands:?}")
            };
            assert_eq!(store.stats().await.unwrap().outbox_pending, Some(0), "{statement}");
            assert_eq!(orders(&place).await, 0, "{statement}");
            store.complete(&fence, &sealed("reply")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_rollback_after_the_completion_is_not_told_as_committed() {
    let (place, store) = with_orders().await;
    for statement in ROLL_BACK {
        let request = Request::new(statement);
        let fence = request.acquire(&store).await.fence;
        let mut tx = store.begin().await.unwrap();
        store.hold_in(&mut tx, &fence).await.unwrap();
        tx.connection().query_drop(ORDER).await.unwrap();
        store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
        tx.connection().query_drop(statement).await.unwrap();
        assert_eq!(kind_of(store.commit(tx).await), ErrorKind::OutcomeUnknown, "{statement}");
        assert_eq!(orders(&place).await, 0, "{statement}");
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
}

async fn create_order(
    store: MysqlStore,
    statement: &'static str,
    run: Execution,
) -> Result<Reply, Failure> {
    let mut tx = run.transaction(&store).await?;
    tx.connection().query_drop(ORDER).await?;
    if !statement.is_empty() {
        tx.connection().query_drop(statement).await?;
    }
    Ok(tx.commit(Reply::from("created")).await?.into())
}

async fn create(
    store: &MysqlStore,
    form: LocalForm,
    key: &str,
    statement: &'static str,
) -> Result<bool, String> {
    let builder = Engine::builder(store.clone()).one_commit_on(store.clone());
    let engine = builder.namespace("shop").unwrap().build().unwrap();
    let operation = Operation::builder("orders.create").local_form(form).build().unwrap();
    let request = Request::new(key);
    let call = Call::new(request.scope, request.key, Fingerprint::from_parts(Scheme::V1, [1; 32]));
    let ran = engine.run(&operation, call, {
        let store = store.clone();
        move |run| create_order(store, statement, run)
    });
    ran.await.map(|outcome| outcome.is_executed()).map_err(|error| format!("{error:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_rolls_back_and_goes_on_is_told_so_and_a_retry_runs() {
    let (place, store) = with_orders().await;
    let mut done = 0;
    for form in FORMS {
        for statement in ROLL_BACK {
            let key = format!("{statement} {form:?}");
            let told = create(&store, form, &key, statement).await;
            assert!(told.is_err(), "{key}: {told:?}");
            assert_eq!(orders(&place).await, done, "{key}");
            assert_eq!(create(&store, form, &key, "").await, Ok(true), "{key}");
            done += 1;
            assert_eq!(orders(&place).await, done, "{key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_the_handler_committed_itself_are_not_made_twice() {
    let (place, store) = with_orders().await;
    let mut done = 0;
    for form in FORMS {
        for statement in COMMIT {
            let key = format!("{statement} {form:?}");
            let told = create(&store, form, &key, statement).await;
            done += 1;
            assert_eq!(orders(&place).await, done, "{key}: {told:?}");
            assert_eq!(told, Ok(true), "{key}");
            assert_eq!(create(&store, form, &key, statement).await, Ok(false), "{key}");
            assert_eq!(orders(&place).await, done, "{key}");
        }
    }
}

/// The record stood before the claim that was taken back, under the same fence.
#[tokio::test]
async fn a_claim_that_only_repeats_another_is_taken_back_like_any() {
    let (place, store) = with_orders().await;
    for statement in ROLL_BACK {
        let request = Request::new(statement);
        let fence = request.acquire(&store).await.fence;
        let mut tx = store.begin().await.unwrap();
        let Claimed::Acquired(again) = store.claim_in(&mut tx, &request.claim()).await.unwrap()
        else {
            panic!("{statement}: it is the same owner's")
        };
        assert_eq!(again.fence, fence, "{statement}");
        tx.connection().query_drop(ORDER).await.unwrap();
        tx.connection().query_drop(statement).await.unwrap();
        let completed = store.complete_in(&mut tx, &fence, &sealed("reply")).await;
        assert_eq!(kind_of(completed), ErrorKind::NotApplied, "{statement}");
        assert_eq!(kind_of(store.commit(tx).await), ErrorKind::NotApplied, "{statement}");
        assert_eq!(orders(&place).await, 0, "{statement}");
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
}
