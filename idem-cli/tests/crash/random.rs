//! Random choices that can be repeated.

use std::time::Duration;

/// The seed of this run: `IDEM_SEED`, or a new one.
pub(crate) fn seed() -> u64 {
    match std::env::var("IDEM_SEED") {
        Ok(text) => text.parse().expect("IDEM_SEED is a number"),
        Err(_) => {
            let mut bytes = [0; 4];
            getrandom::fill(&mut bytes).unwrap();
            u32::from_be_bytes(bytes).into()
        }
    }
}

/// The generator of SplitMix64: small, and good enough to choose moments.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// A duration from `shortest` to `longest`.
    pub(crate) fn duration(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let span = u64::try_from((longest - shortest).as_micros()).unwrap();
        shortest + Duration::from_micros(self.next() % (span + 1))
    }
}
