//! While a handler runs: callers that go away, heartbeats, shutting down (R12, R13, R25).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use idem_core::engine::{Engine, Execution, Failure, How, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::reply::Reply;
use idem_core::store::Store;

use crate::faulty::Fault;
use crate::{LEASE, World, body};

#[tokio::test(start_paused = true)]
async fn r12_the_handler_runs_to_completion_although_the_caller_went_away_at_any_poll() {
    for polls in 1..12 {
        let world = World::new(|builder| builder);
        let mut call = Box::pin(world.run(async |_| {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok("done".to_owned())
        }));
        for _ in 0..polls {
            let answered = poll_fn(|context| Poll::Ready(pin!(&mut call).poll(context).is_ready()));
            if answered.await {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(call);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(world.is_completed().await, "dropped after {polls} polls");
        let retry = world.answer("again").await.unwrap();
        assert_eq!((retry.how, body(&retry), world.runs()), (How::Replayed, "done", 1));
    }
}

#[tokio::test(start_paused = true)]
async fn r12_a_hundred_callers_one_run_a_hundred_equal_replies() {
    // The handler is slower than the retention: the reply is still kept after completion.
    let retention = idem_core::record::Retention::at_least(LEASE, LEASE * 10);
    let world = World::new(|builder| builder.retention(retention).wait(LEASE * 10));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let world = world.clone();
        callers.spawn(async move {
            let slow = async |_| {
                tokio::time::sleep(LEASE * 3).await;
                Ok("slow".to_owned())
            };
            world.run(slow).await.unwrap().reply
        });
    }
    let replies = callers.join_all().await;
    assert!(replies.iter().all(|reply| *reply == Reply::from("slow".to_owned())));
    assert_eq!((replies.len(), world.runs()), (100, 1));
}

#[tokio::test(start_paused = true)]
async fn r13_heartbeats_hold_the_lease_through_errors_of_the_store() {
    let world = World::new(|builder| builder);
    let errors = [ErrorKind::NotApplied, ErrorKind::OutcomeUnknown].map(Fault::Request);
    for _ in 0..20 {
        world.store.fail(Verb::Renew, errors);
        world.store.fail(Verb::Renew, [Fault::Reply, Fault::Late(Duration::from_secs(1))]);
    }
    let running = world.clone();
    let running = tokio::spawn(async move {
        running
            .run(async |execution: Execution| {
                tokio::time::sleep(LEASE * 5).await;
                assert!(!execution.is_lease_lost());
                Ok("long".to_owned())
            })
            .await
    });
    for _ in 0..50 {
        tokio::time::sleep(LEASE / 10).await;
        let duplicate = world.answer("second").await.unwrap_err();
        assert!(matches!(duplicate, RunError::InProgress { .. }), "{duplicate}");
    }
    assert_eq!(body(&running.await.unwrap().unwrap()), "long");
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn r13_a_handler_is_told_that_its_lease_was_lost_and_may_do_nothing_more() {
    let world = World::new(|builder| builder);
    world.store.fail(Verb::Renew, [Fault::Request(ErrorKind::NotApplied); 60]);
    let holder = world.clone();
    let old = tokio::spawn(async move {
        holder
            .run(async |execution: Execution| {
                execution.lease_lost().await;
                let refused = execution.downstream_key("charge").await.unwrap_err();
                assert!(refused.is_lease_lost(), "{refused}");
                assert!(execution.begin().await.is_err());
                Ok("old".to_owned())
            })
            .await
    });
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    let taker = world.clone();
    let new = tokio::spawn(async move {
        taker
            .run(async |_| {
                tokio::time::sleep(LEASE * 10).await;
                Ok("new".to_owned())
            })
            .await
    });
    let told = old.await.unwrap().unwrap_err();
    assert!(matches!(told, RunError::LeaseLost), "{told}");
    assert_eq!(body(&new.await.unwrap().unwrap()), "new");
    assert_eq!(body(&world.answer("x").await.unwrap()), "new");
}

#[tokio::test(start_paused = true)]
async fn permits_come_back_however_an_execution_ends() {
    let world = World::with(
        |builder| builder,
        |builder, _| builder.max_in_flight(1).admission_limit(Duration::from_millis(10)),
    );
    let other = |key: u32| {
        let (scope, key) = (
            idem_core::key::Scope::new("a").unwrap(),
            idem_core::key::Key::new(format!("{key}")).unwrap(),
        );
        let prints = idem_core::fingerprint::Fingerprint::of_bytes("x");
        idem_core::engine::Call::new(scope, key, prints)
    };
    for key in 0..20 {
        let (engine, operation): (Engine, _) = (world.engine.clone(), world.operation.clone());
        let result = match key % 4 {
            0 => engine.run(&operation, other(key), panics).await,
            1 => {
                engine
                    .run(&operation, other(key), async |_| Err::<Reply, _>(Failure::unknown("x")))
                    .await
            }
            2 => {
                world.store.fail(Verb::Claim, [Fault::Request(ErrorKind::WrongSchema)]);
                engine.run(&operation, other(key), async |_| Ok::<_, Failure>(())).await
            }
            _ => engine.run(&operation, other(key), async |_| Ok::<_, Failure>(())).await,
        };
        assert_eq!(result.is_ok(), key % 4 == 3, "{key}");
    }
    // While the one slot is taken, a call is told so within a bound, and nothing is claimed.
    let (engine, operation) = (world.engine.clone(), world.operation.clone());
    let slow = tokio::spawn(async move {
        engine
            .run(&operation, other(100), async |_| {
                tokio::time::sleep(LEASE).await;
                Ok::<_, Failure>(())
            })
            .await
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let busy = world.engine.run(&world.operation, other(101), async |_| Ok::<_, Failure>(())).await;
    assert!(matches!(busy, Err(RunError::Busy)));
    let key = idem_core::key::Key::new("101").unwrap();
    let scope = idem_core::key::Scope::new("a").unwrap();
    assert!(world.store.inner().get(&scope, &key).await.unwrap().is_none());
    assert!(slow.await.unwrap().is_ok());
}

async fn panics(_: Execution) -> Result<Reply, Failure> {
    panic!("asked for by the test")
}

#[tokio::test(start_paused = true)]
async fn draining_lets_what_runs_finish_and_takes_nothing_new() {
    let world = World::new(|builder| builder);
    let running = world.clone();
    let running = tokio::spawn(async move {
        running
            .run(async |_| {
                tokio::time::sleep(LEASE * 2).await;
                Ok("done".to_owned())
            })
            .await
    });
    while world.runs() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.engine.drain(LEASE).await, 1, "it still runs, its heartbeat too");
    assert!(matches!(world.answer("new").await, Err(RunError::Draining)));
    assert_eq!(world.engine.drain(LEASE * 2).await, 0);
    assert_eq!(body(&running.await.unwrap().unwrap()), "done");
    assert!(world.is_completed().await);
}

/// The process dies between the effect and the record: everything of it is dropped at once.
#[test]
fn a_crash_between_effect_and_record_is_resumed_under_the_same_downstream_key() {
    let calls = Arc::new(std::sync::Mutex::new(Vec::new()));
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let clock = Arc::new(idem_core::time::ManualClock::new());
    let memory = idem_core::memory::MemoryStore::with_clock(Arc::clone(&clock));
    let operation = idem_core::operation::Operation::builder("op").lease(LEASE).build().unwrap();
    let run = async |dies: bool| {
        let seen = Arc::clone(&calls);
        let engine = Engine::builder(memory.clone()).namespace("test").unwrap().build().unwrap();
        engine
            .run(&operation, World::call(), async move |execution: Execution| {
                execution
                    .step("charge", |key| async move {
                        seen.lock().unwrap().push(key.to_string());
                        if dies {
                            std::future::pending::<()>().await;
                        }
                        Ok::<_, std::io::Error>("charged".to_owned())
                    })
                    .await
            })
            .await
    };
    let first = runtime();
    first.block_on(async {
        tokio::select! {
            _ = run(true) => unreachable!("it never ends"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    });
    drop(first);
    clock.advance(LEASE);
    let outcome = runtime().block_on(run(false)).unwrap();
    assert_eq!((outcome.attempt, body(&outcome)), (2, "charged"));
    let calls = calls.lock().unwrap();
    assert_eq!((calls.len(), &calls[0]), (2, &calls[1]), "two calls, one key");
}
