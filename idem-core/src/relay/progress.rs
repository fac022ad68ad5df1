//! Whether a pass gets on, which may go on for as long as there is something to deliver.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When messages were last leased or settled, none included. Renewed leases do not count: a sink
/// that hangs keeps them too.
#[derive(Default)]
pub(super) struct Progress(Mutex<Option<Instant>>);

impl Progress {
    pub(super) fn note(&self) {
        *self.lock() = Some(Instant::now());
    }

    pub(super) fn since(&self) -> Option<Duration> {
        self.lock().map(|at| at.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
