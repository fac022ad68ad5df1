//! Deletes what has expired, in small batches that do not block claims (R10, R11).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::engine::Engine;
use crate::error::{ErrorKind, StoreError, Verb};
use crate::housekeeping::chore::{Chore, ChoreError, Pass, Stop};
use crate::housekeeping::{random_up_to, spread};
use crate::store::{Store, Swept};
use crate::telemetry;
use crate::time::MAX_DURATION;

/// How long the store may take for one batch.
const BATCH_LIMIT: Duration = Duration::from_secs(30);

/// Sweeps a store. It is only housekeeping: expiry is judged when a record is read, whether a
/// sweeper runs or not, and any number of them may run anywhere.
///
/// What may go is for the store to say: replies that have expired, and lapsed claims that never
/// began and have outlived their retention. Other work in progress stays (R10).
pub struct Sweeper {
    source: Source,
    interval: Duration,
    batch: u32,
    pause: Duration,
    max_rate: u32,
}

enum Source {
    Store(Arc<dyn Store>),
    Engine(Engine),
}

impl Source {
    fn store(&self) -> &dyn Store {
        match self {
            Self::Store(store) => store,
            Self::Engine(engine) => engine.store(),
        }
    }
}

impl Sweeper {
    /// A sweeper: every minute, 500 records a batch, at least 100 ms between batches, and no more
    /// than 2,000 records a second.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::on(Source::Store(store))
    }

    /// A sweeper of the store that an engine runs on, as [`new`](Self::new).
    pub fn of(engine: &Engine) -> Self {
        Self::on(Source::Engine(engine.clone()))
    }

    fn on(source: Source) -> Self {
        Self {
            source,
            interval: Duration::from_secs(60),
            batch: 500,
            pause: Duration::from_millis(100),
            max_rate: 2_000,
        }
    }

    /// How long to wait, at most, once nothing more is expired; at random, and no less than half
    /// of it, so that sweepers which started together spread out.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How many records go in one batch, within what a store takes
    /// ([`MAX_PAGE`](crate::store::MAX_PAGE)), and how long to pause after it at least; up to half
    /// as long again is added at random.
    #[must_use]
    pub fn batches(mut self, records: u32, pause: Duration) -> Self {
        self.batch = records;
        self.pause = pause.min(MAX_DURATION);
        self
    }

    /// How many records a second may go, on average over a batch and the pause after it; at least
    /// one.
    #[must_use]
    pub fn max_rate(mut self, records: u32) -> Self {
        self.max_rate = records.max(1);
        self
    }

    /// Sweeps for ever. A sweep that fails is logged, and the next one tries again.
    ///
    /// # Cancel safety
    /// Some records may be gone.
    pub async fn run(&self) {
        // Processes of one deployment start together.
        sleep(random_up_to(self.interval / 10)).await;
        loop {
            match self.once().await {
                Ok(0) => {}
                Ok(deleted) => tracing::debug!(deleted, "swept"),
                Err(error) => tracing::warn!(error = %error, "sweeping failed"),
            }
            sleep(spread(self.interval)).await;
        }
    }

    /// Sweeps until nothing more is expired, or until another sweeper has what is left; says how
    /// many records went.
    ///
    /// # Errors
    /// The store's. A batch that is not answered within 30 s is of kind `OutcomeUnknown`.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn once(&self) -> Result<u64, StoreError> {
        let mut deleted = 0;
        loop {
            let started = Instant::now();
            let swept = self.sweep_batch(started).await?;
            deleted += u64::from(swept.deleted);
            // A store that has more, and gave none of it, has it under another sweeper's locks.
            if !swept.more || swept.deleted == 0 {
                return Ok(deleted);
            }
            sleep_until(self.rest(started, swept.deleted)).await;
        }
    }

    async fn sweep_batch(&self, started: Instant) -> Result<Swept, StoreError> {
        let sweeping = timeout(BATCH_LIMIT, self.source.store().sweep(self.batch));
        let batch = sweeping.await.unwrap_or_else(|_| {
            let detail = "the store did not answer in time";
            Err(StoreError::new(ErrorKind::OutcomeUnknown, Verb::Sweep, detail))
        });
        telemetry::swept(&batch, started.elapsed());
        batch
    }

    /// Until when claims have their turn: the pause, and as long as the rate asks for.
    fn rest(&self, started: Instant, deleted: u32) -> Instant {
        let pause = Instant::now() + self.pause + random_up_to(self.pause / 2);
        let earned = started + Duration::from_secs(1) * deleted / self.max_rate;
        pause.max(earned)
    }
}

/// A pass is one batch, so that a long sweep is seen to go on, and ends between two.
#[async_trait]
impl Chore for Sweeper {
    fn name(&self) -> &'static str {
        "sweeper"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn pass(&self, _: &Stop) -> Result<Pass, ChoreError> {
        let started = Instant::now();
        let swept = self.sweep_batch(started).await?;
        let pass = Pass::of(swept.deleted.into());
        if !swept.more || swept.deleted == 0 {
            return Ok(pass);
        }
        let rest = self.rest(started, swept.deleted).saturating_duration_since(Instant::now());
        Ok(pass.again_in(rest))
    }
}
