//! How a relay is set up.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::outbox::Outbox;
use crate::relay::{Relay, Sink};
use crate::store::page_size;
use crate::time::{MAX_DURATION, bounded_lease};

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) interval: Duration,
    pub(super) batch: u32,
    pub(super) concurrency: usize,
    pub(super) lease: Duration,
    pub(super) delivery_limit: Duration,
    pub(super) max_attempts: u32,
    pub(super) first_wait: Duration,
    pub(super) longest_wait: Duration,
    pub(super) past_dead: bool,
    /// `None` keeps sent messages for ever.
    pub(super) sent_retention: Option<Duration>,
    pub(super) delete_batch: u32,
}

impl Relay {
    /// A relay with the defaults that each setting names.
    pub fn new(outbox: Arc<dyn Outbox>, sink: impl Sink) -> Self {
        let settings = Settings {
            interval: Duration::from_secs(1),
            batch: 100,
            concurrency: 16,
            lease: Duration::from_secs(30),
            delivery_limit: Duration::from_secs(20),
            max_attempts: 20,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(300),
            past_dead: false,
            sent_retention: Some(Duration::from_secs(24 * 60 * 60)),
            delete_batch: 500,
        };
        let (progress, next) = Default::default();
        Self { outbox, sink: Arc::new(sink), settings, progress, next }
    }

    /// How long to wait once nothing is due, 1 s unless set. A random part between a half and the
    /// whole is taken.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.settings.interval = interval.clamp(Duration::from_millis(1), MAX_DURATION);
        self
    }

    /// How many messages are held at most, 100 unless set; 1 to
    /// [`MAX_PAGE`](crate::store::MAX_PAGE).
    #[must_use]
    pub fn batch(mut self, messages: u32) -> Self {
        self.settings.batch = page_size(messages);
        self
    }

    /// How many deliveries run at once, 16 unless set; at least one. Those of one ordering key run
    /// one after another in any case.
    #[must_use]
    pub fn concurrency(mut self, deliveries: usize) -> Self {
        self.settings.concurrency = deliveries.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// How long a message is held, 30 s unless set. It is renewed while the relay works; when a
    /// relay is killed, its messages are free after this time.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = bounded_lease(lease);
        self
    }

    /// How long one delivery may take, 20 s unless set. One that takes longer counts as failed.
    #[must_use]
    pub fn delivery_limit(mut self, limit: Duration) -> Self {
        self.settings.delivery_limit = limit.min(MAX_DURATION);
        self
    }

    /// How often a delivery is tried before the message goes to the dead letters, 20 times unless
    /// set; at least once.
    ///
    /// With the default waits 20 attempts take half an hour on average: what waits for a receiver
    /// that is away for longer has to be put back by a person. A hundred take four hours.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts.max(1);
        self
    }

    /// How long a message waits after a failure: a random time up to `first`, doubled with each
    /// failure, and up to `longest` in the end; 1 s and 5 min unless set. Where the other side asks
    /// for a wait, it is granted, up to an hour, and the random time comes on top.
    #[must_use]
    pub fn waits(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.first_wait = first.min(MAX_DURATION);
        self.settings.longest_wait = longest.min(MAX_DURATION);
        self
    }

    /// Whether messages behind a dead one of their ordering key are delivered, out of order as far
    /// as that one is concerned. By default they wait until a person has put it back or discarded it.
    #[must_use]
    pub fn past_dead(mut self, past_dead: bool) -> Self {
        self.settings.past_dead = past_dead;
        self
    }

    /// How long sent messages are kept, a day unless set; `None` keeps them for ever. While one is
    /// kept, another message with its id is refused.
    #[must_use]
    pub fn sent_retention(mut self, retention: Option<Duration>) -> Self {
        self.settings.sent_retention = retention;
        self
    }
}
