//! Bounded retries of the engine's own store calls, with full jitter.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

const BASE: Duration = Duration::from_millis(20);
const CAP: Duration = Duration::from_secs(1);

/// Sleeps `random(0, min(cap, base * 2^n))` between tries.
#[derive(Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// Waits before the next try; `false` when there would be none before `end`.
    pub(super) async fn wait_until(&mut self, end: Instant) -> bool {
        let ceiling = CAP.min(BASE.saturating_mul(1 << self.tries.min(16)));
        self.tries += 1;
        let wake = Instant::now() + random_up_to(ceiling);
        if wake >= end {
            return false;
        }
        sleep_until(wake).await;
        true
    }
}

/// A uniformly random duration from zero to `ceiling`, both included.
pub(super) fn random_up_to(ceiling: Duration) -> Duration {
    let span = u64::try_from(ceiling.as_micros()).unwrap_or(u64::MAX).saturating_add(1);
    // Without randomness the longest sleep is the careful one.
    getrandom::u64().map_or(ceiling, |random| Duration::from_micros(random % span))
}
