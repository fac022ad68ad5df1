//! Where jitter comes from.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source of randomness for jitter. It need not resist guessing.
pub trait Random: fmt::Debug + Send + Sync + 'static {
    /// The next number, uniform over all of `u64`.
    fn next(&self) -> u64;
}

impl<R: Random + ?Sized> Random for Arc<R> {
    fn next(&self) -> u64 {
        (**self).next()
    }
}

/// SplitMix64: fast, without a lock, and good enough to spread callers in time. One seed gives
/// one sequence.
#[derive(Debug)]
pub struct SplitMix(AtomicU64);

impl SplitMix {
    /// The sequence of this seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A sequence of its own, seeded by the operating system.
    ///
    /// # Panics
    /// When the operating system gives no randomness: then every process would come back at the
    /// same instants.
    pub fn from_system() -> Self {
        Self::from_seed(getrandom::u64().expect("the operating system gives randomness"))
    }
}

impl Random for SplitMix {
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Always the same number, for tests: `Pinned(0)` never sleeps on its own account and
/// `Pinned(u64::MAX)` always sleeps for as long as it may.
#[derive(Debug, Clone, Copy)]
pub struct Pinned(pub u64);

impl Random for Pinned {
    fn next(&self) -> u64 {
        self.0
    }
}

/// Uniform over the whole nanoseconds from zero to `longest`, both included.
///
/// `longest` is counted up to about 584 years.
pub fn up_to(longest: Duration, random: &dyn Random) -> Duration {
    let nanoseconds = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
    // The upper half of the product is uniform over 0..=nanoseconds, to within 2^-64.
    let product = u128::from(random.next()) * (u128::from(nanoseconds) + 1);
    Duration::from_nanos(u64::try_from(product >> 64).unwrap_or(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_numbers_give_both_ends() {
        for longest in [0, 1, 50_000_000, u64::MAX].map(Duration::from_nanos) {
            assert_eq!(up_to(longest, &Pinned(0)), Duration::ZERO);
            assert_eq!(up_to(longest, &Pinned(u64::MAX)), longest);
        }
    }

    #[test]
    fn every_whole_nanosecond_comes_up() {
        let random = SplitMix::from_seed(1);
        let mut seen = [0_u32; 3];
        for _ in 0..3_000 {
            seen[up_to(Duration::from_nanos(2), &random).as_nanos() as usize] += 1;
        }
        assert!(seen.iter().all(|&times| (850..1_150).contains(&times)), "{seen:?}");
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        // The published first outputs of SplitMix64 for the seed 1234567.
        let random = SplitMix::from_seed(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([random.next(), random.next()], expected);
    }
}
