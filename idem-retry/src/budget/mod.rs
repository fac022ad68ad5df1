//! How many retries a destination can bear.
//!
//! Retries help when few calls fail. When all of them fail, three attempts for each call are three
//! times the load on a service that already has too much of it, and it does not come back. A budget
//! tells the two apart without a threshold that anybody has to tune: calls put tokens in, retries
//! take tokens out. While one call in a hundred fails there are always tokens; when every call
//! fails they are gone after a moment, and from then on retries are a fixed share of the calls.
//!
//! - One budget for each destination, shared by all callers in the process: the destination does
//!   not care which of them overloads it.
//! - One deposit for each logical call, whatever its attempts.
//! - A small floor, so that a client with one call a minute may retry too.
//! - Nobody ever waits for a token. Without one, the last failure is the outcome.
//!
//! ```
//! use std::time::Duration;
//! use idem_retry::{Budget, Load};
//!
//! // One retry for every ten calls, and two retries a minute whatever happens.
//! let budget = Budget::builder().floor(2, Duration::from_secs(60)).build()?;
//! let now = Duration::ZERO;
//! for _ in 0..10 {
//!     budget.begin(now);
//! }
//! let allowed = (0..10).filter(|_| budget.withdraw(Load::Normal, now).is_some()).count();
//! assert_eq!(allowed, 3); // The floor, and one for ten calls.
//! # Ok::<_, idem_retry::BudgetError>(())
//! ```

mod bucket;
mod settings;

/// The primitives that the bucket is made of; its model test puts loom's here.
mod sync {
    pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
}

use std::time::Duration;

use bucket::Bucket;
use settings::Settings;
pub use settings::{BudgetBuilder, BudgetError, Deposits};

/// A token bucket for the retries to one destination. All methods take effect at once.
#[derive(Debug)]
pub struct Budget {
    bucket: Bucket,
    settings: Settings,
}

/// How heavily a retry weighs on its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Load {
    /// The attempt before it failed.
    Normal,
    /// The attempt before it was told that there are too many.
    Throttled,
}

/// Tokens that were taken for one retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Withdrawn(u64);

impl Budget {
    /// The default settings: a retry costs 10 tokens and each call deposits 1, so that retries
    /// add 10 % to the calls; room for 100 retries; a floor of 10 retries in 10 seconds, which is
    /// also what it starts with.
    pub fn builder() -> BudgetBuilder {
        BudgetBuilder::default()
    }

    /// A budget that refuses nothing.
    ///
    /// For tests, and for callers whose retries are bounded by other means. In an outage it lets
    /// every call multiply by its attempts.
    pub fn unlimited() -> Self {
        let settings = Settings { cost: 0, throttled_cost: 0, ..Settings::default() };
        Self::from_settings(settings)
    }

    pub(crate) fn from_settings(settings: Settings) -> Self {
        let bucket = Bucket::new(settings.limits(), settings.initial);
        Self { bucket, settings }
    }

    /// A logical call begins: its deposit, if calls deposit.
    pub fn begin(&self, now: Duration) {
        if let Deposits::EachCall(tokens) = self.settings.deposits {
            self.bucket.deposit(u64::from(tokens), now);
        }
    }

    /// A logical call succeeded: its deposit, if successes deposit. `last` is what its last retry
    /// took.
    pub fn succeed(&self, last: Option<Withdrawn>, now: Duration) {
        if let Deposits::EachSuccess(tokens) = self.settings.deposits {
            let tokens = last.map_or(u64::from(tokens), |Withdrawn(tokens)| tokens);
            self.bucket.deposit(tokens, now);
        }
    }

    /// Takes the tokens for a retry; `None` when there are too few, and then takes nothing.
    pub fn withdraw(&self, load: Load, now: Duration) -> Option<Withdrawn> {
        let tokens = self.settings.cost_of(load);
        self.bucket.withdraw(tokens, now).then_some(Withdrawn(tokens))
    }

    /// The tokens that are there.
    pub fn balance(&self, now: Duration) -> u64 {
        self.bucket.balance(now)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::from_settings(Settings::default())
    }
}
