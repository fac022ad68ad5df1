//! Where messages go.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::outbox::OutboxMessage;

/// Delivers messages to a broker, to another service, or to a function of yours.
///
/// ```
/// use idem_core::async_trait;
/// use idem_core::outbox::OutboxMessage;
/// use idem_core::relay::{Sink, SinkError};
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
/// ```
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Delivers one message, for the `attempt`th time, counted from 1. It returns once the other
    /// side has the message for good.
    ///
    /// The same message may be delivered again, also at the same time, when a relay was stopped
    /// or its lease ran out. What is passed on carries the message's id, so that the receiver can
    /// tell. A panic counts as a failure that is worth another try.
    ///
    /// The relay is the one that tries again: a sink makes one attempt, and whatever it calls makes
    /// one, or attempts multiply. For calls by `idem-retry`, run them inside its
    /// `one_layer::inside`.
    ///
    /// # Errors
    /// Whether another try is worth it, and when.
    ///
    /// # Cancel safety
    /// Dropped when the delivery takes longer than the relay's limit, or the relay is dropped. One
    /// that blocks its thread cannot be dropped, and keeps the messages of its ordering key.
    async fn deliver(&self, message: &OutboxMessage, attempt: u32) -> Result<(), SinkError>;
}

#[async_trait]
impl<S: Sink + ?Sized> Sink for Arc<S> {
    async fn deliver(&self, message: &OutboxMessage, attempt: u32) -> Result<(), SinkError> {
        (**self).deliver(message, attempt).await
    }
}

/// Why a message was not delivered.
///
/// The reason is kept with the message and shown to operators: it holds no payload, no password
/// and no token (R24).
#[derive(Debug)]
pub struct SinkError {
    retry: Retry,
    reason: Cow<'static, str>,
    source: Option<Box<dyn Error + Send + Sync + 'static>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    After(Option<Duration>),
    Never,
}

impl SinkError {
    /// Another try may succeed: the other side is away, busy, or slow.
    pub fn retryable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { retry: Retry::After(None), reason: reason.into(), source: None }
    }

    /// No try will ever succeed: the other side refuses this very message. It goes to the dead
    /// letters at once.
    pub fn poison(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { retry: Retry::Never, reason: reason.into(), source: None }
    }

    /// The other side asked to be left alone for this long.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        if self.retry != Retry::Never {
            self.retry = Retry::After(Some(wait));
        }
        self
    }

    /// Adds what lay behind it. It is logged by nobody and stored nowhere.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn Error + Send + Sync + 'static>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Whether no try will ever succeed.
    pub fn is_poison(&self) -> bool {
        self.retry == Retry::Never
    }

    /// How long the other side asked to be left alone.
    pub fn asked_wait(&self) -> Option<Duration> {
        match self.retry {
            Retry::After(wait) => wait,
            Retry::Never => None,
        }
    }

    /// For a person.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    pub(super) fn retry(&self) -> Retry {
        self.retry
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Error for SinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

const _: Option<&dyn Sink> = None; // The trait stays usable as `dyn Sink`.
