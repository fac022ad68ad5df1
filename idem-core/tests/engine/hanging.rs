//! A store that does not answer at all, in any verb: everything goes on within a bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::engine::{Engine, Execution, Failure, How, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::StoreDown;
use idem_core::reply::Reply;
use idem_core::seal::{SealError, SealedBox, Sealer, SecretId};
use tokio::time::{Instant, sleep};

use crate::faulty::Fault;
use crate::{LEASE, World, body};

const SILENCE: [Fault; 1] = [Fault::Silence];

#[tokio::test(start_paused = true)]
async fn a_recovery_point_that_is_not_answered_is_sent_again() {
    let world = World::new(|builder| builder.resumable());
    world.store.fail(Verb::Checkpoint, SILENCE);
    let outcome = world.answer("done").await.unwrap();
    assert_eq!((body(&outcome), world.store.calls(Verb::Checkpoint)), ("done", 2));
}

/// R26: what never began, since "begun" could not be written, is told as the store's failure, and
/// its lease is given up.
#[tokio::test(start_paused = true)]
async fn a_store_that_never_writes_begun_runs_nothing_and_frees_the_lease() {
    let world = World::new(|builder| builder.resumable().max_run_time(LEASE));
    world.store.fail(Verb::Checkpoint, [Fault::Silence; 1_000]);
    let start = Instant::now();
    let error = world.answer("never").await.unwrap_err();
    assert_eq!((error.store_kind(), world.runs()), (Some(ErrorKind::OutcomeUnknown), 0));
    assert!(start.elapsed() <= LEASE * 3, "{:?}", start.elapsed());
    world.store.heal();
    assert_eq!(body(&world.answer("second").await.unwrap()), "second");
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_is_not_answered_is_sent_again_and_the_caller_is_told_meanwhile() {
    let world = World::new(|builder| builder);
    world.store.fail(Verb::Complete, SILENCE);
    let outcome = world.answer("once").await.unwrap();
    assert_eq!((outcome.stored, body(&outcome)), (false, "once"));
    sleep(LEASE).await;
    let replay = world.answer("twice").await.unwrap();
    assert_eq!((replay.how, body(&replay)), (How::Replayed, "once"));
}

#[tokio::test(start_paused = true)]
async fn a_release_or_a_giving_up_that_is_not_answered_delays_for_a_bound() {
    for verb in [Verb::Release, Verb::Renew] {
        let world = World::new(|builder| builder);
        world.store.fail(verb, [Fault::Silence; 1_000]);
        let start = Instant::now();
        let outcome = world
            .run(async |_| Err::<Reply, _>(Failure::reject(Reply::new(422).unwrap())))
            .await
            .unwrap();
        assert_eq!(outcome.how, How::Rejected);
        assert!(start.elapsed() <= world.operation.reply_delay_limit());
    }
}

/// The winner cannot be read: the loser does not report its own result.
#[tokio::test(start_paused = true)]
async fn a_loser_that_cannot_read_the_winner_says_that_its_lease_was_lost() {
    for fault in [Fault::Silence, Fault::Request(ErrorKind::NotApplied)] {
        let world = World::new(|builder| builder);
        world.store.fail(Verb::Complete, [Fault::Request(ErrorKind::FenceLost)]);
        world.store.fail(Verb::Get, [fault]);
        let error = world.answer("lost").await.unwrap_err();
        assert!(matches!(error, RunError::LeaseLost), "{error}");
    }
}

/// A panic in the store loses neither the execution slot nor the caller.
#[tokio::test(start_paused = true)]
async fn a_store_that_panics_is_told_as_unknown_and_the_slot_comes_back() {
    for verb in [Verb::Claim, Verb::Checkpoint, Verb::Complete, Verb::Renew] {
        let world = World::with(
            |builder| builder.resumable(),
            |builder, _| builder.max_in_flight(1).admission_limit(Duration::ZERO),
        );
        world.store.fail(verb, [Fault::Panic]);
        let result = world
            .run(async |_| {
                sleep(LEASE / 2).await; // A heartbeat beats.
                Ok("done".to_owned())
            })
            .await;
        // A heartbeat that panics only ends the heartbeats.
        assert_eq!(result.is_ok(), verb == Verb::Renew, "{verb}: {result:?}");
        sleep(LEASE * 2).await;
        assert!(world.answer("second").await.is_ok(), "{verb}");
        assert_eq!(world.engine.drain(Duration::ZERO).await, 0, "{verb}");
    }
}

/// R18: a store that is full answers, and says no: nothing runs unprotected for that.
#[tokio::test(start_paused = true)]
async fn r18_a_full_store_is_not_a_store_that_is_down() {
    let open = StoreDown::RunWithoutProtection;
    for kind in [ErrorKind::StoreFull, ErrorKind::CorruptRecord, ErrorKind::WrongSchema] {
        let world = World::new(|builder| builder.store_down(open));
        world.store.fail(Verb::Claim, [Fault::Request(kind); 1_000]);
        let error = world.answer("never").await.unwrap_err();
        assert_eq!((error.store_kind(), world.runs()), (Some(kind), 0));
    }
}

/// R17: the store cannot take the reply: it is delivered, and a tombstone stands for it.
#[tokio::test(start_paused = true)]
async fn r17_a_reply_that_the_store_finds_too_large_leaves_a_tombstone() {
    let world = World::new(|builder| builder);
    world.store.fail(Verb::Complete, [Fault::Request(ErrorKind::InvalidInput)]);
    let outcome = world.answer("large").await.unwrap();
    assert_eq!((body(&outcome), outcome.stored), ("large", true));
    assert!(matches!(world.answer("x").await, Err(RunError::ReplyNotKept { status: 200 })));
}

/// R17: over a limit of the stored format, too.
#[tokio::test(start_paused = true)]
async fn r17_a_reply_over_a_limit_of_the_format_leaves_a_tombstone() {
    let world = World::new(|builder| builder);
    let outcome = world
        .run(async |_| {
            let fields = (0..2_000).map(|field| (format!("x-{field}").into(), "v".into()));
            Ok(Reply::from("body").with_headers(fields))
        })
        .await
        .unwrap();
    assert_eq!((outcome.reply.headers().len(), outcome.stored), (2_000, true));
    assert!(matches!(world.answer("x").await, Err(RunError::ReplyNotKept { status: 200 })));
}

/// A sealer that cannot reach its keys for a while.
struct Flaky(AtomicU32);

impl Sealer for Flaky {
    fn seal(&self, _associated: &[u8], plain: &[u8]) -> Result<SealedBox, SealError> {
        // The first call seals the input; the reply comes next.
        if matches!(self.0.fetch_add(1, Ordering::SeqCst), 1..=3) {
            return Err(SealError::other("no keys just now"));
        }
        Ok(SealedBox { key_id: SecretId::new("k").unwrap(), bytes: plain.to_vec() })
    }

    fn open(&self, _: &SecretId, _: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        Ok(sealed.to_vec())
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_sealed_once_its_keys_are_there() {
    let world = World::with(
        |builder| builder,
        |builder, _| builder.sealed_by(Arc::new(Flaky(AtomicU32::new(0)))),
    );
    let outcome = world.answer("sealed").await.unwrap();
    assert!(outcome.stored);
    assert_eq!(body(&world.answer("x").await.unwrap()), "sealed");
}

/// The release was applied and its answer lost, and the key is claimed anew meanwhile: what the
/// rejected request is told is still its rejection.
#[tokio::test(start_paused = true)]
async fn r14_a_rejection_is_told_although_its_key_is_in_use_again() {
    let world = World::new(|builder| builder);
    world.store.fail(Verb::Release, [Fault::Reply]);
    let rejected = world.clone();
    let rejected = tokio::spawn(async move {
        rejected.run(async |_| Err::<Reply, _>(Failure::reject(Reply::new(422).unwrap()))).await
    });
    while world.store.calls(Verb::Release) == 0 {
        tokio::task::yield_now().await;
    }
    let corrected = world.answer("corrected").await.unwrap();
    let outcome = rejected.await.unwrap().unwrap();
    assert_eq!((outcome.how, outcome.reply.status()), (How::Rejected, 422));
    assert_eq!((body(&corrected), world.is_completed().await), ("corrected", true));
}

/// R7: a lease that ran out by the local count is asked for before anything is done under it.
#[tokio::test(start_paused = true)]
async fn r7_a_holder_that_was_paused_asks_for_its_lease_before_it_acts() {
    let world = World::new(|builder| builder);
    // Heartbeats fail until the lease is over.
    world.store.fail(Verb::Renew, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    let store = world.store.clone();
    let outcome = world
        .run(async move |execution: Execution| {
            sleep(LEASE + Duration::from_millis(1)).await;
            store.heal();
            let asked = store.calls(Verb::Renew);
            let key = execution.downstream_key("charge").await?.to_string();
            assert_eq!(store.calls(Verb::Renew), asked + 1);
            Ok(key)
        })
        .await
        .unwrap();
    assert!(outcome.stored);

    // Meanwhile taken over: it may not act.
    let world = World::new(|builder| builder);
    world.store.fail(Verb::Renew, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    let old = world.clone();
    let old = tokio::spawn(async move {
        let store = old.store.clone();
        old.run(async move |execution: Execution| {
            sleep(LEASE * 2).await;
            store.heal();
            let refused = execution.downstream_key("charge").await.unwrap_err();
            assert!(refused.is_lease_lost(), "{refused}");
            Err::<Reply, _>(refused)
        })
        .await
    });
    sleep(LEASE + Duration::from_secs(1)).await;
    assert_eq!(body(&world.answer("new").await.unwrap()), "new");
    assert_eq!(body(&old.await.unwrap().unwrap()), "new");
}

/// R9, R14: who was overtaken before it rejected is answered as the one that took over was,
/// however the release of its key ends.
#[tokio::test(start_paused = true)]
async fn a_rejection_after_the_lease_is_over_asks_for_the_winners_reply() {
    let refused = Fault::Request(ErrorKind::WrongSchema);
    for fault in [Fault::Silence, refused] {
        let world = World::new(|builder| builder);
        world.store.fail(Verb::Renew, [Fault::Request(ErrorKind::NotApplied); 1_000]);
        world.store.fail(Verb::Release, [fault; 1_000]);
        let other = world.clone();
        let told = world.run(async move |_| {
            sleep(LEASE).await;
            assert_eq!(body(&other.answer("winner").await?), "winner");
            Err::<Reply, _>(Failure::reject(Reply::new(422).unwrap()))
        });
        let told = told.await.unwrap();
        assert_eq!((body(&told), told.attempt), ("winner", 2), "{fault:?}");
        assert!(!told.is_executed());
    }
}

/// Where the other execution still runs nobody knows what its answer will be, and a rejection
/// would deny it.
#[tokio::test(start_paused = true)]
async fn a_rejection_is_not_told_while_the_one_that_took_over_runs() {
    let world = World::new(|builder| builder);
    world.store.fail(Verb::Renew, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    world.store.fail(Verb::Release, [Fault::Silence; 1_000]);
    let other = world.clone();
    let told = world.run(async move |_| {
        sleep(LEASE).await;
        tokio::spawn(async move {
            let handler = async |_| {
                sleep(LEASE * 2).await;
                Ok("later".to_owned())
            };
            other.run(handler).await
        });
        sleep(Duration::from_millis(1)).await;
        Err::<Reply, _>(Failure::reject(Reply::new(422).unwrap()))
    });
    assert!(matches!(told.await, Err(RunError::LeaseLost)));
}

/// A call that says nothing of its request, to an operation that compares them, is refused.
#[tokio::test(start_paused = true)]
async fn a_call_and_its_operation_agree_on_comparing() {
    let world = World::new(|builder| builder.without_comparison());
    assert!(matches!(world.answer("never").await, Err(RunError::Invalid { .. })));
    let engine: &Engine = &world.engine;
    let comparing = World::new(|builder| builder);
    let (scope, key) =
        (idem_core::key::Scope::new("a").unwrap(), idem_core::key::Key::new("k").unwrap());
    let call = idem_core::engine::Call::new(
        scope,
        key,
        idem_core::fingerprint::Fingerprints::not_compared(),
    );
    let refused = engine.run(&comparing.operation, call, async |_| Ok::<_, Failure>(())).await;
    assert!(matches!(refused, Err(RunError::Invalid { .. })));
    assert!(world.record().await.is_none());
}
