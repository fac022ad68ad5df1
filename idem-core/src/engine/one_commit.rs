//! The form in which claim, rows and completion are one commit (R19).

use std::time::Duration;

use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::claim::Claimed;
use crate::codec::Sealed;
use crate::engine::ask_record::{Verdict, ask_record};
use crate::engine::caller::Caller;
use crate::engine::claiming::{Unclaimed, claim};
use crate::engine::erased::{InTransaction, LocalStore};
use crate::engine::execution::Execution;
use crate::engine::failure::FailureKind;
use crate::engine::lease::{MIN_BOUND, bounded};
use crate::engine::local_state::{Phase, Slot};
use crate::engine::outcome::{Answer, RunError};
use crate::engine::run::Run;
use crate::engine::storing::{Kept, note_stored};
use crate::engine::supervise::{Ended, supervise};
use crate::engine::winner::lost;
use crate::error::{ErrorKind, Verb};
use crate::record::Fence;
use crate::telemetry::{self, InFlight, spans};

impl Run {
    /// Claims inside the transaction that will commit the reply. Until then nobody else sees the
    /// claim; a duplicate is told `InProgress` within the store's bound.
    pub(super) async fn go_in_one_commit(mut self, mut caller: Caller) {
        let Some(local) = self.engine.shared.local.clone() else {
            let detail = "the one-commit form needs a transactional store: see one_commit_on";
            return caller.tell(Err(RunError::Invalid { detail }));
        };
        let store = InTransaction(&*local);
        let answered = match claim(&store, &self.engine, &self.asked, &mut self.pass).await {
            Ok(answered) => answered,
            Err(Unclaimed::Unreadable(error)) => {
                return caller.tell(Err(RunError::Corrupt(error)));
            }
            // Nothing is committed before the handler has ended.
            Err(Unclaimed::Failed(failure)) => {
                return caller.tell(Err(RunError::Store(failure.error)));
            }
        };
        let (acquired, slot) = match (answered.claimed, answered.with) {
            (Claimed::Acquired(acquired), Some(slot)) => (acquired, slot),
            (claimed, _) => return caller.tell(self.engine.answer_claim(&self.asked, claimed)),
        };
        let fence = acquired.fence.clone();
        let sent = answered.sent;
        let execution = match self.engine.execution(&self.asked, self.input, acquired, sent) {
            Ok(execution) => execution,
            Err(error) => {
                roll_back(&*local, slot).await;
                return caller.tell(Err(error));
            }
        };
        tracing::info!(
            idem.operation = %self.asked.operation.name(),
            idem.key_hash = %self.asked.key_hash,
            idem.attempt = fence.attempt,
            "executing"
        );
        Span::current().record("idem.attempt", fence.attempt);
        let _counted = InFlight::enter(&self.asked.operation);
        execution.inner.local.lend(slot);
        let ended = supervise(&execution, self.handler).await;
        let span = spans::complete(execution.operation(), execution.key_hash(), fence.attempt);
        finish(&*local, &execution, &fence, ended, &mut caller).instrument(span).await;
    }
}

async fn finish(
    local: &dyn LocalStore,
    execution: &Execution,
    fence: &Fence,
    ended: Ended,
    caller: &mut Caller,
) {
    let limit = execution.operation().transaction_limit();
    match execution.inner.local.end(limit).await {
        Phase::Committed(reply) => caller.tell(Ok(execution.executed(reply, true))),
        Phase::Unknown | Phase::Committing => caller.tell(Err(RunError::Unknown)),
        Phase::Slot(slot) => with_slot(local, execution, fence, slot, ended, caller).await,
        Phase::Ended if execution.is_lease_lost() => lost(execution, fence, caller).await,
        Phase::Idle | Phase::Open | Phase::Ended => caller.tell(Err(RunError::RolledBack)),
    }
}

/// The handler left the transaction to the engine.
async fn with_slot(
    local: &dyn LocalStore,
    execution: &Execution,
    fence: &Fence,
    slot: Slot,
    ended: Ended,
    caller: &mut Caller,
) {
    let answer = match ended {
        Ended::Answered(answer) => answer,
        Ended::Failed(failure) => match failure.kind {
            // To free the key is to commit nothing. Once the transaction was asked for, a
            // rejection is a reply like any other (R14).
            FailureKind::Rejected(reply) if fence.attempt == 1 && !execution.may_have_acted() => {
                roll_back(local, slot).await;
                return caller.tell(Ok(execution.rejected(reply)));
            }
            FailureKind::Rejected(reply) => reply.into(),
            _ => return rolled_back(local, slot, caller).await,
        },
        _ => return rolled_back(local, slot, caller).await,
    };
    complete_alone(local, execution, fence, slot, answer, caller).await;
}

/// A reply without a commit of the handler's is stored alone.
async fn complete_alone(
    local: &dyn LocalStore,
    execution: &Execution,
    fence: &Fence,
    mut slot: Slot,
    answer: Answer,
    caller: &mut Caller,
) {
    let started = Instant::now();
    let (sealed, kept): (Sealed, Kept) = match execution.seal_reply(&answer.reply, answer.streamed)
    {
        Ok(sealed) => sealed,
        Err(error) => {
            tracing::error!(error = %error, "the reply cannot be stored");
            return rolled_back(local, slot, caller).await;
        }
    };
    let completing = local.complete_alone(&mut slot, fence, &sealed);
    if let Err(error) = bounded(Verb::Complete, execution.write_limit(), completing).await {
        tracing::warn!(error = %error, "the reply was not stored");
        return rolled_back(local, slot, caller).await;
    }
    let committing = bounded(Verb::Commit, execution.commit_limit(), local.commit(slot));
    let verdict = match committing.await {
        Ok(()) => Verdict::Committed,
        Err(error) if error.kind() != ErrorKind::OutcomeUnknown => Verdict::NotCommitted,
        Err(_) => {
            telemetry::commit_unacknowledged(execution.operation());
            ask_record(execution, fence, None).await
        }
    };
    match verdict {
        Verdict::Committed => {
            note_stored(execution, kept, started);
            caller.tell(Ok(execution.executed(answer.reply, true)));
        }
        Verdict::NotCommitted => caller.tell(Err(RunError::RolledBack)),
        Verdict::TakenOver => lost(execution, fence, caller).await,
        Verdict::Unknown => caller.tell(Err(RunError::Unknown)),
    }
}

async fn rolled_back(local: &dyn LocalStore, slot: Slot, caller: &mut Caller) {
    roll_back(local, slot).await;
    caller.tell(Err(RunError::RolledBack));
}

async fn roll_back(local: &dyn LocalStore, slot: Slot) {
    const LIMIT: Duration = MIN_BOUND;
    // It is gone in any case: nothing of it was committed.
    if let Err(error) = bounded(Verb::Rollback, LIMIT, local.rollback(slot)).await {
        tracing::debug!(error = %error, "rollback failed");
    }
}
