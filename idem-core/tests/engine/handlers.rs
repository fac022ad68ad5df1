//! How a handler can end, and what follows (R14, R15, R20, R26, R27).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::admin::Admin as _;
use idem_core::engine::{Execution, Failure, How, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::{Begun, OnUnknown, OperationBuilder};
use idem_core::reply::Reply;

use crate::faulty::Fault;
use crate::{LEASE, World, body};

fn rejection() -> Failure {
    Failure::reject(Reply::new(422).unwrap())
}

#[tokio::test(start_paused = true)]
async fn r14_a_rejection_before_anything_was_done_frees_the_key() {
    let world = World::new(|builder| builder);
    world.store.fail(Verb::Release, [Fault::Request(ErrorKind::NotApplied), Fault::Reply]);
    let outcome = world.run(async |_| Err::<Reply, _>(rejection())).await.unwrap();
    assert_eq!((outcome.how, outcome.stored), (How::Rejected, false));
    assert!(world.record().await.is_none());
    assert_eq!(body(&world.answer("corrected").await.unwrap()), "corrected");
}

#[tokio::test(start_paused = true)]
async fn r14_a_rejection_after_something_may_have_been_done_is_a_reply() {
    // After a downstream key was asked for.
    let world = World::new(|builder| builder);
    let outcome = world
        .run(async |execution: Execution| {
            execution.downstream_key("charge").await?;
            Err::<Reply, _>(rejection())
        })
        .await
        .unwrap();
    assert_eq!((outcome.how, outcome.stored, outcome.reply.status()), (How::Executed, true, 422));
    assert_eq!(world.answer("x").await.unwrap().reply.status(), 422);

    // After "begun".
    let world = World::new(|builder| builder.on_unknown(OnUnknown::Hold));
    let outcome = world.run(async |_| Err::<Reply, _>(rejection())).await.unwrap();
    assert_eq!((outcome.how, outcome.stored), (How::Executed, true));

    // From attempt 2 on.
    let world = World::new(|builder| builder);
    assert!(world.run(async |_| Err::<Reply, _>(Failure::unknown("broken"))).await.is_err());
    tokio::time::sleep(LEASE).await;
    let outcome = world.run(async |_| Err::<Reply, _>(rejection())).await.unwrap();
    assert_eq!((outcome.how, outcome.attempt, outcome.stored), (How::Executed, 2, true));
    assert_eq!(world.answer("x").await.unwrap().reply.status(), 422);
}

#[tokio::test(start_paused = true)]
async fn r14_with_begun_by_the_handler_what_comes_before_is_checking() {
    let by_handler = |builder: OperationBuilder| builder.resumable().begun(Begun::ByHandler);
    let world = World::new(by_handler);
    let outcome = world.run(async |_| Err::<Reply, _>(rejection())).await.unwrap();
    assert_eq!((outcome.how, world.store.calls(Verb::Checkpoint)), (How::Rejected, 0));
    let outcome = world
        .run(async |execution: Execution| {
            execution.begin().await?;
            execution.begin().await?;
            Err::<Reply, _>(rejection())
        })
        .await
        .unwrap();
    assert_eq!((outcome.how, world.store.calls(Verb::Checkpoint)), (How::Executed, 1));
}

async fn end_without_reply(
    world: &World,
    panics: bool,
) -> Result<idem_core::engine::Outcome, RunError> {
    world
        .run(async move |_| {
            assert!(!panics, "asked for by the test");
            Err::<Reply, _>(Failure::unknown("the connection broke"))
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn r15_resume_goes_on_after_the_lease_up_to_the_cap_of_attempts() {
    for panics in [false, true] {
        let world = World::new(|builder| builder.attempts(3));
        for attempt in 1..=3 {
            let error = end_without_reply(&world, panics).await.unwrap_err();
            assert!(matches!(error, RunError::Unknown), "{error}");
            let early = world.answer("early").await.unwrap_err();
            assert!(matches!(early, RunError::InProgress { .. }), "{early}");
            tokio::time::sleep(LEASE).await;
            assert_eq!(world.runs(), attempt);
        }
        let held = world.answer("never").await.unwrap_err();
        assert!(matches!(held, RunError::Held { attempt: 3 }), "{held}");
        assert_eq!(world.runs(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn r15_hold_never_runs_it_again_once_it_began() {
    let world = World::new(|builder| builder.on_unknown(OnUnknown::Hold));
    assert!(matches!(end_without_reply(&world, true).await, Err(RunError::Unknown)));
    tokio::time::sleep(LEASE * 100).await;
    assert!(matches!(world.answer("never").await, Err(RunError::Held { attempt: 1 })));
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn r15_store_500_ends_it() {
    let world = World::new(|builder| builder.on_unknown(OnUnknown::StoreServerError));
    for panics in [true, false] {
        let outcome = end_without_reply(&world, panics).await.unwrap();
        assert_eq!(outcome.reply.status(), 500);
    }
    assert_eq!(world.runs(), 1);
}

/// The reply that is stored then is the call's, or the engine's where there is no call.
#[tokio::test(start_paused = true)]
async fn r15_the_server_error_is_what_the_service_wants_stored() {
    let world = World::with(
        |builder| builder.on_unknown(OnUnknown::StoreServerError).resumable(),
        |builder, operation| {
            let broken = async |_| Err::<Reply, _>(Failure::unknown("broken"));
            builder.register(operation, broken).server_error(Reply::from("of the engine"))
        },
    );
    let own = World::call().with_server_error(Reply::from("of the call"));
    let outcome = world.engine.run_registered(&world.operation, own).await.unwrap();
    assert_eq!(body(&outcome), "of the call");
    assert_eq!(body(&world.answer("never").await.unwrap()), "of the call");

    let record = world.record().await.unwrap().record;
    world.store.inner().remove(&record.fence()).await.unwrap();
    world.store.fail(Verb::Complete, [Fault::Request(ErrorKind::WrongSchema)]);
    let lost = world.engine.run_registered(&world.operation, World::call()).await.unwrap();
    assert!(!lost.stored);
    tokio::time::sleep(LEASE).await;
    let resumed = world.engine.resume(&world.record().await.unwrap()).await.unwrap();
    assert_eq!((body(&resumed), resumed.attempt), ("of the engine", 2));
}

#[tokio::test(start_paused = true)]
async fn r26_a_claim_that_never_began_is_not_held() {
    let world = World::new(|builder| builder.on_unknown(OnUnknown::Hold));
    // "begun" cannot be written: the handler does not run, and the key is free.
    world.store.fail(Verb::Checkpoint, [Fault::Request(ErrorKind::WrongSchema); 9]);
    for _ in 0..9 {
        // However often: no attempt is used up.
        let error = world.answer("never").await.unwrap_err();
        assert_eq!((error.store_kind(), world.runs()), (Some(ErrorKind::WrongSchema), 0));
        assert!(world.record().await.is_none());
    }
    // Where it cannot be freed, its lease is given up.
    world.store.fail(Verb::Checkpoint, [Fault::Request(ErrorKind::WrongSchema)]);
    world.store.fail(Verb::Release, [Fault::Request(ErrorKind::NotApplied)]);
    assert!(world.answer("never").await.is_err());
    let outcome = world.answer("second").await.unwrap();
    assert_eq!((outcome.how, outcome.attempt), (How::Executed, 2));
}

/// "Begun" was written and its acknowledgement lost for good: the key is not freed.
#[tokio::test(start_paused = true)]
async fn r26_a_claim_that_may_have_begun_is_not_freed() {
    let world = World::new(|builder| builder.resumable());
    world.store.fail(Verb::Checkpoint, [Fault::Reply]);
    world.store.fail(Verb::Checkpoint, [Fault::Request(ErrorKind::WrongSchema)]);
    assert!(matches!(world.answer("never").await, Err(RunError::Store(_))));
    assert!(world.record().await.unwrap().record.recovery().is_some());
    let outcome = world.answer("second").await.unwrap();
    assert_eq!((outcome.how, outcome.attempt, world.runs()), (How::Executed, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn r27_past_the_window_nothing_is_called_and_the_record_is_held() {
    let window = Duration::from_secs(3600);
    let world = World::new(|builder| builder.downstream_window(window, Duration::from_secs(60)));
    let keys = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    let error = world
        .run(async move |execution: Execution| {
            let key = execution.downstream_key("charge").await?;
            seen.lock().unwrap().push(key);
            tokio::time::sleep(window - Duration::from_secs(60)).await;
            // The lease is held all the time; the downstream may have forgotten the key.
            let key = execution.downstream_key("charge").await?;
            seen.lock().unwrap().push(key);
            Ok("never".to_owned())
        })
        .await
        .unwrap_err();
    assert!(matches!(error, RunError::Held { attempt: 1 }), "{error}");
    assert_eq!(keys.lock().unwrap().len(), 1);
    // The age is judged inside the claim too.
    assert!(matches!(world.answer("never").await, Err(RunError::Held { attempt: 1 })));
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn r20_a_downstream_key_is_the_same_on_every_attempt_and_changes_with_the_generation() {
    let world = World::new(|builder| builder);
    let keys = Arc::new(Mutex::new(Vec::new()));
    for dies in [true, true, false] {
        let seen = Arc::clone(&keys);
        let result = world
            .run(async move |execution: Execution| {
                let first = execution.attempt() == 1;
                let key = execution.downstream_key("charge").await?.to_string();
                seen.lock().unwrap().push(key);
                if first {
                    // A definite failure at a downstream that remembers it.
                    execution.next_generation("charge").await?;
                }
                let key = execution.downstream_key("charge").await?.to_string();
                seen.lock().unwrap().push(key);
                if dies { Err(Failure::unknown("killed")) } else { Ok("done".to_owned()) }
            })
            .await;
        assert_eq!(result.is_err(), dies);
        tokio::time::sleep(LEASE).await;
    }
    let keys = keys.lock().unwrap();
    assert_ne!(keys[0], keys[1]);
    assert!(keys[2..].iter().all(|key| *key == keys[1]), "{keys:?}");
    assert_eq!(keys.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn r8_a_recovery_point_whose_acknowledgement_was_lost_is_written_once() {
    let world = World::new(|builder| builder.resumable());
    world.store.fail(Verb::Checkpoint, [Fault::Reply, Fault::Request(ErrorKind::NotApplied)]);
    world.store.fail(Verb::Checkpoint, [Fault::Reply]);
    let outcome = world
        .run(async |execution: Execution| {
            for name in ["one", "two"] {
                execution
                    .step(name, |key| async move { Ok::<_, std::io::Error>(key.to_string()) })
                    .await?;
            }
            Err::<Reply, _>(Failure::unknown("killed"))
        })
        .await;
    assert!(matches!(outcome, Err(RunError::Unknown)));
    let record = world.record().await.unwrap().record;
    assert_eq!(record.recovery().map(|recovery| recovery.number), Some(3));
}

/// R20: the record completes and expires, and the key is used for another request while the
/// downstream still remembers: it must not answer with the first one's result.
#[tokio::test(start_paused = true)]
async fn r20_a_key_that_is_reused_for_another_request_has_another_downstream_key() {
    use idem_core::fingerprint::Fingerprint;
    use idem_core::key::{Key, Scope};
    let retention = LEASE * 10;
    let world = World::new(|builder| {
        builder.retention(idem_core::record::Retention::of(retention)).max_run_time(LEASE)
    });
    let mut keys = Vec::new();
    for body in ["first", "first", "second"] {
        let (scope, key) = (Scope::new("a").unwrap(), Key::new("k").unwrap());
        let call = idem_core::engine::Call::new(scope, key, Fingerprint::of_bytes(body));
        let charge = async |execution: Execution| {
            Ok::<_, Failure>(execution.downstream_key("charge").await?.to_string())
        };
        let outcome = world.engine.run(&world.operation, call, charge).await.unwrap();
        assert_eq!((outcome.how, outcome.attempt), (How::Executed, 1));
        keys.push(outcome.reply);
        tokio::time::sleep(retention).await;
    }
    assert_eq!(keys[0], keys[1], "the same request collapses downstream");
    assert_ne!(keys[1], keys[2]);
}

/// R20: how keys are derived stands in the record: a secret that is rotated while work is under
/// way does not change its keys.
#[tokio::test(start_paused = true)]
async fn r20_a_rotated_secret_does_not_change_the_keys_of_work_under_way() {
    use idem_core::downstream::{DownstreamKeys, Namespace};
    use idem_core::engine::Engine;
    use idem_core::seal::SecretId;
    let id = |id| SecretId::new(id).unwrap();
    let keys = || DownstreamKeys::new(Namespace::new("test").unwrap());
    let old = keys().with_secret(id("old"), [1; 32]).unwrap();
    let rotated = keys()
        .with_secret(id("new"), [2; 32])
        .unwrap()
        .with_other_secret(id("old"), [1; 32])
        .unwrap();
    let renamed = DownstreamKeys::new(Namespace::new("another").unwrap())
        .with_secret(id("old"), [1; 32])
        .unwrap();
    let world = World::new(|builder| builder);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for (keys, dies) in [(old, true), (rotated, true), (renamed, false)] {
        let builder = Engine::builder(world.store.clone()).downstream_keys(keys);
        let (engine, seen) = (builder.build().unwrap(), Arc::clone(&seen));
        let result = engine
            .run(&world.operation, World::call(), async move |execution: Execution| {
                let key = execution.downstream_key("charge").await?;
                seen.lock().unwrap().push(key);
                if dies { Err(Failure::unknown("killed")) } else { Ok("done") }
            })
            .await;
        assert_eq!(result.is_err(), dies, "{result:?}");
        tokio::time::sleep(LEASE).await;
    }
    let seen = seen.lock().unwrap();
    assert!(seen.len() == 3 && seen.iter().all(|key| *key == seen[0]), "{seen:?}");
}
