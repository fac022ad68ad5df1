//! Work whose client is gone, and work that goes on from a recovery point (R2, R15, R20, R26, R27).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::engine::{EngineBuilder, Execution, Failure, How, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::input::Input;
use idem_core::operation::{Begun, OnUnknown, Operation, OperationBuilder};
use idem_core::record::Observed;
use idem_core::reply::Reply;
use tokio::time::sleep;

use crate::faulty::Fault;
use crate::{LEASE, World, body};

/// A downstream that collapses calls by their key, and counts calls and effects apart.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<String>>>);

impl Ledger {
    fn charge(&self, key: impl ToString) -> String {
        let mut calls = self.0.lock().unwrap();
        calls.push(key.to_string());
        let first = calls.iter().position(|call| *call == key.to_string()).unwrap();
        format!("effect {first}")
    }

    fn calls(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn effects(&self) -> usize {
        let calls = self.0.lock().unwrap();
        calls.iter().collect::<std::collections::BTreeSet<_>>().len()
    }
}

/// A registered operation: one charge, whose process dies `deaths` times right after it.
fn charging(
    settings: impl FnOnce(OperationBuilder) -> OperationBuilder,
    deaths: u32,
) -> (World, Ledger) {
    let ledger = Ledger::default();
    let (seen, left) = (ledger.clone(), Arc::new(AtomicU32::new(deaths)));
    let register = move |builder: EngineBuilder, operation: &Operation| {
        builder.register(operation, move |execution: Execution| {
            let (ledger, left) = (seen.clone(), Arc::clone(&left));
            async move {
                let charge = async move |key: idem_core::downstream::DownstreamKey| {
                    let charged = ledger.charge(key);
                    let dies = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                        left.checked_sub(1)
                    });
                    match dies {
                        Ok(_) => Err(std::io::Error::other("killed after the call")),
                        Err(_) => Ok(charged),
                    }
                };
                let charged: String = execution.step("charge", charge).await?;
                let input = execution.input().map(Input::body).cloned().unwrap_or_default();
                Ok(format!("{charged} for {}", String::from_utf8_lossy(&input)))
            }
        })
    };
    (World::with(|builder| settings(builder.resumable()), register), ledger)
}

async fn stranded(world: &World) -> Observed {
    let result = world.engine.run_registered(&world.operation, World::call()).await;
    assert!(matches!(result, Err(RunError::Unknown)), "{result:?}");
    sleep(LEASE).await;
    world.record().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn r15_a_reconciler_resumes_with_the_stored_input_and_the_same_downstream_key() {
    let (world, ledger) = charging(|builder| builder, 1);
    let lapsed = stranded(&world).await;
    let outcome = world.engine.resume(&lapsed).await.unwrap();
    assert_eq!((outcome.how, outcome.attempt), (How::Executed, 2));
    assert_eq!(body(&outcome), "effect 0 for input");
    assert_eq!((ledger.calls(), ledger.effects()), (2, 1));
    assert_eq!(world.answer("x").await.unwrap().reply, outcome.reply);
}

#[tokio::test(start_paused = true)]
async fn r2_two_reconcilers_at_once_run_it_once() {
    let (world, ledger) = charging(|builder| builder, 1);
    let lapsed = stranded(&world).await;
    let mut reconcilers = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (engine, lapsed) = (world.engine.clone(), lapsed.clone());
        reconcilers.spawn(async move { engine.resume(&lapsed).await });
    }
    let results = reconcilers.join_all().await;
    let ran = results.iter().flatten().filter(|outcome| outcome.how == How::Executed).count();
    assert_eq!((ran, ledger.calls(), ledger.effects()), (1, 2, 1), "{results:?}");
    let still = world.engine.resume(&lapsed).await.unwrap();
    assert_eq!(still.how, How::Replayed, "whoever comes later reads the reply");
}

#[tokio::test(start_paused = true)]
async fn r2_a_reconciler_does_not_wait_for_another() {
    let (world, _) = charging(|builder| builder.wait(LEASE), 1);
    let lapsed = stranded(&world).await;
    let holder = world.clone();
    let holder = tokio::spawn(async move {
        holder
            .run(async |_| {
                sleep(LEASE / 2).await;
                Ok("held".to_owned())
            })
            .await
    });
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    let result = world.engine.resume(&lapsed).await;
    assert!(matches!(result, Err(RunError::InProgress { .. })), "{result:?}");
    assert_eq!(start.elapsed(), Duration::ZERO);
    holder.await.unwrap().unwrap();
}

/// R26: a claim that began nothing is nobody's work: a late copy of a claim must not start it.
#[tokio::test(start_paused = true)]
async fn r26_a_reconciler_never_starts_what_did_not_begin() {
    let (world, ledger) = charging(|builder| builder, 0);
    // As if the process had died right after its claim.
    world.store.fail(Verb::Checkpoint, [Fault::Request(ErrorKind::WrongSchema)]);
    world.store.fail(Verb::Release, [Fault::Request(ErrorKind::NotApplied)]);
    let result = world.engine.run_registered(&world.operation, World::call()).await;
    assert!(matches!(result, Err(RunError::Store(_))));
    sleep(LEASE).await;
    let lapsed = world.record().await.unwrap();
    assert!(lapsed.lapsed_for().is_some() && lapsed.record.recovery().is_none());
    let refused = world.engine.resume(&lapsed).await;
    assert!(matches!(refused, Err(RunError::NothingToResume)), "{refused:?}");
    assert_eq!((ledger.calls(), world.record().await.unwrap().record.attempt), (0, 1));
}

/// What was listed has changed since.
#[tokio::test(start_paused = true)]
async fn r2_a_reconciler_takes_only_what_it_listed() {
    let (world, ledger) = charging(|builder| builder, 9);
    let listed = stranded(&world).await;
    let next = world.engine.resume(&listed).await;
    assert!(matches!(next, Err(RunError::Unknown)), "attempt 2 was killed too: {next:?}");
    sleep(LEASE).await;
    let stale = world.engine.resume(&listed).await;
    assert!(matches!(stale, Err(RunError::NothingToResume)), "{stale:?}");
    assert_eq!((ledger.calls(), world.record().await.unwrap().record.attempt), (2, 2));

    let live = world.record().await.unwrap();
    let gone = world.store.inner().clone();
    idem_core::admin::Admin::remove(&gone, &live.record.fence()).await.unwrap();
    let refused = world.engine.resume(&live).await;
    assert!(matches!(refused, Err(RunError::NothingToResume)), "{refused:?}");
    assert!(world.record().await.is_none(), "it never inserts");
}

#[tokio::test(start_paused = true)]
async fn r15_what_policy_forbids_is_held_for_a_reconciler_too() {
    // The cap of attempts.
    let (world, _) = charging(|builder| builder.attempts(1), 9);
    let lapsed = stranded(&world).await;
    assert!(matches!(world.engine.resume(&lapsed).await, Err(RunError::Held { attempt: 1 })));
    // The choice to hold.
    let (world, _) = charging(|builder| builder.on_unknown(OnUnknown::Hold), 9);
    let lapsed = stranded(&world).await;
    assert!(matches!(world.engine.resume(&lapsed).await, Err(RunError::Held { attempt: 1 })));
    // R27: the window, as it was listed, and again inside the claim.
    let window = |builder: OperationBuilder| builder.downstream_window(LEASE * 4, LEASE);
    let (world, ledger) = charging(window, 9);
    let young = stranded(&world).await;
    sleep(LEASE * 2).await;
    let old = world.record().await.unwrap();
    for listed in [young, old] {
        let refused = world.engine.resume(&listed).await;
        assert!(matches!(refused, Err(RunError::Held { attempt: 1 })), "{refused:?}");
    }
    assert_eq!(ledger.calls(), 1);
    assert_eq!(world.record().await.unwrap().record.attempt, 1, "nobody was fenced out for it");
}

#[tokio::test(start_paused = true)]
async fn r15_without_a_handler_or_an_input_nothing_is_resumed() {
    let (world, _) = charging(|builder| builder, 9);
    let lapsed = stranded(&world).await;
    let stranger = World::new(|builder| builder);
    let refused = stranger.engine.resume(&lapsed).await;
    assert!(matches!(refused, Err(RunError::NotResumable { .. })), "{refused:?}");
    let mut without = lapsed.clone();
    without.record.input = None;
    let refused = world.engine.resume(&without).await;
    assert!(matches!(refused, Err(RunError::NotResumable { .. })), "{refused:?}");
    let mut damaged = lapsed;
    damaged.record.input = Some(idem_core::codec::Sealed::from_bytes("damaged"));
    assert!(matches!(world.engine.resume(&damaged).await, Err(RunError::Corrupt(_))));
}

/// The HTTP handler of such an operation checks the request, then runs what is registered.
#[tokio::test(start_paused = true)]
async fn a_handler_that_checks_first_and_then_runs_what_is_registered() {
    let (world, ledger) = charging(|builder| builder.begun(Begun::ByHandler), 0);
    let rejected = world
        .run(async |_| Err::<Reply, _>(Failure::reject(Reply::new(422).unwrap())))
        .await
        .unwrap();
    assert_eq!((rejected.how, ledger.calls()), (How::Rejected, 0));
    let outcome =
        world.run(async |execution: Execution| execution.registered().await).await.unwrap();
    assert_eq!((body(&outcome), ledger.calls()), ("effect 0 for input", 1));

    let unregistered = World::new(|builder| builder.resumable());
    let result = unregistered.run(async |execution: Execution| execution.registered().await).await;
    assert!(matches!(result, Err(RunError::Unknown)));
    let refused = unregistered.engine.run_registered(&unregistered.operation, World::call()).await;
    assert!(matches!(refused, Err(RunError::NotResumable { .. })));
}

/// A takeover sees the first request's input, not the second one's.
#[tokio::test(start_paused = true)]
async fn every_attempt_sees_the_input_of_the_first() {
    let (world, _) = charging(|builder| builder, 1);
    stranded(&world).await;
    let other = World::call().with_input(Input::new("another input"));
    let outcome = world.engine.run_registered(&world.operation, other).await.unwrap();
    assert_eq!((body(&outcome), outcome.attempt), ("effect 0 for input", 2));
}

/// R8, R20: a step that is on record is not called again; a step that is not is called again
/// under its key; a generation is on record before it is used.
#[tokio::test(start_paused = true)]
async fn r20_an_execution_goes_on_where_the_last_recovery_point_stands() {
    let world = World::new(|builder| builder.resumable());
    let ledger = Ledger::default();
    for killed_at in ["first", "generation", "second", "never"] {
        let ledger = ledger.clone();
        let result = world
            .run(async move |execution: Execution| {
                let call = async |step: &'static str| {
                    let ledger = ledger.clone();
                    execution
                        .step(step, |key| async move { Ok::<_, Failure>(ledger.charge(key)) })
                        .await
                };
                let dies = |at| {
                    if killed_at == at { Err(Failure::unknown("killed")) } else { Ok(()) }
                };
                let first = call("first").await?;
                dies("first")?;
                if execution.attempt() == 2 {
                    // Refused for good under generation 0, which the downstream remembers.
                    execution.next_generation("second").await?;
                }
                dies("generation")?;
                let second = call("second").await?;
                dies("second")?;
                Ok(format!("{first}, {second}"))
            })
            .await;
        assert_eq!(result.is_ok(), killed_at == "never", "{killed_at}: {result:?}");
        if let Ok(outcome) = result {
            assert_eq!((body(&outcome), outcome.attempt), ("effect 0, effect 1", 4));
        }
        sleep(LEASE).await;
    }
    assert_eq!((ledger.calls(), ledger.effects()), (2, 2), "{:?}", ledger.0);
}

/// R20: the step that died after the call and before its record is called again, under the key of
/// the generation that stands.
#[tokio::test(start_paused = true)]
async fn r20_a_generation_survives_a_crash_right_after_the_call() {
    let world = World::new(|builder| builder.resumable());
    let ledger = Ledger::default();
    for attempt in 1..=3 {
        let ledger = ledger.clone();
        let _ = world
            .run(async move |execution: Execution| {
                if attempt == 1 {
                    execution.next_generation("charge").await?;
                }
                execution
                    .step("charge", |key| async move {
                        ledger.charge(key);
                        if attempt < 3 { Err(Failure::unknown("killed")) } else { Ok(()) }
                    })
                    .await
            })
            .await;
        sleep(LEASE).await;
    }
    assert_eq!((ledger.calls(), ledger.effects()), (3, 1));
}

/// R27: the age is asked for right before the call. Here "begun" takes until the window is over.
#[tokio::test(start_paused = true)]
async fn r27_a_call_is_refused_when_marking_begun_took_too_long() {
    let window = |builder: OperationBuilder| {
        builder.resumable().begun(Begun::ByHandler).downstream_window(LEASE, LEASE / 2)
    };
    let world = World::new(window);
    world.store.fail(Verb::Checkpoint, [Fault::Late(LEASE / 2 - Duration::from_secs(1))]);
    let result = world
        .run(async |execution: Execution| {
            sleep(Duration::from_secs(2)).await;
            let key = execution.downstream_key("charge").await;
            assert!(key.as_ref().is_err_and(Failure::is_window_over), "{key:?}");
            key.map(|key| key.to_string())
        })
        .await;
    assert!(matches!(result, Err(RunError::Held { attempt: 1 })), "{result:?}");
}

/// R9: what cannot be decoded fails closed: nothing runs on it.
#[tokio::test(start_paused = true)]
async fn r9_a_record_that_cannot_be_read_runs_nothing() {
    let (world, ledger) = charging(|builder| builder, 9);
    stranded(&world).await;
    let sealed = idem_core::engine::Engine::builder(world.store.clone())
        .codec(idem_core::codec::Codec::sealed_by(Arc::new(Refuses)))
        .namespace("test")
        .unwrap()
        .build()
        .unwrap();
    let other = World::new(|builder| builder.resumable());
    let call = World::call();
    let result =
        sealed.run(&other.operation, call, async |_| Ok::<_, Failure>("never".to_owned())).await;
    assert!(matches!(result, Err(RunError::Invalid { .. } | RunError::Corrupt(_))), "{result:?}");
    assert_eq!(ledger.calls(), 1);
}

/// A sealer whose keys are all missing.
struct Refuses;

impl idem_core::seal::Sealer for Refuses {
    fn seal(
        &self,
        _associated: &[u8],
        plain: &[u8],
    ) -> Result<idem_core::seal::SealedBox, idem_core::seal::SealError> {
        let key_id = idem_core::seal::SecretId::new("k").unwrap();
        Ok(idem_core::seal::SealedBox { key_id, bytes: plain.to_vec() })
    }

    fn open(
        &self,
        key_id: &idem_core::seal::SecretId,
        _associated: &[u8],
        _sealed: &[u8],
    ) -> Result<Vec<u8>, idem_core::seal::SealError> {
        Err(idem_core::seal::SealError::UnknownKeyId { key_id: key_id.clone() })
    }
}
