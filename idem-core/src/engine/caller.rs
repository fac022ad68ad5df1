//! Who waits for the result of a run, and what is noted when it is told.

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

use crate::engine::outcome::{Outcome, RunError};
use crate::operation::Operation;
use crate::telemetry;

/// The result of a run.
pub(super) type RunResult = Result<Outcome, RunError>;

/// Whom to tell. Told once: what comes later changes nothing for the caller.
pub(super) struct Caller {
    waiting: Option<oneshot::Sender<RunResult>>,
    operation: Operation,
    /// When the call came.
    since: Instant,
    /// The span of the run.
    span: Span,
}

impl Caller {
    pub(super) fn new(
        operation: Operation,
        since: Instant,
        span: Span,
    ) -> (Self, oneshot::Receiver<RunResult>) {
        let (sender, receiver) = oneshot::channel();
        (Self { waiting: Some(sender), operation, since, span }, receiver)
    }

    pub(super) fn was_told(&self) -> bool {
        self.waiting.is_none()
    }

    pub(super) fn tell(&mut self, result: RunResult) {
        if let Some(caller) = self.waiting.take() {
            let outcome = match &result {
                Ok(outcome) => outcome.how.name(),
                Err(error) => error.name(),
            };
            self.span.record("idem.outcome", outcome);
            telemetry::answered(&self.operation, outcome, self.since.elapsed());
            // The caller may have gone away; the work is done and stored all the same.
            let _ = caller.send(result);
        }
    }
}

impl Drop for Caller {
    /// A run that panicked, in its store, has told nothing.
    fn drop(&mut self) {
        self.tell(Err(RunError::Unknown));
    }
}
