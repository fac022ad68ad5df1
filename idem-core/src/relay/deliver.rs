//! Delivers the messages of one ordering key, one after another.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::housekeeping::{Stop, random_up_to};
use crate::outbox::{Leased, SettleAs, Settlement};
use crate::relay::hand::{LEAST_MAX_LAPSES, Shared};
use crate::relay::settings::Settings;
use crate::relay::sink::Retry;
use crate::relay::{Sink, SinkError};
use crate::telemetry::{self, Delivery};

/// The longest wait that the other side is granted.
const LONGEST_ASKED: Duration = Duration::from_secs(60 * 60);

/// What the deliveries of a pass share.
pub(super) struct Deliveries {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) settings: Settings,
    pub(super) permits: Semaphore,
    pub(super) stop: Stop,
}

impl Deliveries {
    /// Delivers a group's messages in their order and tells what became of each. Behind one that
    /// was not delivered, and once the lease is over or the relay is to stop, the rest is given
    /// back.
    pub(super) async fn group(self: Arc<Self>, group: Arc<Shared>, tell: mpsc::Sender<Settlement>) {
        let mut goes_on = true;
        let mut untold = Untold { deliveries: &self, current: None, group: &group, tell };
        while let Some(leased) = untold.begin() {
            let settlement = if goes_on { self.one(leased, &group).await } else { None };
            goes_on = match settlement.as_ref().map(|settlement| &settlement.outcome) {
                Some(SettleAs::Sent) => true,
                Some(SettleAs::Dead { .. }) => self.settings.past_dead,
                _ => false,
            };
            untold.tell(settlement);
        }
    }

    /// `None` when it was not tried.
    async fn one(&self, leased: &Leased, group: &Shared) -> Option<Settlement> {
        // What has not begun is not kept from others until what runs is over.
        let _permit = tokio::select! {
            biased;
            () = self.stop.requested() => return None,
            permit = self.permits.acquire() => permit.ok()?,
        };
        if !group.holds() {
            return None;
        }
        if leased.lapses >= self.settings.max_attempts.max(LEAST_MAX_LAPSES) {
            let reason = "its relay ended without a word each time it had this message";
            telemetry::delivered(Delivery::DeadLetter, Duration::ZERO);
            return Some(Settlement::dead(leased.lease, reason));
        }
        let attempt = leased.failures.saturating_add(1);
        let message = &leased.message;
        let span = telemetry::delivery_span(&message.id(), message.topic(), attempt);
        let delivery = async {
            let started = Instant::now();
            let settlement = match self.attempt(leased, attempt).await {
                Ok(()) => Settlement::sent(leased.lease),
                Err(error) => {
                    let failed = self.failed(leased, attempt, &error);
                    log(&error, &failed.outcome);
                    failed
                }
            };
            telemetry::delivered(delivery_of(&settlement.outcome), started.elapsed());
            settlement
        };
        Some(delivery.instrument(span).await)
    }

    async fn attempt(&self, leased: &Leased, attempt: u32) -> Result<(), SinkError> {
        let limit = self.settings.delivery_limit;
        // All inside, so that a sink that panics before its first await, or when it is dropped at
        // its limit, is caught too.
        let delivery = AssertUnwindSafe(async {
            let delivery = async { self.sink.deliver(&leased.message, attempt).await };
            timeout(limit, delivery).await
        });
        match delivery.catch_unwind().await {
            Ok(Ok(delivered)) => delivered,
            Ok(Err(_elapsed)) => Err(SinkError::retryable("the delivery took too long")),
            Err(_panic) => Err(SinkError::retryable("the sink panicked")),
        }
    }

    /// What becomes of a message after this failure.
    fn failed(&self, leased: &Leased, attempt: u32, error: &SinkError) -> Settlement {
        match error.retry() {
            Retry::After(asked) if attempt < self.settings.max_attempts => {
                let wait = self.wait(leased.failures, asked);
                Settlement::failed(leased.lease, wait, error.reason())
            }
            _ => Settlement::dead(leased.lease, error.reason()),
        }
    }

    /// What was asked, and on top of it a random time up to the bound that doubles with each
    /// failure: those that were told the same do not come back together.
    fn wait(&self, failures: u32, asked: Option<Duration>) -> Duration {
        let Settings { first_wait, longest_wait, .. } = self.settings;
        let bound = first_wait.saturating_mul(1 << failures.min(30)).min(longest_wait);
        random_up_to(bound) + asked.unwrap_or_default().min(LONGEST_ASKED)
    }
}

/// The messages of a group of which nothing was told yet. Whatever ends the group, something is
/// told of each: a message of which nobody hears would be renewed for ever.
struct Untold<'d> {
    deliveries: &'d Deliveries,
    /// The one that is being delivered.
    current: Option<Leased>,
    group: &'d Shared,
    tell: mpsc::Sender<Settlement>,
}

impl Untold<'_> {
    fn begin(&mut self) -> Option<&Leased> {
        self.current = self.group.next();
        self.current.as_ref()
    }

    /// Tells what became of the one that was begun: it is given back where it was not tried.
    fn tell(&mut self, settlement: Option<Settlement>) {
        if let Some(leased) = self.current.take() {
            let settlement = settlement.unwrap_or_else(|| Settlement::given_back(leased.lease));
            // The channel has room for every message that is held. It is closed when the relay
            // was dropped, and this task with it.
            let _ = self.tell.try_send(settlement);
        }
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        if let Some(leased) = &self.current {
            // It counts, or it would be taken up again at once, without an end. It is not logged:
            // the panic may be the log's, and a second one would end the process.
            let error = SinkError::retryable("the delivery panicked");
            let attempt = leased.failures.saturating_add(1);
            let failed = self.deliveries.failed(leased, attempt, &error);
            self.tell(Some(failed));
        }
        while self.begin().is_some() {
            self.tell(None);
        }
    }
}

fn log(error: &SinkError, outcome: &SettleAs) {
    match outcome {
        SettleAs::Failed { retry_after, .. } => {
            tracing::debug!(reason = error.reason(), wait = ?retry_after, "a delivery failed");
        }
        _ => tracing::warn!(reason = error.reason(), "a message goes to the dead letters"),
    }
}

fn delivery_of(outcome: &SettleAs) -> Delivery {
    match outcome {
        SettleAs::Sent => Delivery::Sent,
        SettleAs::Dead { .. } => Delivery::DeadLetter,
        SettleAs::Failed { .. } | SettleAs::GivenBack => Delivery::Failed,
    }
}
