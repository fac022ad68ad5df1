//! How the loops of a service are.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::housekeeping::chore::{Chore, ChoreError, Pass};

/// How many intervals may go by without a pass that ended well.
const LATE_AFTER_INTERVALS: u32 = 3;
/// And so long on top, for the pass itself.
const LATE_AFTER: Duration = Duration::from_secs(30);

/// How the loops of a service are, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Each loop, in the order in which they were given.
    pub loops: Vec<LoopHealth>,
    /// Whether they were asked to end.
    pub stopping: bool,
}

impl Health {
    /// Whether no loop is late. It says nothing of the store: ask that as well.
    pub fn is_good(&self) -> bool {
        self.stopping || !self.loops.iter().any(LoopHealth::is_late)
    }

    /// The loop of this name.
    pub fn of(&self, name: &str) -> Option<&LoopHealth> {
        self.loops.iter().find(|one| one.name == name)
    }
}

/// How one loop is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopHealth {
    /// Which one.
    pub name: &'static str,
    /// How long it waits between passes, at most.
    pub interval: Duration,
    /// How many passes ended, well or not.
    pub passes: u64,
    /// How many passes failed since the last that ended well.
    pub failures_in_a_row: u64,
    /// How long ago a pass last ended well; `None` is never.
    pub since_success: Option<Duration>,
    /// How long ago a pass last got on, where the chore [tells](Chore::since_progress).
    pub since_progress: Option<Duration>,
    /// How long the loop has been there.
    pub age: Duration,
    /// How long the pass that runs now has been running.
    pub running_for: Option<Duration>,
    /// Why the last pass failed, if it did.
    pub last_error: Option<String>,
    /// How many things all passes did together.
    pub work: u64,
    /// What the last pass that ended well found.
    pub counts: Vec<(&'static str, u64)>,
}

impl LoopHealth {
    /// Whether no pass ended well for three intervals and half a minute, and none that runs so long
    /// gets on.
    pub fn is_late(&self) -> bool {
        let limit = self.interval.saturating_mul(LATE_AFTER_INTERVALS).saturating_add(LATE_AFTER);
        // Where passes fail at once, what they do before tells nothing.
        let counts = self.failures_in_a_row == 0 || self.running_for > Some(limit);
        let progress = self.since_progress.filter(|_| counts);
        let did_well = self.since_success.into_iter().chain(progress).min();
        did_well.unwrap_or(self.age) > limit
    }

    /// What the last pass that ended well counted under this name.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.counts.iter().find(|(known, _)| *known == name).map(|(_, count)| *count)
    }
}

/// What is kept of a loop while it runs.
pub(super) struct Watch {
    name: &'static str,
    interval: Duration,
    since: Instant,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    passes: u64,
    failures_in_a_row: u64,
    success: Option<Instant>,
    running: Option<Instant>,
    error: Option<String>,
    work: u64,
    counts: Vec<(&'static str, u64)>,
}

impl Watch {
    pub(super) fn new(name: &'static str, interval: Duration) -> Self {
        Self { name, interval, since: Instant::now(), seen: Mutex::default() }
    }

    pub(super) fn begins(&self) {
        self.lock().running = Some(Instant::now());
    }

    pub(super) fn ended(&self, result: &Result<Pass, ChoreError>) {
        let mut seen = self.lock();
        seen.passes += 1;
        seen.running = None;
        match result {
            Ok(pass) => {
                seen.failures_in_a_row = 0;
                seen.success = Some(Instant::now());
                seen.error = None;
                seen.work = seen.work.saturating_add(pass.work);
                seen.counts.clone_from(&pass.counts);
            }
            Err(error) => {
                seen.failures_in_a_row += 1;
                seen.error = Some(error.to_string());
            }
        }
    }

    pub(super) fn health(&self, chore: &dyn Chore) -> LoopHealth {
        let since_progress = chore.since_progress();
        let seen = self.lock();
        LoopHealth {
            name: self.name,
            interval: self.interval,
            passes: seen.passes,
            failures_in_a_row: seen.failures_in_a_row,
            since_success: seen.success.map(|at| at.elapsed()),
            since_progress,
            age: self.since.elapsed(),
            running_for: seen.running.map(|at| at.elapsed()),
            last_error: seen.error.clone(),
            work: seen.work,
            counts: seen.counts.clone(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_late_when_it_neither_ends_well_nor_gets_on() {
        let seconds = |count: u64| Some(Duration::from_secs(count));
        // Since the last success, since progress, failures, how long one runs.
        for (since_success, since_progress, failures, running, is_late) in [
            (None, None, 0, None, true),
            (seconds(1), None, 1, None, false),
            (seconds(100), None, 0, seconds(99), true),
            (seconds(100), seconds(1), 0, seconds(99), false),
            (None, seconds(1), 3, seconds(99), false),
            (None, seconds(99), 0, seconds(100), true),
            // Each pass fails after a good beginning.
            (seconds(100), seconds(1), 100, seconds(1), true),
            (None, seconds(1), 100, None, true),
        ] {
            let health = LoopHealth {
                name: "test",
                interval: Duration::from_secs(1),
                passes: 0,
                failures_in_a_row: failures,
                since_success,
                since_progress,
                age: Duration::from_secs(100),
                running_for: running,
                last_error: None,
                work: 0,
                counts: Vec::new(),
            };
            assert_eq!(health.is_late(), is_late, "{health:?}");
        }
    }
}
