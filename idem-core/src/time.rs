//! Time as a store counts it, and the clock that a test can step.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest lease, retention or age that a store is asked to count: 100 years of 365 days.
/// Anything longer is taken as this long, so that no sum overflows in any backend.
pub const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The shortest lease that a claim or a checkpoint sets. A shorter one, zero included, is taken
/// as this long: zero is a very short lease, never "no lease".
pub const MIN_LEASE: Duration = Duration::from_millis(1);

/// An instant on a store's clock, in whole microseconds since 1970-01-01T00:00:00Z.
///
/// Only a store makes one (R6): callers pass durations and get durations back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant so many microseconds after the epoch.
    pub const fn from_unix_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_unix_micros(self) -> i64 {
        self.0
    }

    /// This instant and `duration`, which is counted as [`micros`] counts it.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// This instant less `duration`, which is counted as [`micros`] counts it.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// How long after `earlier` this is; zero when it is not after it, as when a clock was set
    /// back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// `duration` in whole microseconds, rounded up, and no more than [`MAX_DURATION`].
pub fn micros(duration: Duration) -> i64 {
    let bounded = duration.min(MAX_DURATION);
    i64::try_from(bounded.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

/// `lease` within [`MIN_LEASE`] and [`MAX_DURATION`].
pub fn bounded_lease(lease: Duration) -> Duration {
    lease.clamp(MIN_LEASE, MAX_DURATION)
}

/// Where a store that has no server clock reads the time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The instant now. It may step back; it must not panic.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// A clock that follows the runtime's own time: a paused runtime, which moves its time on when
/// nothing else is left to do, moves this on with it. For tests of what waits and retries.
///
/// ```
/// use std::time::Duration;
/// use idem_core::time::{Clock, RuntimeClock};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let clock = RuntimeClock::new();
/// let before = clock.now();
/// tokio::time::sleep(Duration::from_millis(2)).await;
/// assert!(clock.now().since(before) >= Duration::from_millis(2));
/// # });
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RuntimeClock(tokio::time::Instant);

impl RuntimeClock {
    /// A clock that starts at 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Default for RuntimeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp(START).after(self.0.elapsed())
    }
}

/// 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600_000_000;

/// A clock that stands still until a test moves it.
///
/// ```
/// use std::time::Duration;
/// use idem_core::time::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(30));
/// assert_eq!(clock.now().since(before), Duration::from_secs(30));
/// ```
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        Self(AtomicI64::new(START))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::SeqCst);
    }

    /// Sets the clock back, as a wrong time server would.
    pub fn step_back(&self, by: Duration) {
        self.0.fetch_sub(micros(by), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up_and_saturate() {
        assert_eq!(micros(Duration::ZERO), 0);
        assert_eq!(micros(Duration::from_nanos(1)), 1);
        assert_eq!(micros(Duration::from_nanos(1_000)), 1);
        assert_eq!(micros(Duration::MAX), micros(MAX_DURATION));
        let far = Timestamp::from_unix_micros(i64::MAX - 1).after(Duration::MAX);
        assert_eq!(far.as_unix_micros(), i64::MAX);
    }

    #[test]
    fn a_clock_that_steps_back_gives_no_negative_age() {
        let clock = ManualClock::new();
        let start = clock.now();
        clock.step_back(Duration::from_secs(1));
        assert_eq!(clock.now().since(start), Duration::ZERO);
        assert_eq!(start.since(clock.now()), Duration::from_secs(1));
    }

    #[test]
    fn leases_are_bounded_at_both_ends() {
        assert_eq!(bounded_lease(Duration::ZERO), MIN_LEASE);
        assert_eq!(bounded_lease(Duration::MAX), MAX_DURATION);
        assert_eq!(bounded_lease(Duration::from_secs(3)), Duration::from_secs(3));
    }
}
