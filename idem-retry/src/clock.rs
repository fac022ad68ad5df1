//! Where time comes from, and how it passes.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A future that ends when its time has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Reads the time and waits.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// How long ago the clock's origin was; it never goes back. Callers that share a
    /// [`Destination`](crate::Destination) read one clock, or clocks with one origin.
    fn now(&self) -> Duration;

    /// The time of day, for a `Retry-After` that names a date in an answer that has none.
    fn time_of_day(&self) -> SystemTime;

    /// Waits until [`now`](Self::now) has advanced by at least `duration`: never early.
    fn sleep(&self, duration: Duration) -> Sleep;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }

    fn time_of_day(&self) -> SystemTime {
        (**self).time_of_day()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        (**self).sleep(duration)
    }
}

/// tokio's clock. Its origin is well before the first look at it, and the same for all. It stands
/// still where a test has paused tokio's time.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioClock;

/// One for all, so that callers who share a destination agree on the time. A clock that was paused
/// a moment ago is behind the machine's, and must not be before the origin.
static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(|| {
    let now = std::time::Instant::now();
    now.checked_sub(Duration::from_secs(60 * 60)).unwrap_or(now)
});

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        let origin = *ORIGIN;
        Instant::now().into_std().saturating_duration_since(origin)
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}
