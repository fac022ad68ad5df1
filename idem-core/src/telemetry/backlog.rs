//! How far an outbox is behind, counted apart from its relay.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::housekeeping::{Chore, ChoreError, Pass, Stop};
use crate::outbox::{Backlog, Outbox};
use crate::telemetry;

/// Keeps the gauges of an outbox up to date, also where no relay runs, or one that is busy or
/// stuck: an alert on messages that wait must not depend on the loop that should have sent them.
///
/// A relay sets the same gauges between its passes; both count the same.
pub struct BacklogMeter {
    outbox: Arc<dyn Outbox>,
    interval: Duration,
}

impl BacklogMeter {
    /// A meter that counts every 15 s.
    pub fn new(outbox: Arc<dyn Outbox>) -> Self {
        Self { outbox, interval: Duration::from_secs(15) }
    }

    /// How long to wait between counts.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Counts once.
    ///
    /// # Errors
    /// The outbox's.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn once(&self) -> Result<(), StoreError> {
        self.count().await.map(|_| ())
    }

    async fn count(&self) -> Result<Backlog, StoreError> {
        let backlog = self.outbox.backlog().await?;
        telemetry::outbox_backlog(backlog.waiting, backlog.oldest_waiting, backlog.dead);
        Ok(backlog)
    }
}

#[async_trait]
impl Chore for BacklogMeter {
    fn name(&self) -> &'static str {
        "backlog-meter"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn pass(&self, _: &Stop) -> Result<Pass, ChoreError> {
        let backlog = self.count().await?;
        Ok(Pass::default().counting("waiting", backlog.waiting).counting("dead", backlog.dead))
    }
}
