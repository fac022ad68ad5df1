//! Reproducible randomness: one seed gives one run.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Names the environment variable that sets the seed of [`Random::announced`].
pub const SEED_VARIABLE: &str = "IDEM_TEST_SEED";

/// SplitMix64: small, fast, and good enough to choose between the moves of a test.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers that follow from `seed`.
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Seeded from [`SEED_VARIABLE`], or afresh, and prints the seed with the test's name: a run
    /// that failed can be made again.
    ///
    /// # Panics
    /// When the variable holds no number.
    pub fn announced(test: &str) -> Self {
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(seed) => seed.parse().expect("the seed is a number"),
            Err(_) => fresh_seed(),
        };
        println!("{test}: {SEED_VARIABLE}={seed}");
        Self(seed)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    ///
    /// # Panics
    /// When `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Whether it happens, once in `one_in` times.
    ///
    /// # Panics
    /// When `one_in` is zero.
    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// One of them.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.index(from.len())]
    }

    /// A place in a list of this length, which is not zero.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        let bound = u64::try_from(length).expect("a usize fits");
        usize::try_from(self.below(bound)).expect("it is below a usize")
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next().to_le_bytes()[0])
    }
}

/// A seed from the operating system: a number that no other test has.
pub fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The seed of one case: the run's and the case's name, so that a case alone repeats itself.
pub(crate) fn case_seed(run: u64, case: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ run;
    for byte in case.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Random::from_seed(hash).next()
}
