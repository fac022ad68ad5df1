//! What runs at night when nobody looks: resuming work whose client is gone, and sweeping what
//! has expired; and what a person does about what neither can help.
//!
//! Each loop is safe to run in any number of processes at once, and can be dropped at any await.

mod chore;
mod health;
mod reconciler;
mod remembered;
mod repeats;
mod runtime;
mod settle;
mod sweeper;

pub use chore::{Chore, ChoreError, Pass, Stop};
pub use health::{Health, LoopHealth};
pub use reconciler::{Reconciled, Reconciler};
pub use repeats::{MayRepeat, RepeatedStep, may_repeat};
pub use runtime::{Runtime, RuntimeBuilder, Stopped};
pub use settle::{SettleError, Settled, release, settle};
pub use sweeper::Sweeper;

use std::time::Duration;

/// A random part of `span` between a half and the whole: loops that started together spread out.
pub(crate) fn spread(span: Duration) -> Duration {
    span / 2 + random_up_to(span / 2)
}

/// A random span from zero to `span`, both included.
pub(crate) fn random_up_to(span: Duration) -> Duration {
    let longest = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let random = getrandom::u64().unwrap_or(longest);
    Duration::from_micros(random.checked_rem(longest.saturating_add(1)).unwrap_or(random))
}

/// The example of the page on operations compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operations.md")]
struct Page;
