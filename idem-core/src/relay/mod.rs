//! The relay: takes messages out of an [outbox](crate::outbox) and hands them to a [`Sink`] (R21).
//!
//! Delivery is at least once and in order within each ordering key. Any number of relays may run,
//! in any number of processes: each message is leased to one of them at a time, and a relay that
//! is killed loses nothing, since its leases run out.
//!
//! A delivery that fails is tried again after a random wait that grows; after the last try, or
//! when the sink says that no try will ever succeed, the message goes to the dead letters, where
//! a person sees it. Until then, and by default after that too, the later messages of its own
//! ordering key wait behind it. All others flow.
//!
//! A message that ends its relay's whole process (it makes the sink use up all memory, say) tells
//! nobody that it failed. A message whose lease ran out five times is delivered with nothing else in
//! hand, so that it brings no other one down with it; when its lease ran out as often as there are
//! attempts, and ten times at least, it goes to the dead letters.

mod deliver;
mod hand;
mod progress;
mod round;
mod settings;
mod sink;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use crate::error::StoreError;
use crate::housekeeping::{Chore, ChoreError, Pass, Stop, spread};
use crate::outbox::Outbox;
use crate::telemetry;
use progress::Progress;
use round::Round;
use settings::Settings;
pub use sink::{Sink, SinkError};

/// Delivers the messages of an outbox.
///
/// ```
/// use std::sync::Arc;
/// use idem_core::async_trait;
/// use idem_core::outbox::{MemoryOutbox, OutboxMessage};
/// use idem_core::relay::{Relay, Sink, SinkError};
///
/// struct Print;
///
/// #[async_trait]
/// impl Sink for Print {
///     async fn deliver(&self, message: &OutboxMessage, _attempt: u32) -> Result<(), SinkError> {
///         println!("{} {}", message.id(), message.topic());
///         Ok(())
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = MemoryOutbox::new();
/// outbox.push(OutboxMessage::new("order.created", "{}")?)?;
///
/// let relay = Relay::new(Arc::new(outbox), Print);
/// assert_eq!(relay.once().await?.sent, 1);
/// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// As a [`Chore`] it runs in a [`Runtime`](crate::housekeeping::Runtime); by itself with
/// [`run`](Self::run).
pub struct Relay {
    outbox: Arc<dyn Outbox>,
    sink: Arc<dyn Sink>,
    settings: Settings,
    progress: Progress,
    next: Mutex<Next>,
}

/// When what is not done in every pass is done next.
#[derive(Default)]
struct Next {
    deletes_at: Option<Instant>,
    counts_at: Option<Instant>,
}

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Relayed {
    /// Delivered.
    pub sent: u64,
    /// Not delivered, and waiting for another try.
    pub failed: u64,
    /// Given up.
    pub dead: u64,
    /// Given back untried: they stood behind one that failed, or the relay was stopped.
    pub given_back: u64,
    /// Taken over by another relay, since this one's lease had run out: most were delivered
    /// twice.
    pub lost: u64,
    /// Sent messages that were deleted.
    pub deleted: u64,
}

/// How often what waits is counted for the gauges, and how often sent messages are deleted.
const COUNT_EVERY: Duration = Duration::from_secs(15);
const DELETE_EVERY: Duration = Duration::from_secs(60);
/// After so long a pass ends although there is always more, unless a delivery takes long: what it
/// did is counted then.
const LONGEST_PASS: Duration = Duration::from_secs(10);
/// How many batches of sent messages go in one pass.
const BATCHES_IN_A_PASS: u32 = 20;

impl Relay {
    /// Passes for ever, until `stop` is requested: then nothing new is taken up, deliveries that
    /// run are finished, and what was not begun is given back at once. A pass that fails is logged,
    /// and the next one tries again.
    ///
    /// # Cancel safety
    /// Dropped, it stops in the middle of deliveries. What it held comes free when the leases run
    /// out, and is delivered then, again where it had been.
    pub async fn run(&self, stop: &Stop) {
        loop {
            let mut pause = spread(self.settings.interval);
            match self.pass_until(stop, Some(LONGEST_PASS)).await {
                Ok((done, more)) => {
                    tracing::debug!(?done, "relayed");
                    pause = if more { Duration::ZERO } else { pause };
                }
                Err(error) => tracing::warn!(error = %error, "relaying failed"),
            }
            tokio::select! {
                biased;
                () = stop.requested() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// Delivers until nothing is due.
    ///
    /// # Errors
    /// The outbox's: when no messages can be leased while none are in hand, when for the length of
    /// a lease it cannot be noted what became of some, when what waits cannot be counted or sent
    /// messages not be deleted, and at once when another try would not help. Messages that were
    /// delivered before stay so.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn once(&self) -> Result<Relayed, StoreError> {
        Ok(self.pass_until(&Stop::new(), None).await?.0)
    }

    /// What was done, and whether more is due.
    async fn pass_until(
        &self,
        stop: &Stop,
        length: Option<Duration>,
    ) -> Result<(Relayed, bool), StoreError> {
        let round = Round::new(self, stop, length);
        let deleted = AtomicU64::new(0);
        let (mut done, more) = tokio::select! {
            done = round.run() => done?,
            never = self.keep_up(stop, &deleted) => match never {},
        };
        done.deleted = deleted.into_inner() + self.upkeep(stop).await?;
        Ok((done, more))
    }

    /// A round has no end while there is always something to deliver.
    async fn keep_up(&self, stop: &Stop, deleted: &AtomicU64) -> Infallible {
        loop {
            sleep(COUNT_EVERY).await;
            match self.upkeep(stop).await {
                Ok(more) => {
                    deleted.fetch_add(more, Ordering::Relaxed);
                }
                Err(error) => tracing::warn!(error = %error, "the outbox could not be kept up"),
            }
        }
    }

    /// Deletes and counts, where it is time to. Says how many sent messages were deleted.
    async fn upkeep(&self, stop: &Stop) -> Result<u64, StoreError> {
        let due = |at: &mut Option<Instant>, every| {
            let due = at.is_none_or(|at| at <= Instant::now());
            if due {
                *at = Some(Instant::now() + spread(every));
            }
            due
        };
        let (counts, deletes) = {
            let mut next = self.next();
            (due(&mut next.counts_at, COUNT_EVERY), due(&mut next.deletes_at, DELETE_EVERY))
        };
        let (deleted, more) = if deletes { self.delete_sent(stop).await? } else { (0, false) };
        if more {
            // A relay must delete faster than it sends.
            self.next().deletes_at = None;
        }
        if counts {
            let backlog = self.outbox.backlog().await?;
            telemetry::outbox_backlog(backlog.waiting, backlog.oldest_waiting, backlog.dead);
        }
        Ok(deleted)
    }

    /// How many it deleted, and whether more are old enough.
    async fn delete_sent(&self, stop: &Stop) -> Result<(u64, bool), StoreError> {
        let mut deleted = 0;
        let Some(retention) = self.settings.sent_retention else { return Ok((0, false)) };
        for _ in 0..BATCHES_IN_A_PASS {
            let swept = self.outbox.delete_sent(retention, self.settings.delete_batch).await?;
            deleted += u64::from(swept.deleted);
            // What is left and was not given is under another relay's locks.
            let more = swept.more && swept.deleted > 0;
            if !more || stop.is_requested() {
                return Ok((deleted, more));
            }
            sleep(spread(Duration::from_millis(50))).await;
        }
        Ok((deleted, true))
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Chore for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn interval(&self) -> Duration {
        self.settings.interval
    }

    async fn pass(&self, stop: &Stop) -> Result<Pass, ChoreError> {
        let (done, more) = self.pass_until(stop, Some(LONGEST_PASS)).await?;
        let work = done.sent + done.failed + done.dead;
        let pass = Pass::of(work).counting("failed", done.failed).counting("dead", done.dead);
        Ok(if more { pass.again_in(Duration::ZERO) } else { pass })
    }

    fn since_progress(&self) -> Option<Duration> {
        self.progress.since()
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("settings", &self.settings).finish_non_exhaustive()
    }
}
