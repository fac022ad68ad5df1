//! What becomes of an execution once its handler has ended.

use std::time::Duration;

use crate::engine::backoff::Backoff;
use crate::engine::caller::{Caller, RunResult};
use crate::engine::execution::Execution;
use crate::engine::failure::{Failure, FailureKind};
use crate::engine::failure_log;
use crate::engine::lease::{MIN_BOUND, bounded};
use crate::engine::local_state::Phase;
use crate::engine::outcome::{How, Outcome, RunError};
use crate::engine::storing::{in_time, store_answer};
use crate::engine::supervise::Ended;
use crate::engine::winner::{find_winner, lost};
use crate::error::{ErrorKind, StoreError, Verb};
use crate::operation::{Begun, OnUnknown};
use crate::record::Fence;
use crate::reply::Reply;
use crate::store::Store;

pub(super) async fn settle(
    execution: &Execution,
    fence: &Fence,
    ended: Ended,
    caller: &mut Caller,
) {
    let limit = execution.operation().transaction_limit();
    let local = match execution.inner.local.end(limit).await {
        Phase::Committed(reply) => return caller.tell(Ok(execution.executed(reply, true))),
        Phase::Committing | Phase::Unknown => LocalEnd::Unknown,
        _ if execution.inner.local.was_asked() => LocalEnd::RolledBack,
        _ => LocalEnd::None,
    };
    match ended {
        Ended::Answered(answer) => store_answer(execution, fence, answer, caller).await,
        Ended::NotStarted(failure) => not_started(execution, fence, failure, caller).await,
        Ended::Failed(failure) => failed(execution, fence, failure, local, caller).await,
        Ended::Panicked | Ended::TransactionTooLong => {
            unknown(execution, fence, local, caller).await;
        }
    }
}

/// What is known of a transaction that did not commit a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LocalEnd {
    /// There was none.
    None,
    /// It is known to be taken back.
    RolledBack,
    /// Its commit may have happened.
    Unknown,
}

/// "Begun" could not be written: nothing ran. Where nothing ran before either the key is freed, so
/// that a store that fails for a while does not use up the attempts of a record that never began.
async fn not_started(execution: &Execution, fence: &Fence, failure: Failure, caller: &mut Caller) {
    let error = match failure.kind {
        FailureKind::LeaseLost => return lost(execution, fence, caller).await,
        FailureKind::WindowOver => RunError::Held { attempt: fence.attempt },
        FailureKind::Unknown(source) | FailureKind::RolledBack(source) => {
            match source.downcast::<StoreError>() {
                Ok(error) => RunError::Store(*error),
                Err(_) => RunError::RolledBack,
            }
        }
        FailureKind::StepsChanged(changed) => RunError::StepsChanged(changed),
        FailureKind::Rejected(_) => RunError::RolledBack,
    };
    let (store, limit) = (execution.inner.engine.store(), execution.answer_limit());
    // It is refused where "begun" was written after all.
    let freed =
        fence.attempt == 1 && bounded(Verb::Release, limit, store.release(fence)).await.is_ok();
    if !freed {
        give_up(store, fence, limit).await;
    }
    caller.tell(Err(error));
}

async fn failed(
    execution: &Execution,
    fence: &Fence,
    failure: Failure,
    local: LocalEnd,
    caller: &mut Caller,
) {
    if !matches!(failure.kind, FailureKind::Rejected(_) | FailureKind::LeaseLost) {
        let is_rolled_back = local == LocalEnd::RolledBack;
        tracing::warn!(
            idem.key_hash = %execution.key_hash(),
            idem.operation = %execution.operation().name(),
            idem.attempt = fence.attempt,
            failure = failure_log::how(&failure, is_rolled_back),
            error = failure_log::text(execution, &failure),
            "the handler ended without a reply"
        );
    }
    match failure.kind {
        FailureKind::Rejected(reply) => reject(execution, fence, reply, caller).await,
        FailureKind::LeaseLost => lost(execution, fence, caller).await,
        FailureKind::WindowOver => {
            give_up(execution.inner.engine.store(), fence, execution.answer_limit()).await;
            caller.tell(Err(RunError::Held { attempt: fence.attempt }));
        }
        // Neither resumed on a guess nor answered: its lease runs out.
        FailureKind::StepsChanged(changed) => caller.tell(Err(RunError::StepsChanged(changed))),
        FailureKind::RolledBack(_) | FailureKind::Unknown(_) => {
            unknown(execution, fence, local, caller).await;
        }
    }
}

/// The handler ended without a reply (R15).
async fn unknown(execution: &Execution, fence: &Fence, local: LocalEnd, caller: &mut Caller) {
    if execution.is_lease_lost() {
        return lost(execution, fence, caller).await;
    }
    if local == LocalEnd::RolledBack && !execution.asked_downstream() {
        // Nothing of it can still be under way; what a step committed is on record.
        give_up(execution.inner.engine.store(), fence, execution.answer_limit()).await;
        return caller.tell(Err(rolled_back(execution, fence).await));
    }
    match execution.operation().on_unknown() {
        OnUnknown::StoreServerError => {
            let reply = execution.inner.server_error.clone();
            store_answer(execution, fence, reply.into(), caller).await;
        }
        OnUnknown::Resume | OnUnknown::Hold => caller.tell(Err(RunError::Unknown)),
    }
}

/// What is told of an execution whose transaction is known to be taken back.
async fn rolled_back(execution: &Execution, fence: &Fence) -> RunError {
    let operation = execution.operation();
    let standing = execution.inner.standing.lock().await;
    if operation.on_unknown() == OnUnknown::Hold && standing.has_begun() {
        // The transaction is not all that it may have done once it began, and nothing runs it
        // again: see `OnUnknown::Hold`.
        return RunError::Held { attempt: fence.attempt };
    }
    // An earlier attempt may have acted, as its recorded steps say; and a handler that marks
    // begun itself does so because it is about to act.
    let recorded = !standing.progress.steps().is_empty();
    let announced = operation.begun() == Begun::ByHandler && standing.has_begun();
    if recorded || announced || execution.inner.local.has_stepped() {
        return RunError::Unknown;
    }
    RunError::RolledBack
}

/// Nothing was executed: the key is freed, where nothing can have been done (R14).
async fn reject(execution: &Execution, fence: &Fence, reply: Reply, caller: &mut Caller) {
    let begun = execution.inner.standing.lock().await.has_begun();
    if fence.attempt > 1 || begun || execution.may_have_acted() {
        return store_answer(execution, fence, reply.into(), caller).await;
    }
    let outcome = execution.rejected(reply.clone());
    let late = async { caller.tell(unreleased(execution, fence, outcome.clone()).await) };
    let released = in_time(execution, release(execution, fence), late).await;
    match released {
        Ok(()) => caller.tell(Ok(outcome)),
        Err(error) if error.kind() == ErrorKind::Refused => {
            store_answer(execution, fence, reply.into(), caller).await;
        }
        // Where nobody took over, an earlier copy of the release was applied, and the key has
        // been claimed anew since.
        Err(error) if error.kind() == ErrorKind::FenceLost => {
            caller.tell(find_winner(execution, fence).await.unwrap_or(Ok(outcome)));
        }
        Err(error) => {
            tracing::warn!(
                idem.key_hash = %execution.key_hash(),
                error = %error,
                "the key of a rejected request was not freed"
            );
            if !caller.was_told() {
                caller.tell(unreleased(execution, fence, outcome).await);
            }
        }
    }
}

/// What a rejected caller is told whose key is not known to be free. Who was paused past the
/// lease may have been taken over, and what the other execution answers is the answer then.
async fn unreleased(execution: &Execution, fence: &Fence, outcome: Outcome) -> RunResult {
    if !execution.inner.lease.has_run_out() && !execution.is_lease_lost() {
        return Ok(outcome);
    }
    find_winner(execution, fence).await.unwrap_or(Ok(outcome))
}

async fn release(execution: &Execution, fence: &Fence) -> Result<(), StoreError> {
    let inner = &execution.inner;
    let mut backoff = Backoff::default();
    loop {
        let releasing = inner.engine.store().release(fence);
        match bounded(Verb::Release, execution.write_limit(), releasing).await {
            Err(error) if error.kind().is_transient() => {
                if !backoff.wait_until(inner.lease.until()).await {
                    return Err(error);
                }
            }
            settled => return settled,
        }
    }
}

/// Gives the lease up, so that a retry need not wait for it. Where that fails the lease runs out.
pub(super) async fn give_up(store: &dyn Store, fence: &Fence, limit: Duration) {
    let giving_up = store.renew(fence, Duration::ZERO);
    if let Err(error) = bounded(Verb::Renew, limit, giving_up).await {
        tracing::debug!(error = %error, "the lease was not given up");
    }
}

impl Execution {
    /// How long the store may hold an answer back.
    pub(super) fn answer_limit(&self) -> Duration {
        self.inner.operation.reply_delay_limit().max(MIN_BOUND)
    }

    pub(super) fn rejected(&self, reply: Reply) -> Outcome {
        Outcome {
            reply,
            how: How::Rejected,
            stored: false,
            attempt: self.attempt(),
            lifetime: Some(Duration::ZERO),
        }
    }
}
