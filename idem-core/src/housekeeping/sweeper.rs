//! Deletes what has expired, in small batches that do not block claims (R10, R11).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::error::StoreError;
use crate::housekeeping::spread;
use crate::store::Store;

/// Sweeps a store. It is only housekeeping: expiry is judged when a record is read, whether a
/// sweeper runs or not, and any number of them may run anywhere.
pub struct Sweeper {
    store: Arc<dyn Store>,
    interval: Duration,
    batch: u32,
    pause: Duration,
}

impl Sweeper {
    /// A sweeper: every minute, 500 records a batch, 100 ms between batches, so no more than
    /// 5,000 records a second.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            interval: Duration::from_secs(60),
            batch: 500,
            pause: Duration::from_millis(100),
        }
    }

    /// How long to wait once nothing more is expired.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How many records go in one batch, and how long to pause after it: together a cap on the
    /// rate.
    #[must_use]
    pub fn batches(mut self, records: u32, pause: Duration) -> Self {
        self.batch = records;
        self.pause = pause;
        self
    }

    /// Sweeps for ever. A sweep that fails is logged, and the next one tries again.
    ///
    /// # Cancel safety
    /// Some records may be gone.
    pub async fn run(&self) {
        loop {
            match self.once().await {
                Ok(0) => {}
                Ok(deleted) => tracing::debug!(deleted, "swept"),
                Err(error) => tracing::warn!(error = %error, "sweeping failed"),
            }
            sleep(spread(self.interval)).await;
        }
    }

    /// Sweeps until nothing more is expired, and says how many records went.
    ///
    /// # Errors
    /// The store's.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn once(&self) -> Result<u64, StoreError> {
        let mut deleted = 0;
        loop {
            let swept = self.store.sweep(self.batch).await?;
            deleted += u64::from(swept.deleted);
            if !swept.more {
                return Ok(deleted);
            }
            sleep(spread(self.pause)).await;
        }
    }
}
