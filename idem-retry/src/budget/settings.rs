//! What a budget is made of.

use std::time::Duration;

use super::bucket::Limits;
use super::{Budget, Load};

/// When tokens come in, besides the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deposits {
    /// So many with each logical call, once, when it begins. Retries are then a share of the
    /// calls, in an outage too.
    EachCall(u32),
    /// So many with each logical call that succeeds at its first attempt; one that succeeds after
    /// a retry gives back what its last retry took. In an outage the bucket runs dry and stays so
    /// (apart from the floor). It is the accounting of the AWS SDKs.
    EachSuccess(u32),
}

/// Puts a [`Budget`] together.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct BudgetBuilder {
    settings: Settings,
    initial: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(super) cost: u32,
    pub(super) throttled_cost: u32,
    pub(super) deposits: Deposits,
    pub(super) capacity: u32,
    pub(super) floor_retries: u32,
    pub(super) floor_each: Duration,
    pub(super) initial: u64,
}

impl Settings {
    pub(super) fn cost_of(&self, load: Load) -> u64 {
        u64::from(match load {
            Load::Normal => self.cost,
            Load::Throttled => self.throttled_cost,
        })
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            capacity: u64::from(self.capacity),
            reserve: self.reserve(),
            refill: self.floor_each,
        }
    }

    fn reserve(&self) -> u64 {
        u64::from(self.floor_retries) * u64::from(self.cost)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cost: 10,
            throttled_cost: 10,
            deposits: Deposits::EachCall(1),
            capacity: 1_000,
            floor_retries: 10,
            floor_each: Duration::from_secs(10),
            initial: 100,
        }
    }
}

impl BudgetBuilder {
    /// What a retry takes, in tokens, whatever the failure before it. 10 unless set.
    pub fn retry_cost(mut self, tokens: u32) -> Self {
        self.settings.cost = tokens;
        self.settings.throttled_cost = tokens;
        self
    }

    /// What a retry takes after an answer that said "too many". As any other unless set; it may
    /// be less, since such a retry waits longer.
    pub fn throttled_cost(mut self, tokens: u32) -> Self {
        self.settings.throttled_cost = tokens;
        self
    }

    /// When tokens come in. One with each call unless set.
    pub fn deposits(mut self, deposits: Deposits) -> Self {
        self.settings.deposits = deposits;
        self
    }

    /// The most tokens that are saved up. 1,000 unless set.
    pub fn capacity(mut self, tokens: u32) -> Self {
        self.settings.capacity = tokens;
        self
    }

    /// Time alone allows so many retries in each such span: it fills the bucket up to that many
    /// retries, evenly, and no further. 10 in 10 seconds unless set; 0 for no floor.
    pub fn floor(mut self, retries: u32, each: Duration) -> Self {
        self.settings.floor_retries = retries;
        self.settings.floor_each = each;
        self
    }

    /// The tokens at the start. The floor's unless set.
    pub fn initial(mut self, tokens: u32) -> Self {
        self.initial = Some(tokens);
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`BudgetError`] says which of them contradict themselves.
    pub fn build(self) -> Result<Budget, BudgetError> {
        let mut settings = self.settings;
        if settings.cost == 0 || settings.throttled_cost == 0 {
            return Err(BudgetError::FreeRetries);
        }
        if settings.floor_retries > 0 && settings.floor_each.is_zero() {
            return Err(BudgetError::FloorWithoutTime);
        }
        if settings.reserve() > u64::from(settings.capacity) {
            return Err(BudgetError::FloorAboveCapacity);
        }
        settings.initial = self.initial.map_or(settings.reserve(), u64::from);
        if settings.initial > u64::from(settings.capacity) {
            return Err(BudgetError::InitialAboveCapacity);
        }
        Ok(Budget::from_settings(settings))
    }
}

/// Settings of a budget that contradict themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// A retry that costs nothing is not bounded; [`Budget::unlimited`] says so in words.
    #[error("a retry must cost at least one token")]
    FreeRetries,
    /// The floor's retries have no span in which they come.
    #[error("the floor needs a span of time")]
    FloorWithoutTime,
    /// The floor's retries cost more than the bucket holds.
    #[error("the floor's retries cost more than the capacity")]
    FloorAboveCapacity,
    /// It starts with more than it holds.
    #[error("it starts with more tokens than the capacity")]
    InitialAboveCapacity,
}
