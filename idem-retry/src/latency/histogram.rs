//! Counts of durations in buckets whose width grows with their value.

use std::time::Duration;

/// Sixteen buckets for each doubling: a quantile is at most a sixteenth too high.
const SPLIT_BITS: u32 = 4;
const SPLIT: u64 = 1 << SPLIT_BITS;

/// 2^36 microseconds are 19 hours; longer ones count as that.
const LONGEST: u64 = (1 << 36) - 1;
const BUCKETS: usize = ((36 - SPLIT_BITS as usize) + 1) * SPLIT as usize;

/// Counts of durations. It takes the same 2 KiB whatever is recorded.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Box<[u32]>,
    total: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into(), total: 0 }
    }

    pub(super) fn record(&mut self, duration: Duration) {
        let count = &mut self.counts[bucket(duration)];
        *count = count.saturating_add(1);
        self.total += 1;
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// The smallest upper end of a bucket that at least `per_100_000` of all the durations in
    /// both are within; `None` when there are no durations.
    pub(super) fn quantile(&self, other: &Self, per_100_000: u32) -> Option<Duration> {
        let total = self.total + other.total;
        let wanted = (total * u64::from(per_100_000)).div_ceil(100_000).max(1);
        let mut within = 0;
        let pairs = self.counts.iter().zip(&other.counts);
        for (index, (one, two)) in pairs.enumerate() {
            within += u64::from(*one) + u64::from(*two);
            if within >= wanted {
                return Some(upper_end(index));
            }
        }
        None
    }
}

fn bucket(duration: Duration) -> usize {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(LONGEST).min(LONGEST);
    let index = if micros < SPLIT {
        micros
    } else {
        // The leading bits of the value, below the highest, number the bucket in its doubling.
        let doubling = micros.ilog2() - SPLIT_BITS;
        (u64::from(doubling) << SPLIT_BITS) + (micros >> doubling)
    };
    usize::try_from(index).expect("it is below the number of buckets")
}

fn upper_end(index: usize) -> Duration {
    let index = index as u64;
    if index < SPLIT {
        return Duration::from_micros(index + 1);
    }
    let doubling = (index >> SPLIT_BITS) - 1;
    let leading = SPLIT + (index & (SPLIT - 1));
    Duration::from_micros((leading + 1) << doubling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_within_its_bucket_and_the_bucket_is_narrow() {
        let mut micros = 0_u64;
        let mut last = 0;
        while micros < LONGEST {
            let duration = Duration::from_micros(micros);
            let index = bucket(duration);
            assert!(index == last || index == last + 1 || micros > 4_096, "{micros}: {index}");
            assert!(duration < upper_end(index), "{micros}");
            let wide = upper_end(index).saturating_sub(duration);
            assert!(wide <= duration / 16 + Duration::from_micros(1), "{micros}: {wide:?}");
            last = index;
            micros += 1 + micros / 4_096;
        }
    }

    #[test]
    fn the_longest_duration_has_the_last_bucket() {
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
        assert_eq!(upper_end(BUCKETS - 1), Duration::from_micros(LONGEST + 1));
    }

    #[test]
    fn a_quantile_counts_both() {
        let (mut one, mut two) = (Histogram::new(), Histogram::new());
        assert_eq!(one.quantile(&two, 50_000), None);
        (0..999).for_each(|_| one.record(Duration::from_micros(10)));
        two.record(Duration::from_secs(1));
        assert_eq!(one.quantile(&two, 99_900), Some(Duration::from_micros(11)));
        let last = one.quantile(&two, 99_901).unwrap();
        assert!(last > Duration::from_secs(1) && last < Duration::from_millis(1_063), "{last:?}");
    }
}
