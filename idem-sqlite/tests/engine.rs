//! The engine on SQLite: a handler's rows, its messages and its reply commit together, in both
//! forms (R19).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::engine::{Call, Engine, Execution, Failure, How, RunError};
use idem_core::error::ErrorKind;
use idem_core::fingerprint::Fingerprint;
use idem_core::key::{Key, Scope};
use idem_core::operation::{LocalForm, OnUnknown, Operation, OperationBuilder};
use idem_core::outbox::OutboxMessage;
use idem_core::record::State;
use idem_core::reply::Reply;
use idem_core::store::Store;
use idem_sqlite::SqliteStore;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;

struct World {
    _folder: TempDir,
    store: SqliteStore,
    /// The user's own connections, to count what was really committed.
    pool: SqlitePool,
    engine: Engine,
    operation: Operation,
}

const BOTH: [LocalForm; 2] = [LocalForm::ClaimFirst, LocalForm::OneCommit];

impl World {
    async fn new(settings: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Self {
        // Long enough for the slowest disk: no test but one is about waiting.
        Self::waiting(Duration::from_secs(30), settings).await
    }

    async fn waiting(
        busy: Duration,
        settings: impl FnOnce(OperationBuilder) -> OperationBuilder,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("world.db");
        let store = SqliteStore::builder().busy_timeout(busy).open(&path).await.unwrap();
        let options = SqliteConnectOptions::new().filename(&path);
        let pool = SqlitePool::connect_with(options).await.unwrap();
        sqlx::query("CREATE TABLE rows (note TEXT NOT NULL)").execute(&pool).await.unwrap();
        let engine = Engine::builder(store.clone())
            .one_commit_on(store.clone())
            .namespace("test")
            .unwrap()
            .build()
            .unwrap();
        let lease = Duration::from_secs(60);
        let operation = settings(Operation::builder("op").lease(lease)).build().unwrap();
        Self { _folder: folder, store, pool, engine, operation }
    }

    fn call(&self) -> Call {
        let (scope, key) = (Scope::new("a").unwrap(), Key::new("k").unwrap());
        Call::new(scope, key, Fingerprint::of_bytes("k"))
    }

    async fn rows(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM rows").fetch_one(&self.pool).await.unwrap()
    }

    async fn messages(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM idem_outbox").fetch_one(&self.pool).await.unwrap()
    }

    async fn state(&self) -> Option<State> {
        let (scope, key) = (Scope::new("a").unwrap(), Key::new("k").unwrap());
        self.store.get(&scope, &key).await.unwrap().map(|seen| seen.record.state)
    }
}

async fn insert(execution: &Execution, store: &SqliteStore) -> Result<(), Failure> {
    let mut transaction = execution.transaction(store).await?;
    sqlx::query("INSERT INTO rows VALUES ('x')").execute(transaction.connection()).await?;
    transaction.push(&OutboxMessage::new("topic", "message")?).await?;
    // Dropped without a commit.
    Ok(())
}

#[tokio::test]
async fn rows_messages_and_reply_commit_together() {
    for form in BOTH {
        let world = World::new(|builder| builder.local_form(form)).await;
        for attempt in 0..3 {
            let store = world.store.clone();
            let outcome =
                world.engine.run(&world.operation, world.call(), async move |execution| {
                    let mut transaction = execution.transaction(&store).await?;
                    sqlx::query("INSERT INTO rows VALUES ('x')")
                        .execute(transaction.connection())
                        .await?;
                    transaction.push(&OutboxMessage::new("topic", "message")?).await?;
                    transaction.commit("done".to_owned()).await
                });
            let outcome = outcome.await.unwrap();
            let how = if attempt == 0 { How::Executed } else { How::Replayed };
            assert_eq!((outcome.how, outcome.stored), (how, true), "{form:?}");
            assert_eq!(outcome.reply.body().unwrap(), "done");
        }
        assert_eq!((world.rows().await, world.messages().await), (1, 1), "{form:?}");
    }
}

#[tokio::test]
async fn a_reply_without_a_commit_is_stored_alone() {
    for form in BOTH {
        let world = World::new(|builder| builder.local_form(form)).await;
        for attempt in 0..2 {
            let store = world.store.clone();
            let outcome =
                world.engine.run(&world.operation, world.call(), async move |execution| {
                    insert(&execution, &store).await?;
                    Ok::<_, Failure>(Reply::new(402)?.with_body("declined"))
                });
            let outcome = outcome.await.unwrap();
            assert_eq!((outcome.reply.status(), outcome.is_executed()), (402, attempt == 0));
        }
        assert_eq!((world.rows().await, world.messages().await), (0, 0), "{form:?}");
    }
}

#[tokio::test]
async fn a_rejection_after_a_transaction_was_asked_for_is_a_reply_like_any_other() {
    for form in BOTH {
        let world = World::new(|builder| builder.local_form(form)).await;
        let store = world.store.clone();
        let outcome = world.engine.run(&world.operation, world.call(), async move |execution| {
            insert(&execution, &store).await?;
            Err::<Reply, _>(Failure::reject(Reply::new(422)?))
        });
        let outcome = outcome.await.unwrap();
        assert_eq!((outcome.how, outcome.stored), (How::Executed, true), "{form:?}");
        assert!(matches!(world.state().await, Some(State::Completed { .. })));
        assert_eq!(world.rows().await, 0);
    }
}

/// An error or a panic before the commit is known to have changed nothing: the lease is given up
/// at once, and the next try runs (R15).
#[tokio::test]
async fn a_failure_before_the_commit_is_rolled_back_and_may_be_tried_at_once() {
    for form in BOTH {
        let world = World::new(|builder| builder.local_form(form)).await;
        let runs = Arc::new(AtomicU32::new(0));
        for try_ in 0..3 {
            let (store, runs) = (world.store.clone(), Arc::clone(&runs));
            let outcome =
                world.engine.run(&world.operation, world.call(), async move |execution| {
                    let mut transaction = execution.transaction(&store).await?;
                    sqlx::query("INSERT INTO rows VALUES ('x')")
                        .execute(transaction.connection())
                        .await?;
                    match runs.fetch_add(1, Ordering::SeqCst) {
                        0 => Err(Failure::unknown("broken")),
                        1 => panic!("asked for by the test"),
                        _ => transaction.commit("done".to_owned()).await,
                    }
                });
            match outcome.await {
                Err(error) => {
                    assert!(try_ < 2 && matches!(error, RunError::RolledBack), "{form:?} {error}");
                    assert_eq!(world.rows().await, 0);
                }
                Ok(outcome) => assert_eq!((try_, outcome.how), (2, How::Executed)),
            }
        }
        assert_eq!((runs.load(Ordering::SeqCst), world.rows().await), (3, 1), "{form:?}");
    }
}

#[tokio::test]
async fn a_transaction_that_is_open_for_too_long_is_taken_back() {
    for form in BOTH {
        let limit = Duration::from_millis(200);
        let world = World::new(|builder| builder.local_form(form).transaction_limit(limit)).await;
        let store = world.store.clone();
        let outcome = world.engine.run(&world.operation, world.call(), async move |execution| {
            let mut transaction = execution.transaction(&store).await?;
            sqlx::query("INSERT INTO rows VALUES ('x')").execute(transaction.connection()).await?;
            std::future::pending::<()>().await;
            transaction.commit("never".to_owned()).await
        });
        let error = outcome.await.unwrap_err();
        assert!(matches!(error, RunError::RolledBack), "{form:?} {error}");
        assert_eq!(world.rows().await, 0);
        let again =
            world.engine.run(&world.operation, world.call(), async |_| Ok::<_, Failure>(())).await;
        assert_eq!(again.unwrap().how, How::Executed, "{form:?}");
    }
}

/// In the one-commit form nobody sees the claim before it commits: a duplicate is told so within
/// the store's bound, and never runs beside it.
#[tokio::test]
async fn a_duplicate_of_an_open_commit_is_turned_away_within_a_bound() {
    let busy = Duration::from_secs(1);
    let world = World::waiting(busy, |builder| {
        builder.local_form(LocalForm::OneCommit).claim_limit(busy * 2).transaction_limit(busy * 60)
    })
    .await;
    let (entered, enter) = tokio::sync::oneshot::channel();
    let (leave, left) = tokio::sync::oneshot::channel::<()>();
    let (engine, operation, call) = (world.engine.clone(), world.operation.clone(), world.call());
    let store = world.store.clone();
    let first = tokio::spawn(async move {
        engine
            .run(&operation, call, async move |execution| {
                let transaction = execution.transaction(&store).await?;
                entered.send(()).unwrap();
                left.await?;
                transaction.commit("first".to_owned()).await
            })
            .await
    });
    enter.await.unwrap();
    let duplicate = world
        .engine
        .run(&world.operation, world.call(), async |_| Ok::<_, Failure>("second".to_owned()))
        .await
        .unwrap_err();
    assert!(duplicate.store_kind().is_some_and(ErrorKind::is_transient), "{duplicate}");
    leave.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap().reply.body().unwrap(), "first");
    let replay = world
        .engine
        .run(&world.operation, world.call(), async |_| Ok::<_, Failure>("third".to_owned()))
        .await
        .unwrap();
    assert_eq!((replay.how, replay.reply.body().unwrap().as_ref()), (How::Replayed, &b"first"[..]));
}

/// Rows of a step that is not the last commit together with its recovery point.
#[tokio::test]
async fn rows_of_a_step_stand_once_when_the_execution_is_resumed() {
    let world = World::new(|builder| {
        // An open transaction holds the lease for its own limit as well.
        let (lease, limit) = (Duration::from_millis(300), Duration::from_secs(2));
        builder.lease(lease).transaction_limit(limit).on_unknown(OnUnknown::Resume)
    })
    .await;
    let runs = Arc::new(AtomicU32::new(0));
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let outcome = loop {
        let (store, runs) = (world.store.clone(), Arc::clone(&runs));
        let tried = world.engine.run(&world.operation, world.call(), async move |execution| {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            if execution.done::<String>("reserve").await?.is_none() {
                let mut transaction = execution.transaction(&store).await?;
                sqlx::query("INSERT INTO rows VALUES ('reserved')")
                    .execute(transaction.connection())
                    .await?;
                transaction.commit_step("reserve", "seat 7").await?;
            }
            // Asked for before the failure, so that the outcome is unknown and not rolled back.
            execution.downstream_key("book").await?;
            if run == 0 {
                return Err(Failure::unknown("killed between the steps"));
            }
            let mut transaction = execution.transaction(&store).await?;
            sqlx::query("INSERT INTO rows VALUES ('booked')")
                .execute(transaction.connection())
                .await?;
            let seat = execution.done::<String>("reserve").await?.unwrap_or_default();
            transaction.commit(seat).await
        });
        match tried.await {
            Ok(outcome) => break outcome,
            Err(RunError::Unknown | RunError::InProgress { .. }) => {
                assert!(std::time::Instant::now() < deadline, "never resumed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!((outcome.attempt, outcome.reply.body().unwrap().as_ref()), (2, &b"seat 7"[..]));
    assert_eq!((runs.load(Ordering::SeqCst), world.rows().await), (2, 2));
}
