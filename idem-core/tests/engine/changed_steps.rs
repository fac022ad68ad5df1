//! A deploy changes the steps of a handler while a record is under way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::engine::{Engine, Execution, Failure, RunError, StepsChanged};
use idem_core::housekeeping::{self, Reconciler};
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;
use idem_core::store::Store;
use idem_core::time::RuntimeClock;

const LEASE: Duration = Duration::from_secs(10);

/// What the downstreams saw: step and key.
type Calls = Arc<Mutex<Vec<(&'static str, String)>>>;

/// One process after another on one store, each with its own release of the handler.
struct World {
    store: MemoryStore,
    operation: Operation,
    calls: Calls,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::with_clock(RuntimeClock::new());
        let operation = Operation::builder("order").lease(LEASE).resumable().build().unwrap();
        Self { store, operation, calls: Calls::default() }
    }

    fn release<F, Fut>(&self, handler: F) -> Engine
    where
        F: Fn(Execution, Calls) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        let calls = Arc::clone(&self.calls);
        Engine::builder(self.store.clone())
            .namespace("test")
            .unwrap()
            .register(&self.operation, move |execution| handler(execution, Arc::clone(&calls)))
            .build()
            .unwrap()
    }

    /// The first release: takes two steps and dies before its reply.
    async fn stranded() -> Self {
        let world = Self::new();
        let engine = world.release(async |execution, calls| {
            call(&execution, &calls, "reserve").await?;
            call(&execution, &calls, "charge").await?;
            Err(Failure::unknown("killed"))
        });
        let error =
            engine.run_registered(&world.operation, crate::World::call()).await.unwrap_err();
        assert!(matches!(error, RunError::Unknown), "{error}");
        world.pass().await;
        world
    }

    async fn pass(&self) {
        tokio::time::sleep(LEASE).await;
    }

    async fn resume(&self, engine: &Engine) -> Result<String, RunError> {
        let lapsed = self.store.lapsed(None, 10).await.unwrap().records.remove(0);
        let outcome = engine.resume(&lapsed).await?;
        Ok(String::from_utf8(outcome.reply.body().unwrap().to_vec()).unwrap())
    }

    fn called(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().iter().map(|(step, _)| *step).collect()
    }
}

async fn call(execution: &Execution, calls: &Calls, step: &'static str) -> Result<String, Failure> {
    execution
        .step(step, async |key| {
            calls.lock().unwrap().push((step, key.to_string()));
            Ok::<_, std::io::Error>(format!("{step} done"))
        })
        .await
}

fn not_taken(result: Result<String, RunError>) -> Vec<String> {
    match result {
        Err(RunError::StepsChanged(StepsChanged::NotTaken { steps })) => steps,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_steps_are_skipped_with_their_results() {
    let world = World::stranded().await;
    let same = world.release(async |execution, calls| {
        let reserved = call(&execution, &calls, "reserve").await?;
        let charged = call(&execution, &calls, "charge").await?;
        // One that was added.
        let shipped = call(&execution, &calls, "ship").await?;
        Ok(format!("{reserved}, {charged}, {shipped}"))
    });
    assert_eq!(world.resume(&same).await.unwrap(), "reserve done, charge done, ship done");
    assert_eq!(world.called(), ["reserve", "charge", "ship"]);
}

#[tokio::test(start_paused = true)]
async fn a_renamed_step_is_not_taken_again_under_its_new_name() {
    let world = World::stranded().await;
    let renamed = world.release(async |execution, calls| {
        call(&execution, &calls, "reserve").await?;
        call(&execution, &calls, "charge_card").await
    });
    assert_eq!(not_taken(world.resume(&renamed).await), ["charge"]);
    assert_eq!(world.called(), ["reserve", "charge"], "nobody was charged twice");

    // A release that knows both goes on.
    world.pass().await;
    let fixed = world.release(async |execution, calls| {
        call(&execution, &calls, "reserve").await?;
        call(&execution, &calls, "charge").await
    });
    assert_eq!(world.resume(&fixed).await.unwrap(), "charge done");
    assert_eq!(world.called(), ["reserve", "charge"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_a_step_that_was_taken_is_not_stored() {
    let world = World::stranded().await;
    let removed = world.release(async |execution, calls| call(&execution, &calls, "reserve").await);
    assert_eq!(not_taken(world.resume(&removed).await), ["charge"]);
    world.pass().await;
    let rejecting = world.release(async |_, _| Err(Failure::reject("not for you".to_owned())));
    assert_eq!(not_taken(world.resume(&rejecting).await), ["reserve", "charge"]);
    world.pass().await;
    // A handler that goes on although it was told.
    let stubborn = world.release(async |execution, calls| {
        let _ = call(&execution, &calls, "pay").await;
        Ok("paid".to_owned())
    });
    assert_eq!(not_taken(world.resume(&stubborn).await), ["reserve", "charge"]);
    assert_eq!(world.called(), ["reserve", "charge"]);
}

#[tokio::test(start_paused = true)]
async fn other_keys_and_generations_are_refused_as_well() {
    let world = World::stranded().await;
    for way in ["key", "generation"] {
        let changed = world.release(move |execution, _| async move {
            match way {
                "key" => drop(execution.downstream_key("pay").await?),
                _ => execution.next_generation("pay").await?,
            }
            Ok("paid".to_owned())
        });
        assert_eq!(not_taken(world.resume(&changed).await), ["reserve", "charge"], "{way}");
        world.pass().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_of_another_type_is_told_without_its_content() {
    let world = World::stranded().await;
    let retyped = world.release(async |execution, _| {
        let done: Option<u64> = execution.done("reserve").await?;
        Ok(format!("{done:?}"))
    });
    let error = world.resume(&retyped).await.unwrap_err();
    let RunError::StepsChanged(changed) = &error else { panic!("{error}") };
    assert_eq!(*changed, StepsChanged::OtherResult { step: "reserve".into() });
    assert!(!format!("{error} {error:?}").contains("reserve done"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn steps_that_run_side_by_side_may_be_asked_for_in_any_order() {
    let world = World::new();
    async fn both(execution: Execution, calls: Calls, dies: bool) -> Result<String, Failure> {
        let (one, other) = tokio::join!(
            async {
                if dies {
                    return Err(Failure::unknown("killed"));
                }
                call(&execution, &calls, "mail").await
            },
            call(&execution, &calls, "charge"),
        );
        Ok(format!("{}, {}", one?, other?))
    }
    let first = world.release(move |execution, calls| both(execution, calls, true));
    first.run_registered(&world.operation, crate::World::call()).await.unwrap_err();
    world.pass().await;
    let next = world.release(move |execution, calls| both(execution, calls, false));
    assert_eq!(world.resume(&next).await.unwrap(), "mail done, charge done");
    assert_eq!(world.called(), ["charge", "mail"]);
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_reports_it_and_uses_up_one_attempt_only() {
    let world = World::stranded().await;
    let renamed = world.release(async |execution, calls| call(&execution, &calls, "pay").await);
    let reconciler = Reconciler::new(renamed);
    for pass in 0..5 {
        // Passes come more often than leases end, and meanwhile the record is not listed.
        for _ in 0..3 {
            reconciler.once().await.unwrap();
        }
        world.pass().await;
        let done = reconciler.once().await.unwrap();
        assert_eq!(done.not_resumable, 1, "pass {pass}: {done:?}");
    }
    let seen = world.store.lapsed(None, 10).await.unwrap().records.remove(0);
    assert_eq!(seen.record.attempt, 2);
    housekeeping::release(&world.store, &seen).await.unwrap();
}
