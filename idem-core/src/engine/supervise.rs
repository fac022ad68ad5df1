//! The handler in a task of its own.

use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::engine::BoxHandler;
use crate::engine::execution::Execution;
use crate::engine::failure::Failure;
use crate::engine::outcome::Answer;

/// How a handler ended.
pub(super) enum Ended {
    /// It never started: "begun" could not be written.
    NotStarted(Failure),
    /// With an answer.
    Answered(Answer),
    /// With a failure.
    Failed(Failure),
    /// It panicked.
    Panicked,
    /// Its transaction was open for too long, and it was dropped.
    TransactionTooLong,
}

/// Runs the handler in a task of its own, and drops it when its transaction is open for too long.
pub(super) async fn supervise(execution: &Execution, handler: BoxHandler) -> Ended {
    let limit = execution.operation().transaction_limit();
    let mut task = tokio::spawn(handler(execution.clone()).in_current_span());
    let joined = tokio::select! {
        joined = &mut task => joined,
        () = execution.inner.local.held_too_long(limit) => {
            task.abort();
            let joined = (&mut task).await;
            if joined.is_err() {
                return Ended::TransactionTooLong;
            }
            joined
        }
    };
    match joined {
        Ok(Ok(answer)) => Ended::Answered(answer),
        Ok(Err(failure)) => Ended::Failed(failure),
        Err(error) => {
            tracing::error!(
                key_hash = %execution.key_hash(),
                reason = panic_text(error),
                "the handler panicked"
            );
            Ended::Panicked
        }
    }
}

fn panic_text(error: tokio::task::JoinError) -> &'static str {
    // The text itself may hold a secret; the panic hook has shown it where it may be shown.
    match error.try_into_panic() {
        Ok(panic) if (*panic).is::<&'static str>() || panic.is::<String>() => "with a message",
        Ok(_) => "with a value",
        Err(_) => "cancelled",
    }
}

/// Ends a task with its owner.
pub(super) struct AbortOnDrop(pub(super) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
