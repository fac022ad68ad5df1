//! The loops that run when nobody looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::engine::{Call, Engine, Failure, RunError};
use idem_core::fingerprint::Fingerprint;
use idem_core::housekeeping::{Reconciler, Sweeper};
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::{OnUnknown, Operation, OperationBuilder};
use idem_core::record::Retention;
use idem_core::store::Store;
use idem_core::time::ManualClock;

const LEASE: Duration = Duration::from_secs(10);

struct World {
    clock: Arc<ManualClock>,
    store: MemoryStore,
    engine: Engine,
    operation: Operation,
    /// How often the handler still ends without a reply.
    failures: Arc<AtomicU32>,
    runs: Arc<AtomicU32>,
}

impl World {
    fn new(settings: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::with_clock(Arc::clone(&clock));
        let builder = Operation::builder("mail").lease(LEASE).resumable();
        let operation = settings(builder).build().unwrap();
        let failures = Arc::new(AtomicU32::new(1));
        let runs = Arc::new(AtomicU32::new(0));
        let (left, count) = (Arc::clone(&failures), Arc::clone(&runs));
        let engine = Engine::builder(store.clone())
            .namespace("test")
            .unwrap()
            .register(&operation, move |execution| {
                count.fetch_add(1, Ordering::SeqCst);
                let fails = left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    .is_ok();
                async move {
                    if fails {
                        return Err(Failure::unknown("the connection broke"));
                    }
                    Ok(execution.input().map(|input| input.body().clone()).unwrap_or_default())
                }
            })
            .build()
            .unwrap();
        Self { clock, store, engine, operation, failures, runs }
    }

    fn call(&self, key: &str) -> Call {
        let scope = Scope::new("a").unwrap();
        Call::new(scope, Key::new(key).unwrap(), Fingerprint::of_bytes(key))
            .with_input(Input::new(key.to_owned()))
    }

    /// Starts work whose outcome stays unknown, and lets its lease run out.
    async fn strand(&self, key: &str) {
        let error = self.engine.run_registered(&self.operation, self.call(key)).await.unwrap_err();
        assert!(matches!(error, RunError::Unknown), "{error}");
        self.pass(LEASE).await;
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        tokio::time::sleep(time).await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_whose_client_is_gone_is_resumed_once_with_its_stored_input() {
    let world = World::new(|builder| builder);
    world.strand("k").await;
    let (one, other) =
        (Reconciler::new(world.engine.clone()), Reconciler::new(world.engine.clone()));
    let (one, other) = tokio::join!(one.once(), other.once());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.resumed + other.resumed, 1, "{one:?} {other:?}");
    assert_eq!(world.runs.load(Ordering::SeqCst), 2);
    let replay = world.engine.run_registered(&world.operation, world.call("k")).await.unwrap();
    assert!(!replay.is_executed());
    assert_eq!((replay.reply.body().unwrap().as_ref(), replay.attempt), (&b"k"[..], 2));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_fails_again_waits_and_is_held_at_the_cap_of_attempts() {
    let world = World::new(|builder| builder.attempts(3));
    world.failures.store(100, Ordering::SeqCst);
    world.strand("k").await;
    let reconciler = Reconciler::new(world.engine.clone()).longest_wait(LEASE * 2);
    assert_eq!(reconciler.once().await.unwrap().failed, 1);
    world.pass(LEASE).await;
    let mut passes = vec![reconciler.once().await.unwrap()];
    while passes.last().unwrap().held == 0 {
        assert!(passes.len() < 20, "{passes:?}");
        world.pass(LEASE).await;
        passes.push(reconciler.once().await.unwrap());
    }
    assert_eq!(world.runs.load(Ordering::SeqCst), 3, "{passes:?}");
    let error = world.engine.run_registered(&world.operation, world.call("k")).await.unwrap_err();
    assert!(matches!(error, RunError::Held { attempt: 3 }), "{error}");
}

/// While the lease of a try still runs the record is not listed; it is not forgotten for that.
#[tokio::test(start_paused = true)]
async fn the_wait_grows_though_passes_come_more_often_than_leases_end() {
    let world = World::new(|builder| builder.attempts(100));
    world.failures.store(100, Ordering::SeqCst);
    world.strand("k").await;
    let reconciler = Reconciler::new(world.engine.clone()).longest_wait(LEASE * 1_000);
    let mut seen = Vec::new();
    let start = tokio::time::Instant::now();
    while seen.len() < 12 {
        let done = reconciler.once().await.unwrap();
        seen.extend((done.failed == 1).then(|| start.elapsed()));
        assert!(start.elapsed() < LEASE * 10_000, "{seen:?}");
        world.pass(LEASE / 10).await;
    }
    let gaps: Vec<_> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // The waits are drawn from spans of 2 s, 4 s and so on; the shortest part of a span is half.
    assert!(gaps[gaps.len() - 1] >= LEASE * 100, "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_or_never_began_is_left_alone() {
    let held = World::new(|builder| builder.on_unknown(OnUnknown::Hold));
    held.strand("k").await;
    let done = Reconciler::new(held.engine.clone()).once().await.unwrap();
    assert_eq!((done.held, done.resumed), (1, 0));
    assert_eq!(held.runs.load(Ordering::SeqCst), 1);

    // A claim whose holder died before anything began.
    let world = World::new(|builder| builder);
    let (scope, key) = (Scope::new("a").unwrap(), Key::new("k").unwrap());
    let prints = Fingerprint::of_bytes("k").into();
    let claim = idem_core::claim::Claim::new(
        &scope,
        &key,
        idem_core::record::Owner::random(),
        world.operation.name(),
        &prints,
        LEASE,
        world.operation.retention(),
        idem_core::claim::Takeover::Never,
    );
    world.store.claim(&claim.marking_begun(true)).await.unwrap();
    world.pass(LEASE).await;
    let done = Reconciler::new(world.engine.clone()).once().await.unwrap();
    assert_eq!((done.not_begun, done.resumed), (1, 0));
    assert_eq!(world.runs.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_takes_what_has_expired_and_nothing_else() {
    let hour = Duration::from_secs(3600);
    let world = World::new(|builder| builder.retention(Retention::of(hour)));
    world.failures.store(0, Ordering::SeqCst);
    for key in 0..25 {
        let call = world.call(&key.to_string());
        world.engine.run_registered(&world.operation, call).await.unwrap();
    }
    world.failures.store(1, Ordering::SeqCst);
    world.strand("stuck").await;
    let sweeper = Sweeper::new(Arc::new(world.store.clone())).batches(10, Duration::from_millis(1));
    assert_eq!(sweeper.once().await.unwrap(), 0);
    world.pass(hour).await;
    assert_eq!(sweeper.once().await.unwrap(), 25);
    let left = world.store.lapsed(None, 10).await.unwrap();
    assert_eq!(left.records.len(), 1, "unresolved work stays visible");
}
