//! How many executions run at once, and the end of taking more (R12).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::engine::outcome::RunError;

pub(super) struct Gate {
    slots: Arc<Semaphore>,
    /// How long a call waits for a slot.
    limit: Duration,
    tracker: TaskTracker,
    /// Whether it takes no more. Whoever enters is counted under this lock, so that a drain
    /// which begins waits for every execution that got in.
    closed: Mutex<bool>,
}

/// The right to run one execution; it ends with this, however the task that holds it ends.
pub(super) struct Pass {
    _slot: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

impl Gate {
    pub(super) fn new(slots: usize, limit: Duration) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(slots)),
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
        Ok(Pass { _slot: slot, _counted: self.tracker.token() })
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
