//! Calls that wait for the first one under their key take nothing away from those that run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use idem_core::engine::{Call, Failure, Outcome, RunError};
use idem_core::fingerprint::Fingerprint;
use idem_core::key::{Key, Scope};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::World;

const PATIENCE: Duration = Duration::from_secs(20);

/// A first call under each key that runs until it is let go.
struct Crowd {
    world: World,
    go: Arc<Notify>,
}

type Told = JoinHandle<Result<Outcome, RunError>>;

impl Crowd {
    fn new(in_flight: usize, waiting: usize) -> Self {
        let world = World::with(
            |builder| builder.wait(PATIENCE),
            |builder, _| builder.max_in_flight(in_flight).max_waiting(waiting),
        );
        Self { world, go: Arc::default() }
    }

    /// Calls under a key; whoever runs waits to be let go.
    async fn call(&self, key: &'static str) -> Told {
        let (world, go) = (self.world.clone(), Arc::clone(&self.go));
        let told = tokio::spawn(async move {
            let (scope, key) = (Scope::new("a").unwrap(), Key::new(key).unwrap());
            let call = Call::new(scope, key, Fingerprint::of_bytes("k"));
            let runs = Arc::clone(&world.runs);
            let handler = async move |_| {
                runs.fetch_add(1, Ordering::SeqCst);
                go.notified().await;
                Ok::<_, Failure>("first")
            };
            world.engine.run(&world.operation, call, handler).await
        });
        sleep(Duration::from_millis(50)).await;
        told
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_hold_no_execution_slot() {
    let crowd = Crowd::new(2, 100);
    let first = crowd.call("k").await;
    let mut waiters = Vec::new();
    for _ in 0..50 {
        waiters.push(crowd.call("k").await);
    }
    // A call of another key has the second slot, as if nobody waited.
    let other = crowd.call("other").await;
    assert_eq!(crowd.world.runs(), 2);
    crowd.go.notify_waiters();
    assert!(other.await.unwrap().unwrap().is_executed());
    assert!(first.await.unwrap().unwrap().is_executed());
    for waiter in waiters {
        let told = waiter.await.unwrap().unwrap();
        assert!(!told.is_executed());
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_that_waits_is_bounded() {
    let crowd = Crowd::new(10, 2);
    let first = crowd.call("k").await;
    let waiters = [crowd.call("k").await, crowd.call("k").await];
    let start = Instant::now();
    let told = crowd.call("k").await.await.unwrap();
    assert!(matches!(told, Err(RunError::InProgress { .. })), "{told:?}");
    assert!(start.elapsed() < Duration::from_secs(1));
    crowd.go.notify_waiters();
    assert!(first.await.unwrap().unwrap().is_executed());
    for waiter in waiters {
        assert!(!waiter.await.unwrap().unwrap().is_executed());
    }
}

/// All slots are taken by others when the first one ends: the waiter waits for one, within its
/// patience and no longer.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_gets_no_slot_again_is_told_so_in_time() {
    let crowd = Crowd::new(2, 2);
    let first = crowd.call("k").await;
    let start = Instant::now();
    let waiter = crowd.call("k").await;
    let _other = crowd.call("other").await;
    let told = waiter.await.unwrap();
    assert!(matches!(told, Err(RunError::InProgress { .. })), "{told:?}");
    let waited = start.elapsed();
    assert!((PATIENCE..PATIENCE + Duration::from_secs(1)).contains(&waited), "{waited:?}");
    crowd.go.notify_waiters();
    assert!(first.await.unwrap().unwrap().is_executed());
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_the_patience_of_waiters() {
    let crowd = Crowd::new(10, 10);
    let _first = crowd.call("k").await;
    let waiter = crowd.call("k").await;
    let start = Instant::now();
    assert_eq!(crowd.world.engine.drain(Duration::from_secs(2)).await, 1, "the first one runs");
    assert!(matches!(waiter.await.unwrap(), Err(RunError::InProgress { .. })));
    assert!(start.elapsed() <= Duration::from_secs(3));
}
