//! What an outbox relay emits.

use std::fmt;
use std::time::Duration;

use tracing::Span;

use super::{
    DELIVERY, OUTBOX_DEAD, OUTBOX_DELIVERIES, OUTBOX_DELIVERY_DURATION, OUTBOX_OLDEST,
    OUTBOX_PENDING,
};
use crate::outbox::MessageId;

/// How an attempt to deliver a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// The sink took it.
    Sent,
    /// It is tried again later.
    Failed,
    /// It was given up, and waits for a person.
    DeadLetter,
}

impl Delivery {
    /// A stable name for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::DeadLetter => "dead_letter",
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The span round one attempt to deliver a message. [`delivered`] called inside it records how it
/// ended.
///
/// It holds the message's id and topic; never its ordering key, headers or payload (R24).
pub fn delivery_span(id: &MessageId, topic: &str, attempt: u32) -> Span {
    tracing::info_span!(
        "idem.outbox.delivery",
        otel.kind = "producer",
        idem.message_id = %id,
        idem.topic = topic,
        idem.attempt = attempt,
        idem.outcome = tracing::field::Empty,
    )
}

/// Counts an attempt to deliver that has ended, and records how on the current span.
pub fn delivered(delivery: Delivery, took: Duration) {
    Span::current().record("idem.outcome", delivery.name());
    metrics::counter!(OUTBOX_DELIVERIES, DELIVERY => delivery.name()).increment(1);
    metrics::histogram!(OUTBOX_DELIVERY_DURATION, DELIVERY => delivery.name()).record(took);
}

/// Sets the gauges of an outbox: how many messages wait, for how long the oldest of them has
/// (zero when none waits), and how many were given up.
pub fn outbox_backlog(pending: u64, oldest: Option<Duration>, dead: u64) {
    metrics::gauge!(OUTBOX_PENDING).set(super::as_f64(pending));
    metrics::gauge!(OUTBOX_OLDEST).set(oldest.unwrap_or_default());
    metrics::gauge!(OUTBOX_DEAD).set(super::as_f64(dead));
}
