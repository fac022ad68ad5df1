//! How many records are stuck, counted by a listing that every store has.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;

use crate::error::StoreError;
use crate::housekeeping::{Chore, ChoreError, Pass, Stop, spread};
use crate::store::{MAX_PAGE, Store};
use crate::telemetry;

/// How many pages one count reads at most.
const MAX_PAGES: u32 = 10;

/// Keeps the gauges of lapsed records up to date, also where no reconciler runs: an alert on
/// stuck work must not depend on the loop that should have cleared it.
///
/// It reads the listing of lapsed records, oldest first, and no more than 10,000 of them: a gauge
/// at that number says *at least*. The age of the oldest is exact.
pub struct LapsedMeter {
    store: Arc<dyn Store>,
    interval: Duration,
}

impl LapsedMeter {
    /// A meter that counts every 15 s.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, interval: Duration::from_secs(15) }
    }

    /// How long to wait between counts.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Counts for ever. A count that fails is logged, and the gauges stay as they were.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn run(&self) {
        loop {
            if let Err(error) = self.once().await {
                tracing::warn!(error = %error, "lapsed records were not counted");
            }
            sleep(spread(self.interval)).await;
        }
    }

    /// Counts once.
    ///
    /// # Errors
    /// The store's.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn once(&self) -> Result<(), StoreError> {
        self.count().await.map(|_| ())
    }

    /// How many lapsed records began, and how many did not.
    async fn count(&self) -> Result<(u64, u64), StoreError> {
        let (mut begun, mut not_begun, mut oldest) = (0, 0, None);
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let page = self.store.lapsed(after.as_ref(), MAX_PAGE).await?;
            for lapsed in &page.records {
                if lapsed.record.recovery().is_none() {
                    not_begun += 1;
                    continue;
                }
                begun += 1;
                oldest = oldest.or(lapsed.lapsed_for());
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        telemetry::lapsed(begun, not_begun, oldest);
        Ok((begun, not_begun))
    }
}

#[async_trait]
impl Chore for LapsedMeter {
    fn name(&self) -> &'static str {
        "lapsed-meter"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn pass(&self, _: &Stop) -> Result<Pass, ChoreError> {
        let (begun, not_begun) = self.count().await?;
        Ok(Pass::default().counting("begun", begun).counting("not_begun", not_begun))
    }
}
