//! How many executions run at once, and the end of taking more (R12).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::engine::outcome::RunError;

pub(super) struct Gate {
    slots: Arc<Semaphore>,
    /// Room for those that wait for another execution, without a slot.
    waiting: Arc<Semaphore>,
    /// How long a call waits for a slot.
    limit: Duration,
    tracker: TaskTracker,
    /// Whether it takes no more. Whoever enters is counted under this lock, so that a drain
    /// which begins waits for every execution that got in.
    closed: Mutex<bool>,
}

/// The right to run one execution; it ends with this, however the task that holds it ends.
pub(super) struct Pass {
    slot: Option<OwnedSemaphorePermit>,
    slots: Arc<Semaphore>,
    waits: Option<OwnedSemaphorePermit>,
    waiting: Arc<Semaphore>,
    _counted: TaskTrackerToken,
}

impl Pass {
    /// Waits until `wake` with its slot lent to others, then for a slot until `end`. `false` when
    /// there is none, too many wait already, or no more are taken: nothing may run then.
    pub(super) async fn step_aside(&mut self, wake: Instant, end: Instant) -> bool {
        if self.waits.is_none() {
            let Ok(waits) = Arc::clone(&self.waiting).try_acquire_owned() else { return false };
            self.waits = Some(waits);
        }
        self.slot = None;
        sleep_until(wake).await;
        let slot = timeout_at(end, Arc::clone(&self.slots).acquire_owned()).await;
        self.slot = slot.ok().and_then(Result::ok);
        self.slot.is_some()
    }
}

impl Gate {
    pub(super) fn new(slots: usize, waiting: usize, limit: Duration) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(slots)),
            waiting: Arc::new(Semaphore::new(waiting)),
            limit,
            tracker: TaskTracker::new(),
            closed: Mutex::new(false),
        }
    }

    pub(super) async fn enter(&self) -> Result<Pass, RunError> {
        let slots = Arc::clone(&self.slots);
        let slot = match timeout(self.limit, slots.acquire_owned()).await {
            Ok(Ok(slot)) => slot,
            Ok(Err(_closed)) => return Err(RunError::Draining),
            Err(_elapsed) => return Err(RunError::Busy),
        };
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(RunError::Draining);
        }
        Ok(Pass {
            slot: Some(slot),
            slots: Arc::clone(&self.slots),
            waits: None,
            waiting: Arc::clone(&self.waiting),
            _counted: self.tracker.token(),
        })
    }

    /// Takes no more, and waits for those that are in; says how many are left.
    pub(super) async fn drain(&self, limit: Duration) -> usize {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.slots.close();
        self.tracker.close();
        let _ = timeout(limit, self.tracker.wait()).await;
        self.tracker.len()
    }
}
