//! The loops of a service: started, watched and stopped.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::engine::{Call, Engine, Failure, RunError};
use idem_core::fingerprint::Fingerprint;
use idem_core::housekeeping::{
    Chore, ChoreError, Health, Pass, Reconciler, Runtime, Stop, Sweeper,
};
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;
use idem_core::store::Store;
use idem_core::time::ManualClock;
use tokio::sync::Notify;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);

/// A chore that does what its script says, pass by pass, and then nothing.
struct Scripted {
    script: Mutex<Vec<Act>>,
    passes: Arc<AtomicU32>,
}

#[derive(Clone, Copy)]
enum Act {
    Work(u64),
    Fail,
    Panic,
    /// Until it is asked to stop.
    Long,
    /// Whatever it is asked.
    Deaf,
}

impl Scripted {
    fn new(script: &[Act]) -> (Self, Arc<AtomicU32>) {
        let passes = Arc::new(AtomicU32::new(0));
        let script = Mutex::new(script.iter().rev().copied().collect());
        (Self { script, passes: Arc::clone(&passes) }, passes)
    }
}

#[async_trait]
impl Chore for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn interval(&self) -> Duration {
        SECOND
    }

    async fn pass(&self, stop: &Stop) -> Result<Pass, ChoreError> {
        self.passes.fetch_add(1, Ordering::SeqCst);
        let act = self.script.lock().unwrap().pop();
        match act {
            None => Ok(Pass::of(0)),
            Some(Act::Work(count)) => Ok(Pass::of(count).counting("found", count)),
            Some(Act::Fail) => Err("no route to the moon".into()),
            Some(Act::Panic) => panic!("on purpose"),
            Some(Act::Long) => {
                stop.requested().await;
                Ok(Pass::of(1))
            }
            Some(Act::Deaf) => std::future::pending().await,
        }
    }
}

fn engine() -> Engine {
    Engine::builder(MemoryStore::new()).namespace("test").unwrap().build().unwrap()
}

async fn until(runtime: &Runtime, what: &str, is_so: impl Fn(&Health) -> bool) -> Health {
    for _ in 0..10_000 {
        let health = runtime.health();
        if is_so(&health) {
            return health;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it never was so: {what}; {:?}", runtime.health());
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_fails_or_panics_is_told_and_the_loop_goes_on() {
    let (chore, passes) = Scripted::new(&[Act::Work(3), Act::Fail, Act::Panic, Act::Work(4)]);
    let runtime = Runtime::builder(&engine()).chore(chore).start();
    let failed = until(&runtime, "a pass failed", |health| health.loops[0].passes == 2).await;
    let health = failed.of("scripted").unwrap();
    assert_eq!(health.last_error.as_deref(), Some("no route to the moon"));
    assert_eq!((health.failures_in_a_row, health.count("found")), (1, Some(3)));
    let failed = until(&runtime, "a pass panicked", |health| health.loops[0].passes == 3).await;
    assert_eq!(failed.loops[0].last_error.as_deref(), Some("it panicked"));
    assert_eq!(failed.loops[0].failures_in_a_row, 2);
    let well = until(&runtime, "it is well again", |health| health.loops[0].passes == 4).await;
    assert_eq!((&well.loops[0].last_error, well.loops[0].work), (&None, 7));
    assert!(well.is_good());
    assert!(runtime.stop(SECOND).await.is_clean());
    assert_eq!(passes.load(Ordering::SeqCst), 4);
}

/// On several threads: the last line of a loop and the end of its task are not one instant.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_that_everything_followed_is_clean() {
    for round in 0..500 {
        let mut runtime = Runtime::builder(&engine());
        for _ in 0..4 {
            runtime = runtime.chore(Scripted::new(&[]).0);
        }
        let stopped = runtime.start().stop(SECOND * 60).await;
        assert!(stopped.is_clean(), "round {round}: {stopped:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_without_a_pass_that_ends_well_is_late() {
    for act in [Act::Fail, Act::Deaf] {
        let (chore, _) = Scripted::new(&[act; 100]);
        let runtime = Runtime::builder(&engine()).chore(chore).start();
        sleep(SECOND * 30).await;
        assert!(runtime.health().is_good(), "it has its time");
        sleep(SECOND * 5).await;
        assert!(!runtime.health().is_good());
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_end_a_pass_may_finish_and_no_other_begins() {
    let (chore, passes) = Scripted::new(&[Act::Long]);
    let runtime = Runtime::builder(&engine()).chore(chore).start();
    until(&runtime, "a pass runs", |health| health.loops[0].running_for.is_some()).await;
    runtime.wind_down();
    assert!(runtime.health().stopping);
    assert!(runtime.stop(LEASE).await.is_clean());
    assert_eq!((runtime.health().loops[0].work, passes.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_hears_nothing_is_cut_off_and_named() {
    let (chore, _) = Scripted::new(&[Act::Deaf]);
    let runtime = Runtime::builder(&engine()).chore(chore).start();
    until(&runtime, "a pass runs", |health| health.loops[0].running_for.is_some()).await;
    let stopped = runtime.stop(SECOND).await;
    assert_eq!((stopped.executions, stopped.loops), (0, vec!["scripted"]));
}

/// An engine whose handler waits until it is told, and whose records can be stranded.
struct World {
    clock: Arc<ManualClock>,
    store: MemoryStore,
    engine: Engine,
    operation: Operation,
    /// Lets the handler of the key "slow" end.
    go: Arc<Notify>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::with_clock(Arc::clone(&clock));
        let operation = Operation::builder("mail").lease(LEASE).resumable().build().unwrap();
        let go = Arc::new(Notify::new());
        let told = Arc::clone(&go);
        let engine = Engine::builder(store.clone())
            .namespace("test")
            .unwrap()
            .max_in_flight(2)
            .register(&operation, move |execution| {
                let told = Arc::clone(&told);
                async move {
                    if execution.key().as_bytes() == b"slow" && execution.attempt() > 1 {
                        told.notified().await;
                    }
                    match execution.attempt() {
                        1 => Err(Failure::unknown("the connection broke")),
                        attempt => Ok(attempt.to_string()),
                    }
                }
            })
            .build()
            .unwrap();
        Self { clock, store, engine, operation, go }
    }

    async fn strand(&self, key: &str) {
        let call = Call::new(scope(), Key::new(key).unwrap(), Fingerprint::of_bytes(key))
            .with_input(Input::new(key.to_owned()));
        let error = self.engine.run_registered(&self.operation, call).await.unwrap_err();
        assert!(matches!(error, RunError::Unknown), "{error}");
        self.clock.advance(LEASE);
    }

    async fn is_completed(&self, key: &str) -> bool {
        let found = self.store.get(&scope(), &Key::new(key).unwrap()).await.unwrap().unwrap();
        matches!(found.record.state, idem_core::record::State::Completed { .. })
    }
}

fn scope() -> Scope {
    Scope::new("a").unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_slow_record_does_not_keep_others_from_being_resumed() {
    let world = World::new();
    world.strand("slow").await;
    let runtime = Runtime::start(&world.engine);
    // The pass that took it up is followed by one that tells of it. The one after that comes later
    // than its next heartbeat, which the step of the clock below makes due.
    let running = |health: &Health| {
        let reconciler = health.of("reconciler").unwrap();
        reconciler.count("running") == Some(1) && reconciler.passes >= 2
    };
    until(&runtime, "the slow one runs", running).await;
    world.strand("quick").await;
    let resumed = |health: &Health| health.of("reconciler").unwrap().work == 1;
    until(&runtime, "the quick one is resumed", resumed).await;
    assert!(world.is_completed("quick").await && !world.is_completed("slow").await);

    // SIGTERM: what was resumed finishes within the limit.
    let (stopped, ()) = tokio::join!(runtime.stop(LEASE), async {
        sleep(SECOND).await;
        world.go.notify_one();
    });
    assert!(stopped.is_clean(), "{stopped:?}");
    assert!(world.is_completed("slow").await);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_outlasts_the_limit_is_counted() {
    let world = World::new();
    world.strand("slow").await;
    let runtime = Runtime::start(&world.engine);
    let running = |health: &Health| health.of("reconciler").unwrap().count("running") == Some(1);
    until(&runtime, "the slow one runs", running).await;
    let stopped = runtime.stop(SECOND).await;
    assert_eq!((stopped.executions, stopped.loops.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_this_process_cannot_resume_is_reported_until_it_is_settled() {
    let world = World::new();
    world.strand("k").await;
    // A release that knows the operation no more.
    let engine = Engine::builder(world.store.clone()).namespace("test").unwrap().build().unwrap();
    let runtime = Runtime::builder(&engine)
        .chore(Reconciler::new(engine.clone()).interval(SECOND))
        .chore(Sweeper::of(&engine))
        .start();
    let told = |health: &Health| health.loops[0].count("not_resumable") == Some(1);
    until(&runtime, "it is reported", told).await;
    let passes = runtime.health().loops[0].passes;
    let again = |health: &Health| health.loops[0].passes > passes + 3 && told(health);
    until(&runtime, "it is reported again and again", again).await;
    assert_eq!(world.store.lapsed(None, 10).await.unwrap().records[0].record.attempt, 1);

    let key = Key::new("k").unwrap();
    let seen = world.store.get(&scope(), &key).await.unwrap().unwrap();
    idem_core::housekeeping::release(&world.store, &seen).await.unwrap();
    let clear = |health: &Health| health.loops[0].count("not_resumable") == Some(0);
    until(&runtime, "it is no longer reported", clear).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_engine_is_not_held_against_a_record() {
    let world = World::new();
    for key in ["slow", "k"] {
        world.strand(key).await;
    }
    // Two slots: one for the slow one, one for a call that waits for the same.
    let reconciler = Reconciler::new(world.engine.clone()).interval(SECOND);
    let operation = Operation::builder("other").build().unwrap();
    let (call, go) = (
        Call::new(scope(), Key::new("other").unwrap(), Fingerprint::of_bytes("o")),
        Arc::clone(&world.go),
    );
    let engine = world.engine.clone();
    let other = tokio::spawn(async move {
        let handler = move |_| async move {
            go.notified().await;
            Ok::<_, Failure>(String::new())
        };
        engine.run(&operation, call, handler).await
    });
    tokio::task::yield_now().await;
    let runtime = Runtime::builder(&world.engine).chore(reconciler).start();
    let waits = |health: &Health| health.loops[0].count("waiting").is_some_and(|count| count > 0);
    until(&runtime, "one finds no room", waits).await;
    world.go.notify_waiters();
    other.await.unwrap().unwrap();
    let resumed = |health: &Health| health.loops[0].work == 2;
    until(&runtime, "both are resumed", resumed).await;
}
