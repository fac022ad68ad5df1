//! How often, how long, and how far apart.

mod outlasting;

use std::time::Duration;

use crate::budget::Load;
use crate::latency::Measured;
use crate::random::{Random, up_to};

/// The most attempts that a policy may ask for. More belongs into a queue.
pub const MAX_ATTEMPTS: u32 = 100;

/// The longest base, cap, deadline and timeout: 7 days.
pub const MAX_SPAN: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How a call is retried. By default three attempts within 30 s, full jitter from 50 ms (1 s where
/// the destination says that there are too many) up to 20 s, and timeouts as measured.
///
/// # Which policy goes with which lease
/// A server of idem that dies at work leaves the record of its key leased: 30 s unless set. Until
/// then every attempt under that key is told 409 with a `Retry-After` of 1 s (`Layer`'s setting, and
/// never more than the lease), and only then one of them may go on with the work.
///
/// | the caller | policy |
/// |---|---|
/// | a person waits; unknown is shown as "still under way", or settled by a job later | the default: it is over in seconds, and a 409 to its last attempt leaves the outcome [unknown](crate::Outcome::Unknown), with [`is_in_flight`](crate::Unfinished::is_in_flight) |
/// | must know the outcome before it goes on | [`outlasting`](Self::outlasting), with the server's lease |
/// | must know it even if this process dies | a job or an outbox, under a stored [key](crate::IdempotencyKey) |
///
/// By hand: a deadline longer than the lease, and attempts enough that the deadline ends the call
/// and not they. With a hint of 1 s and little jitter that is one for each second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    base: Duration,
    throttled_base: Duration,
    cap: Duration,
    attempts: u32,
    deadline: Duration,
    attempt_timeout: AttemptTimeout,
}

/// How long one attempt may take. There is no infinite one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptTimeout {
    /// So long.
    Fixed(Duration),
    /// As the latency of the destination says.
    Measured(Measured),
}

impl Policy {
    /// The default settings, to be changed.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder { policy: Self::default() }
    }

    /// The most attempts, the first one included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long the whole call may take, sleeps included.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// How long one attempt may take.
    pub fn attempt_timeout(&self) -> AttemptTimeout {
        self.attempt_timeout
    }

    /// The longest sleep before retry number `retry`, counted from 0, where the server gave no
    /// hint: `min(cap, base * 2^retry)`.
    pub fn ceiling(&self, retry: u32, load: Load) -> Duration {
        let base = match load {
            Load::Normal => self.base,
            Load::Throttled => self.throttled_base,
        };
        // A base has at most 50 bits, and with 64 more the least one is over any cap.
        let doubled = base.as_nanos() << retry.min(64);
        u64::try_from(doubled)
            .map_or(self.cap, |doubled| Duration::from_nanos(doubled).min(self.cap))
    }

    /// How long to sleep before retry number `retry`, counted from 0:
    /// `hint + random(0, min(cap, base * 2^retry))`, where no hint is zero.
    ///
    /// The jitter goes on top of the hint: never earlier than told, and not all at the same
    /// instant when many were told the same.
    pub fn sleep(
        &self,
        retry: u32,
        load: Load,
        hint: Option<Duration>,
        random: &dyn Random,
    ) -> Duration {
        hint.unwrap_or_default().saturating_add(up_to(self.ceiling(retry, load), random))
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(50),
            throttled_base: Duration::from_secs(1),
            cap: Duration::from_secs(20),
            attempts: 3,
            deadline: Duration::from_secs(30),
            attempt_timeout: AttemptTimeout::Measured(Measured::default()),
        }
    }
}

/// Puts a [`Policy`] together.
#[derive(Debug, Clone)]
#[must_use]
pub struct PolicyBuilder {
    policy: Policy,
}

impl PolicyBuilder {
    /// The longest sleep before the first retry. 50 ms unless set.
    pub fn base(mut self, base: Duration) -> Self {
        self.policy.base = base;
        self
    }

    /// The same after an answer that says "too many" (429, or 503 with a hint). 1 s unless set.
    pub fn throttled_base(mut self, base: Duration) -> Self {
        self.policy.throttled_base = base;
        self
    }

    /// The longest sleep before any retry, hints apart. 20 s unless set.
    pub fn cap(mut self, cap: Duration) -> Self {
        self.policy.cap = cap;
        self
    }

    /// The most attempts, the first one included. 3 unless set.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.policy.attempts = attempts;
        self
    }

    /// How long the whole call may take, sleeps included. 30 s unless set.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.policy.deadline = deadline;
        self
    }

    /// How long one attempt may take; what is left of the deadline bounds it too. As measured
    /// unless set.
    pub fn attempt_timeout(mut self, timeout: AttemptTimeout) -> Self {
        self.policy.attempt_timeout = timeout;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`PolicyError`] says which one is out of range.
    pub fn build(self) -> Result<Policy, PolicyError> {
        let policy = self.policy;
        if !(1..=MAX_ATTEMPTS).contains(&policy.attempts) {
            return Err(PolicyError::Attempts);
        }
        if policy.deadline.is_zero() || policy.deadline > MAX_SPAN {
            return Err(PolicyError::Deadline);
        }
        if policy.base.max(policy.throttled_base).max(policy.cap) > MAX_SPAN {
            return Err(PolicyError::Backoff);
        }
        let (shortest, longest) = match policy.attempt_timeout {
            AttemptTimeout::Fixed(timeout) => (timeout, timeout),
            AttemptTimeout::Measured(measured) => {
                if !(1..=100_000).contains(&measured.per_100_000) {
                    return Err(PolicyError::Quantile);
                }
                if measured.shortest > measured.longest {
                    return Err(PolicyError::AttemptTimeout);
                }
                let fallback = measured.fallback;
                (measured.shortest.min(fallback), measured.longest.max(fallback))
            }
        };
        if shortest.is_zero() || longest > MAX_SPAN {
            return Err(PolicyError::AttemptTimeout);
        }
        Ok(policy)
    }
}

/// A setting of a policy that is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The number of attempts.
    #[error("a policy has 1 to {MAX_ATTEMPTS} attempts")]
    Attempts,
    /// The deadline.
    #[error("a deadline is above zero and at most 7 days")]
    Deadline,
    /// Base or cap.
    #[error("base and cap are at most 7 days")]
    Backoff,
    /// An attempt's timeout.
    #[error(
        "an attempt's timeout is above zero and at most 7 days, the shortest no longer than the longest"
    )]
    AttemptTimeout,
    /// The share of attempts that is waited for.
    #[error("the share of attempts that are waited for is 1 to 100,000 of 100,000")]
    Quantile,
}
