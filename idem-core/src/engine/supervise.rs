//! The handler in a task of its own.

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::engine::BoxHandler;
use crate::engine::execution::Execution;
use crate::engine::failure::Failure;
use crate::engine::outcome::Answer;
use crate::telemetry::{self, spans};

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

impl Ended {
    /// A stable name for logs and metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::NotStarted(failure) | Self::Failed(failure) => failure.name(),
            Self::Panicked => "panicked",
            Self::TransactionTooLong => "transaction_too_long",
        }
    }
}

/// Runs the handler in a task of its own, and drops it when its transaction is open for too long.
pub(super) async fn supervise(execution: &Execution, handler: BoxHandler) -> Ended {
    let (operation, attempt) = (execution.operation(), execution.attempt());
    let span = spans::handler(operation, execution.key_hash(), attempt);
    let started = Instant::now();
    let ended = watch_over(execution, handler).instrument(span.clone()).await;
    span.record("idem.outcome", ended.name());
    telemetry::handled(operation, ended.name(), started.elapsed());
    ended
}

async fn watch_over(execution: &Execution, handler: BoxHandler) -> Ended {
    let limit = execution.operation().transaction_limit();
    let work = handler(execution.clone()).in_current_span();
    let mut task = tokio::spawn(execution.inner.engine.shared.carriers.carry(work));
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
        Ok(ended) => judge(execution, ended),
        Err(error) => {
            tracing::error!(
                idem.key_hash = %execution.key_hash(),
                reason = panic_text(error),
                "the handler panicked"
            );
            Ended::Panicked
        }
    }
}

/// A reply to a changed handler's idea of the work is none.
fn judge(execution: &Execution, ended: Result<Answer, Failure>) -> Ended {
    let is_reply = ended.as_ref().map_or_else(Failure::is_rejection, |_| true);
    match (execution.inner.untaken.check(), ended) {
        (Err(changed), _) if is_reply => Ended::Failed(Failure::of_steps(changed)),
        (_, Ok(answer)) => Ended::Answered(answer),
        (_, Err(failure)) => Ended::Failed(failure),
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
