//! What runs at night when nobody looks: resuming work whose client is gone, and sweeping what
//! has expired; and what a person does about what neither can help.
//!
//! Each loop is safe to run in any number of processes at once, and can be dropped at any await.

mod reconciler;
mod repeats;
mod settle;
mod sweeper;

pub use reconciler::{Reconciled, Reconciler};
pub use repeats::{MayRepeat, RepeatedStep, may_repeat};
pub use settle::{SettleError, Settled, release, settle};
pub use sweeper::Sweeper;

use std::time::Duration;

/// A random part of `span` between a half and the whole: loops that started together spread out.
pub(crate) fn spread(span: Duration) -> Duration {
    let half = u64::try_from(span.as_micros() / 2).unwrap_or(u64::MAX);
    let random = getrandom::u64().unwrap_or(half) % half.saturating_add(1);
    Duration::from_micros(half.saturating_add(random))
}
