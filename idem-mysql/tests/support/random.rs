//! A small generator whose seed is printed, so that a failure can be run again.

pub(crate) struct Random(u64);

impl Random {
    /// Seeded from the environment variable `IDEM_TEST_SEED`, or from the time.
    pub(crate) fn new(test: &str) -> Self {
        let seed = match std::env::var("IDEM_TEST_SEED") {
            Ok(seed) => seed.parse().expect("IDEM_TEST_SEED is a number"),
            Err(_) => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(1, |since| since.as_nanos() as u64),
        };
        println!("{test}: IDEM_TEST_SEED={seed}");
        Self(seed)
    }

    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub(crate) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}
