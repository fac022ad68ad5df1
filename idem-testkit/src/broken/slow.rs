//! A store that is slow and right: it must pass every case, or the suite raises false alarms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::rules::Rules;
use super::{Fresh, capabilities};
use crate::capability::Capability;
use crate::conformance::Conformance;

/// How long each call takes at least, half of it before it takes effect and half after.
const USUAL: Duration = Duration::from_millis(2);

/// How long every so many calls take.
const HICCUP: Duration = Duration::from_millis(150);

/// After how many pauses the next one is a long one.
const PAUSES_BETWEEN_HICCUPS: u64 = 64;

/// The suite on a right store of which every call takes a few milliseconds and some a good while,
/// on a clock that the cases step.
pub fn right_but_slow() -> Conformance {
    super::conformance("right-but-slow", Arc::new(Slow::default()))
}

/// The same on the machine's clock, where leases run out meanwhile.
pub fn right_but_slow_in_real_time() -> Conformance {
    let declared =
        capabilities().without(Capability::SteppedClock, "the machine's own clock judges");
    Conformance::new("right-but-slow, real time", declared, async || {
        Ok(Fresh::on_real_time(Arc::new(Slow::default())))
    })
}

#[derive(Default)]
struct Slow {
    pauses: AtomicU64,
}

impl Rules for Slow {
    fn pause(&self) -> Option<Duration> {
        let count = self.pauses.fetch_add(1, Ordering::Relaxed) + 1;
        Some(if count.is_multiple_of(PAUSES_BETWEEN_HICCUPS) { HICCUP } else { USUAL / 2 })
    }
}
