//! Transactions that are ended under the store, connections that are of no more use, what is set on
//! a session, and what comes out of a wait for another's transaction.

mod support;

use std::time::Duration;

use idem_core::admin::Admin;
use idem_core::claim::Claimed;
use idem_core::engine::{Call, Engine, Execution, Failure};
use idem_core::error::ErrorKind;
use idem_core::operation::{LocalForm, Operation};
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Retention, State};
use idem_core::reply::Reply;
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use idem_postgres::sqlx::postgres::PgPoolOptions;
use idem_postgres::sqlx::{self, Connection, Executor, PgConnection};
use idem_postgres::{PostgresStore, PostgresTransaction};
use idem_testkit::faults::proxy::{Effect, Fault, Proxy};
use support::until_somebody_waits;
use support::{LEASE, Place, Request, Server, kind_of, number, point, print, run, sealed};

const SERVERS: [Server; 3] = [Server::Postgres, Server::Postgres18, Server::PgBouncer];

async fn with_orders(server: Server) -> (Place, PostgresStore) {
    let place = Place::new(server).await;
    run(&mut place.plain().await, "CREATE TABLE orders (sku text NOT NULL)").await;
    let store = place.open().await;
    (place, store)
}

async fn orders(place: &Place) -> i64 {
    number(&mut place.plain().await, "SELECT count(*) FROM orders").await
}

async fn order(connection: &mut PgConnection) {
    let insert = sqlx::query("INSERT INTO orders VALUES ('tea')").persistent(false);
    insert.execute(connection).await.unwrap();
}

/// The ways in which a handler's transaction is rolled back without the store.
#[derive(Debug, Clone, Copy)]
enum RollBack {
    /// By a statement of the handler's.
    Statement,
    /// The same, and another transaction follows.
    AndBegin,
    /// The driver does it where a nested `begin` is dropped while it runs.
    DroppedNested,
}

const WAYS: [RollBack; 3] = [RollBack::Statement, RollBack::AndBegin, RollBack::DroppedNested];

async fn roll_back(connection: &mut PgConnection, way: RollBack) {
    match way {
        RollBack::Statement => run(connection, "ROLLBACK").await,
        RollBack::AndBegin => run(connection, "ROLLBACK; BEGIN").await,
        RollBack::DroppedNested => {
            // Where the answer is there at once nothing was cut off.
            while tokio::time::timeout(Duration::ZERO, connection.begin()).await.is_ok() {}
        }
    }
}

async fn held(store: &PostgresStore, request: &Request) -> PostgresTransaction {
    let fence = request.acquire(store).await.fence;
    let mut tx = store.begin().await.unwrap();
    store.hold_in(&mut tx, &fence).await.unwrap();
    tx
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_rollback_nothing_more_is_written_and_nothing_is_told_as_done() {
    for server in SERVERS {
        let (place, store) = with_orders(server).await;
        for way in WAYS {
            let request = Request::new(format!("{way:?}"));
            let message = OutboxMessage::new("order.created", "tea").unwrap();
            let mut tx = held(&store, &request).await;
            let fence = store.get(&request.scope, &request.key).await.unwrap().unwrap();
            let fence = fence.record.fence();
            order(tx.connection()).await;
            roll_back(tx.connection(), way).await;
            let seen = [
                ("push", store.push_in(&mut tx, &message).await),
                ("step", store.checkpoint_in(&mut tx, &fence, &point(1), LEASE).await.map(drop)),
                ("complete", store.complete_in(&mut tx, &fence, &sealed("reply")).await),
            ];
            for (call, seen) in seen {
                assert_eq!(kind_of(seen), ErrorKind::NotApplied, "{server:?} {way:?} {call}");
            }
            store.rollback(tx).await.unwrap();
            let stands = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
            let State::InProgress { recovery: None, .. } = stands.state else {
                panic!("{server:?} {way:?}: {stands:?}")
            };
            assert_eq!(store.stats().await.unwrap().outbox_pending, Some(0), "{server:?} {way:?}");
            assert_eq!(orders(&place).await, 0, "{server:?} {way:?}");
            // What comes next on the same connections is not touched by it.
            store.complete(&fence, &sealed("reply")).await.unwrap();
            assert!(matches!(request.again().send(&store).await, Claimed::Completed(_)));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_rolls_back_and_goes_on_is_told_so_and_a_retry_runs() {
    for form in [LocalForm::ClaimFirst, LocalForm::OneCommit] {
        for way in WAYS {
            let (place, store) = with_orders(Server::Postgres).await;
            let builder = Engine::builder(store.clone()).one_commit_on(store.clone());
            let engine = builder.namespace("shop").unwrap().build().unwrap();
            let operation = Operation::builder("orders.create").local_form(form).build().unwrap();
            let call = |request: Request| Call::new(request.scope, request.key, print(1));
            let create = |store: PostgresStore, way: Option<RollBack>| {
                async move |run: Execution| -> Result<Reply, Failure> {
                    let mut tx = run.transaction(&store).await?;
                    order(tx.connection()).await;
                    if let Some(way) = way {
                        roll_back(tx.connection(), way).await;
                    }
                    Ok(tx.commit(Reply::from("created")).await?.into())
                }
            };
            let first = create(store.clone(), Some(way));
            let told = engine.run(&operation, call(Request::new("key")), first).await;
            assert!(told.is_err(), "{form:?} {way:?}: {told:?}");
            assert_eq!(orders(&place).await, 0, "{form:?} {way:?}");
            let second = create(store.clone(), None);
            let told = engine.run(&operation, call(Request::new("key")), second).await.unwrap();
            assert!(told.is_executed(), "{form:?} {way:?}");
            assert_eq!(orders(&place).await, 1, "{form:?} {way:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_after_the_completion_is_not_told_as_committed() {
    for server in SERVERS {
        let (place, store) = with_orders(server).await;
        for way in WAYS {
            let request = Request::new(format!("{way:?}"));
            let mut tx = held(&store, &request).await;
            let stands = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
            order(tx.connection()).await;
            store.complete_in(&mut tx, &stands.fence(), &sealed("reply")).await.unwrap();
            roll_back(tx.connection(), way).await;
            assert_eq!(kind_of(store.commit(tx).await), ErrorKind::NotApplied, "{way:?}");
            assert_eq!(orders(&place).await, 0, "{server:?} {way:?}");
            store.complete(&stands.fence(), &sealed("reply")).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_the_handler_committed_itself_are_not_made_twice() {
    for server in SERVERS {
        let (place, store) = with_orders(server).await;
        let request = Request::new("key");
        let mut tx = held(&store, &request).await;
        let fence = store.get(&request.scope, &request.key).await.unwrap().unwrap().record.fence();
        order(tx.connection()).await;
        run(tx.connection(), "COMMIT").await;
        store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
        store.commit(tx).await.unwrap();
        assert!(matches!(request.again().send(&store).await, Claimed::Completed(_)));
        assert_eq!(orders(&place).await, 1, "{server:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_transaction_that_is_left_open_is_not_told_as_committed() {
    let (place, _) = with_orders(Server::Postgres).await;
    let builder = PostgresStore::builder().max_transactions(1);
    let store = builder.connect(&place.url()).await.unwrap();
    for commits in [true, false] {
        let request = Request::new(format!("{commits}"));
        let mut tx = held(&store, &request).await;
        let fence = store.get(&request.scope, &request.key).await.unwrap().unwrap().record.fence();
        std::mem::forget(tx.connection().begin().await.unwrap());
        order(tx.connection()).await;
        store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
        if commits {
            assert_eq!(kind_of(store.commit(tx).await), ErrorKind::NotApplied);
        } else {
            store.rollback(tx).await.unwrap();
        }
        // The only connection for transactions is lent again, and nothing is left open on it.
        let mut tx = store.begin().await.unwrap();
        store.hold_in(&mut tx, &fence).await.unwrap();
        order(tx.connection()).await;
        store.rollback(tx).await.unwrap();
        assert_eq!(orders(&place).await, 0);
    }
}

/// The bound on waits goes with the statement's transaction: another's statement on the same
/// connection, or the next one, waits as its own session says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_verb_leaves_a_setting_on_the_session() {
    let place = Place::new(Server::Postgres).await;
    for pooled in [false, true] {
        let pool = PgPoolOptions::new().max_connections(1).connect(&place.url()).await.unwrap();
        run(&mut pool.acquire().await.unwrap(), "SET lock_timeout = '77s'").await;
        let settings = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) \
             FROM pg_settings WHERE source = 'session' OR name = 'lock_timeout'";
        let read = async || -> String {
            let query = sqlx::query_scalar(settings).persistent(false);
            query.fetch_one(&pool).await.unwrap()
        };
        let before = read().await;
        assert!(before.contains("lock_timeout=77000"), "{before}");
        let builder = PostgresStore::builder().behind_transaction_pooler(pooled);
        let store = builder.on_pool(pool.clone()).await.unwrap();
        let spent = async |what: &str| assert_eq!(read().await, before, "{what} {pooled}");
        spent("opening").await;
        let request = Request::new(format!("{pooled}"));
        let fence = request.acquire(&store).await.fence;
        spent("a claim").await;
        request.again().send(&store).await;
        spent("a duplicate").await;
        store.renew(&fence, LEASE).await.unwrap();
        spent("a renewal").await;
        store.checkpoint(&fence, &point(1), LEASE).await.unwrap();
        spent("a recovery point").await;
        store.complete(&fence, &sealed("reply")).await.unwrap();
        spent("a completion").await;
        store.release(&fence).await.unwrap_err();
        store.lapsed(None, 10).await.unwrap();
        store.sweep(10).await.unwrap();
        store.remove(&fence).await.unwrap();
        store.forget(&request.scope, 10).await.unwrap();
        spent("the rest").await;
        let mut tx = held(&store, &Request::new(format!("tx {pooled}"))).await;
        run(tx.connection(), "SET LOCAL lock_timeout = '1s'").await;
        store.commit(tx).await.unwrap();
        spent("a transaction").await;
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_statements_are_forgotten_is_used_once_more_and_no_oftener() {
    let place = Place::new(Server::Postgres).await;
    let pool = PgPoolOptions::new().max_connections(1).connect(&place.url()).await.unwrap();
    let store = PostgresStore::new(pool.clone()).await.unwrap();
    Request::new("before").acquire(&store).await;
    pool.execute("DEALLOCATE ALL").await.unwrap();
    let request = Request::new("key");
    assert_eq!(kind_of(store.claim(&request.claim()).await), ErrorKind::NotApplied);
    request.acquire(&store).await;
    let fence = request.acquire(&store).await.fence;
    let mut tx = store.begin().await.unwrap();
    run(tx.connection(), "DEALLOCATE ALL").await;
    // Not prepared before, so it is prepared now.
    store.hold_in(&mut tx, &fence).await.unwrap();
    run(tx.connection(), "DEALLOCATE ALL").await;
    assert_eq!(kind_of(store.hold_in(&mut tx, &fence).await), ErrorKind::NotApplied);
    store.rollback(tx).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    store.hold_in(&mut tx, &fence).await.unwrap();
    store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
    store.commit(tx).await.unwrap();
}

/// As after a failover behind a name that now leads elsewhere: what is open takes no writes, and what
/// is opened anew does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_takes_no_writes_is_not_kept() {
    let place = Place::new(Server::Postgres).await;
    place.open().await.close().await;
    let mut plain = place.plain().await;
    let database = &place.database;
    for pooled in [false, true] {
        let set = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
        run(&mut plain, &set).await;
        let builder = PostgresStore::builder().max_connections(1).max_transactions(1);
        let builder = builder.behind_transaction_pooler(pooled);
        let store = builder.connect(&place.url()).await.unwrap();
        let request = Request::new(format!("{pooled}"));
        assert_eq!(kind_of(store.claim(&request.claim()).await), ErrorKind::NotApplied);
        let mut tx = store.begin().await.unwrap();
        let claimed = store.claim_in(&mut tx, &request.claim()).await;
        assert_eq!(kind_of(claimed), ErrorKind::NotApplied);
        store.rollback(tx).await.unwrap();
        let reset = format!("ALTER DATABASE {database} RESET default_transaction_read_only");
        run(&mut plain, "SET default_transaction_read_only = off").await;
        run(&mut plain, &reset).await;
        let mut told = store.claim(&request.claim()).await;
        if told.is_err() {
            // It was opened anew before the setting was reset, and is told once more.
            told = store.claim(&request.claim()).await;
        }
        assert!(matches!(told, Ok(Claimed::Acquired(_))), "{pooled}: {told:?}");
        let mut tx = store.begin().await.unwrap();
        let late = Request::new(format!("tx {pooled}"));
        let claimed = store.claim_in(&mut tx, &late.claim()).await;
        assert!(matches!(claimed, Ok(Claimed::Acquired(_))), "{pooled}: {claimed:?}");
        store.commit(tx).await.unwrap();
        store.close().await;
    }
}

/// Every statement in a handler's transaction has an end, those without parameters too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_in_a_transaction_is_waited_for_no_longer_than_a_call() {
    let (place, _) = with_orders(Server::Postgres).await;
    let proxy = Proxy::to(place.address()).await.unwrap();
    let builder = PostgresStore::builder().call_limit(Duration::from_secs(1));
    let store = builder.connect(&place.url_at(proxy.address())).await.unwrap();
    let request = Request::new("key");
    let fence = request.acquire(&store).await.fence;
    for call in ["claim", "savepoint", "undo", "hold", "complete", "commit", "rollback"] {
        let mut tx = store.begin().await.unwrap();
        store.savepoint_in(&mut tx).await.unwrap();
        order(tx.connection()).await;
        proxy.arm(Fault::lose_reply().with(Effect::Silence));
        let claim = request.claim();
        let bounded = tokio::time::timeout(LEASE, async {
            match call {
                "claim" => store.claim_in(&mut tx, &claim).await.map(drop),
                "savepoint" => store.savepoint_in(&mut tx).await,
                "undo" => store.undo_to_savepoint_in(&mut tx).await,
                "hold" => store.hold_in(&mut tx, &fence).await,
                "complete" => store.complete_in(&mut tx, &fence, &sealed("reply")).await,
                "commit" => store.commit(tx).await,
                _ => store.rollback(tx).await,
            }
        });
        let told = bounded.await.unwrap_or_else(|_| panic!("{call} waits for ever"));
        // A commit asks first whether a statement of the handler's failed.
        assert_eq!(kind_of(told), ErrorKind::NotApplied, "{call}");
        proxy.disarm();
    }
    assert_eq!(orders(&place).await, 0);
    store.complete(&fence, &sealed("reply")).await.unwrap();
}

/// A record that is claimed anew while somebody waits to delete it is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_came_to_life_during_the_wait_is_not_forgotten() {
    let place = Place::new(Server::Postgres).await;
    let store = place.open().await;
    let mut request = Request::new("key");
    request.retention = Retention::of(Duration::from_millis(1));
    let fence = request.acquire(&store).await.fence;
    store.complete(&fence, &sealed("reply")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut tx = store.begin().await.unwrap();
    let again = request.again();
    let claimed = store.claim_in(&mut tx, &again.claim()).await.unwrap();
    assert!(matches!(claimed, Claimed::Acquired(_)), "{claimed:?}");
    let (waiting, scope) = (store.clone(), request.scope.clone());
    let forgetting = tokio::spawn(async move { waiting.forget(&scope, 10).await.unwrap() });
    until_somebody_waits(&mut place.plain().await).await;
    store.commit(tx).await.unwrap();
    let forgotten = forgetting.await.unwrap();
    assert_eq!(forgotten.deleted, 0, "{forgotten:?}");
    let stands = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
    assert_eq!(stands.owner, again.owner);
}

/// A lease that was counted from before a wait, and is half over after it, is counted anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waited_for_long_gives_more_than_half_of_its_lease() {
    let place = Place::new(Server::Postgres).await;
    let builder = PostgresStore::builder().lock_wait(Duration::from_secs(9));
    let store = builder.connect(&place.url()).await.unwrap();
    let first = Request::new("key");
    let mut tx = store.begin().await.unwrap();
    store.claim_in(&mut tx, &first.claim()).await.unwrap();
    let lease = Duration::from_secs(2);
    let (waiting, late) = (store.clone(), first.again().lease(lease));
    let claiming = tokio::spawn(async move { late.acquire(&waiting).await });
    until_somebody_waits(&mut place.plain().await).await;
    tokio::time::sleep(lease * 3 / 5).await;
    store.rollback(tx).await.unwrap();
    let left = claiming.await.unwrap().lease;
    assert!(left > lease / 2, "{left:?} are left");
}

/// Behind a pooler a verb has a COMMIT of its own: what is lost before it was not applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_what_is_lost_before_the_commit_is_not_applied() {
    let place = Place::new(Server::Postgres).await;
    let proxy = Proxy::to(place.address()).await.unwrap();
    let builder = PostgresStore::builder().behind_transaction_pooler(true).max_connections(1);
    let store = builder.connect(&place.url_at(proxy.address())).await.unwrap();
    Request::new("before").acquire(&store).await;
    // The answer to BEGIN has 41 bytes.
    proxy.arm(Fault::lose_reply().after(44));
    let told = store.claim(&Request::new("key").claim()).await;
    assert_eq!(kind_of(told), ErrorKind::NotApplied);
}
