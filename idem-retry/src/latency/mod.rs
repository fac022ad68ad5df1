//! Timeouts of attempts, from what was measured.
//!
//! A timeout that somebody guessed is either so long that a hung connection eats the whole
//! deadline, or so short that the slowest calls of a healthy day are sent twice. Above the 99.9th
//! percentile of what a destination really took, fewer than one healthy call in a thousand is cut
//! off.
//!
//! A destination is measured apart for each promise of a method: safe, idempotent, neither. Reads
//! are quick and many where writes are slow and few, and a write that is cut off is the one of which
//! nobody knows whether it was done. It takes 4 KiB for each of the three that is used.

mod histogram;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use histogram::Histogram;

/// How an attempt's timeout follows from what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// What share of the attempts is waited for, of 100,000: 99,900 is the 99.9th percentile.
    pub per_100_000: u32,
    /// How much longer than that an attempt may take, in per cent: 200 is twice as long.
    pub headroom_percent: u32,
    /// The timeout is never shorter.
    pub shortest: Duration,
    /// The timeout is never longer.
    pub longest: Duration,
    /// The timeout until there are enough samples.
    pub fallback: Duration,
    /// How many samples are enough. Fewer than 1,000 have no 99.9th percentile.
    pub enough_samples: u32,
}

/// Twice the 99.9th percentile, between 100 ms and 30 s; 10 s until there are 1,000 samples.
impl Default for Measured {
    fn default() -> Self {
        Self {
            per_100_000: 99_900,
            headroom_percent: 200,
            shortest: Duration::from_millis(100),
            longest: Duration::from_secs(30),
            fallback: Duration::from_secs(10),
            enough_samples: 1_000,
        }
    }
}

/// After so many samples the older half of them is forgotten.
const HALF_WINDOW: u64 = 10_000;

/// How long the attempts to one destination took: the last ten to twenty thousand.
#[derive(Debug)]
pub struct Latency {
    windows: Mutex<Windows>,
}

#[derive(Debug)]
struct Windows {
    current: Histogram,
    previous: Histogram,
}

impl Latency {
    /// Without samples.
    pub fn new() -> Self {
        let windows = Windows { current: Histogram::new(), previous: Histogram::new() };
        Self { windows: Mutex::new(windows) }
    }

    /// An attempt took so long: to its final answer, or to its timeout.
    ///
    /// Timeouts count as well. Otherwise a destination that has become slower than its timeout
    /// would never be measured again; so the timeout grows with the headroom each time that more
    /// than the stated share of attempts is cut off, up to its bound. Failures that come quickly
    /// do not count: how fast a service refuses says nothing of how long its work takes.
    pub fn record(&self, took: Duration) {
        let mut windows = self.lock();
        if windows.current.total() >= HALF_WINDOW {
            let Windows { current, previous } = &mut *windows;
            std::mem::swap(current, previous);
            current.clear();
        }
        windows.current.record(took);
    }

    /// How many samples count at the moment.
    pub fn samples(&self) -> u64 {
        let windows = self.lock();
        windows.current.total() + windows.previous.total()
    }

    /// The duration within which so many of 100,000 attempts ended; at most a sixteenth too long.
    pub fn quantile(&self, per_100_000: u32) -> Option<Duration> {
        let windows = self.lock();
        windows.current.quantile(&windows.previous, per_100_000)
    }

    /// The timeout for the next attempt.
    pub fn timeout(&self, measured: &Measured) -> Duration {
        if self.samples() < u64::from(measured.enough_samples.max(1)) {
            return measured.fallback;
        }
        let quantile = self.quantile(measured.per_100_000).unwrap_or(measured.fallback);
        let with_headroom = quantile.saturating_mul(measured.headroom_percent) / 100;
        with_headroom.max(measured.shortest).min(measured.longest)
    }

    fn lock(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}
