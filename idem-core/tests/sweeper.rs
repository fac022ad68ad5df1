//! The sweeper: small batches, pauses, a cap on the rate, and no harm from two at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::engine::{Call, Engine, Failure};
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::fingerprint::Fingerprint;
use idem_core::housekeeping::{Chore, Pass, Stop, Sweeper};
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;
use idem_core::record::{Fence, Observed, Recovery, Retention};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};
use idem_core::time::ManualClock;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

/// What a sweep is answered before the records themselves are asked.
enum Script {
    Fail,
    Hang,
    NoneOfMany,
}

/// The memory store, noting when it is swept and how much went.
#[derive(Clone)]
struct Watched {
    inner: MemoryStore,
    batches: Arc<Mutex<Vec<(Instant, u32)>>>,
    script: Arc<Mutex<VecDeque<Script>>>,
}

impl Watched {
    /// A store with so many expired replies.
    async fn with_expired(records: u32) -> Self {
        let clock = Arc::new(ManualClock::new());
        let inner = MemoryStore::with_clock(Arc::clone(&clock));
        let engine = Engine::builder(inner.clone()).namespace("test").unwrap().build().unwrap();
        let operation = Operation::builder("op").retention(Retention::of(HOUR)).build().unwrap();
        for key in 0..records {
            let key = key.to_string();
            let print = Fingerprint::of_bytes(&key);
            let call = Call::new(Scope::new("a").unwrap(), Key::new(key).unwrap(), print);
            engine.run(&operation, call, async |_| Ok::<_, Failure>("done")).await.unwrap();
        }
        clock.advance(HOUR);
        Self { inner, batches: Arc::default(), script: Arc::default() }
    }

    fn sweeper(&self) -> Sweeper {
        Sweeper::new(Arc::new(self.clone()))
    }

    fn say(&self, script: Script) {
        self.script.lock().unwrap().push_back(script);
    }

    /// The spans from one batch to the next.
    fn gaps(&self) -> Vec<Duration> {
        let batches = self.batches.lock().unwrap();
        batches.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    fn sizes(&self) -> Vec<u32> {
        self.batches.lock().unwrap().iter().map(|(_, size)| *size).collect()
    }
}

#[async_trait]
impl Store for Watched {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.inner.claim(claim).await
    }
    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.inner.renew(fence, lease).await
    }
    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.inner.checkpoint(fence, recovery, lease).await
    }
    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        self.inner.complete(fence, reply).await
    }
    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.inner.release(fence).await
    }
    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        self.inner.get(scope, key).await
    }
    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.inner.lapsed(after, limit).await
    }
    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        let sent = Instant::now();
        let script = self.script.lock().unwrap().pop_front();
        let swept = match script {
            Some(Script::Fail) => Err(StoreError::new(ErrorKind::NotApplied, Verb::Sweep, "down")),
            Some(Script::Hang) => std::future::pending().await,
            Some(Script::NoneOfMany) => Ok(Swept { deleted: 0, more: true }),
            None => self.inner.sweep(limit).await,
        };
        let size = swept.as_ref().map_or(0, |swept| swept.deleted);
        self.batches.lock().unwrap().push((sent, size));
        swept
    }
}

#[tokio::test(start_paused = true)]
async fn batches_are_small_and_paused_between_each_a_little_differently() {
    let store = Watched::with_expired(100).await;
    let pause = Duration::from_millis(80);
    let sweeper = store.sweeper().batches(5, pause).max_rate(1_000_000);
    assert_eq!(sweeper.once().await.unwrap(), 100);
    assert_eq!(store.sizes(), [5; 20]);
    let mut gaps = store.gaps();
    // A sleep is rounded up to the next millisecond.
    let longest = pause * 3 / 2 + Duration::from_millis(2);
    assert!(gaps.iter().all(|gap| (pause..=longest).contains(gap)), "{gaps:?}");
    gaps.sort();
    gaps.dedup();
    assert!(gaps.len() > 5, "the pauses are all alike: {gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn the_rate_has_a_cap_whatever_the_pause() {
    let store = Watched::with_expired(50).await;
    let sweeper = store.sweeper().batches(10, Duration::ZERO).max_rate(20);
    assert_eq!(sweeper.once().await.unwrap(), 50);
    let gaps = store.gaps();
    assert_eq!(gaps.len(), 4);
    assert!(gaps.iter().all(|gap| *gap >= Duration::from_millis(500)), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn two_at_once_share_the_work_and_delete_nothing_twice() {
    let store = Watched::with_expired(100).await;
    let (one, other) = (store.sweeper(), store.sweeper());
    let (one, other) =
        (one.batches(7, Duration::from_millis(5)), other.batches(9, Duration::from_millis(5)));
    let (one, other) = tokio::join!(one.once(), other.once());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one + other, 100);
    assert!(one > 0 && other > 0, "{one} {other}");
}

#[tokio::test(start_paused = true)]
async fn what_another_sweeper_holds_is_left_to_it() {
    let store = Watched::with_expired(3).await;
    store.say(Script::NoneOfMany);
    assert_eq!(store.sweeper().once().await.unwrap(), 0);
    assert_eq!(store.sizes(), [0]);
    assert_eq!(store.sweeper().once().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_or_fails_is_tried_again_an_interval_later() {
    let store = Watched::with_expired(3).await;
    store.say(Script::Hang);
    store.say(Script::Fail);
    let error = store.sweeper().once().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    let sweeper = store.sweeper().interval(Duration::from_secs(60));
    let ended = tokio::time::timeout(Duration::from_secs(300), sweeper.run()).await;
    assert!(ended.is_err(), "it runs for ever");
    assert_eq!(store.sizes()[..2], [0, 3]);
    let gaps = store.gaps();
    assert!(gaps[0] >= Duration::from_secs(30), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= Duration::from_secs(61)), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn no_pause_is_too_long_to_be_counted() {
    let store = Watched::with_expired(10).await;
    let sweeper = store.sweeper().interval(Duration::MAX).batches(5, Duration::MAX);
    let pass = sweeper.pass(&Stop::new()).await.unwrap();
    assert_ne!(pass, Pass::of(5), "it goes on after the pause");
    assert_eq!(store.sizes(), [5]);
}
