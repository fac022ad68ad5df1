//! The form in which claim, rows and completion are one commit (R19).

use tokio::time::Instant;

use crate::claim::Claimed;
use crate::engine::claiming::{Asked, ClaimFailure};
use crate::engine::erased::{LocalStore, Slot};
use crate::engine::execution::Execution;
use crate::engine::failure::FailureKind;
use crate::engine::local::Phase;
use crate::engine::outcome::RunError;
use crate::engine::run::{Caller, Ended, Run, put_slot, supervise};
use crate::error::ErrorKind;
use crate::record::{Fence, Owner};
use crate::reply::Reply;

impl Run {
    /// Claims inside the transaction that will commit the reply. Until then nobody else sees the
    /// claim; a duplicate is told `InProgress` within the store's bound.
    pub(super) async fn go_in_one_commit(self, mut caller: Caller) {
        let Some(local) = self.engine.shared.local.clone() else {
            let detail = "the one-commit form needs a transactional store: see one_commit_on";
            return caller.tell(Err(RunError::Invalid { detail }));
        };
        let sent = Instant::now();
        let (slot, claimed) = match claim_in(&*local, &self.asked).await {
            Ok(won) => won,
            Err(failure) => return caller.tell(Err(RunError::Store(failure.error))),
        };
        let Claimed::Acquired(acquired) = claimed else {
            roll_back(&*local, slot).await;
            return caller.tell(self.engine.answer_claim(&self.asked, claimed));
        };
        let fence = acquired.fence.clone();
        let execution = match self.engine.execution(&self.asked, self.input, acquired, sent) {
            Ok(execution) => execution,
            Err(error) => {
                roll_back(&*local, slot).await;
                return caller.tell(Err(error));
            }
        };
        put_slot(&execution, slot);
        let ended = supervise(&execution, self.handler).await;
        finish(&*local, &execution, &fence, ended, &mut caller).await;
    }
}

async fn claim_in(local: &dyn LocalStore, asked: &Asked) -> Result<(Slot, Claimed), ClaimFailure> {
    // Nothing is committed before the handler has ended.
    let failed = |error| ClaimFailure { error, may_be_applied: false };
    let mut slot = local.begin().await.map_err(failed)?;
    let claimed = local.claim_in(&mut slot, &asked.by(Owner::random())).await.map_err(failed)?;
    Ok((slot, claimed))
}

async fn finish(
    local: &dyn LocalStore,
    execution: &Execution,
    fence: &Fence,
    ended: Ended,
    caller: &mut Caller,
) {
    match execution.take_phase().await {
        Phase::Committed(reply) => caller.tell(Ok(execution.executed(reply, true))),
        Phase::Unknown => caller.tell(Err(RunError::Unknown)),
        Phase::Slot(slot) => match reply_of(ended) {
            Some(reply) => complete_alone(local, execution, fence, slot, reply, caller).await,
            None => {
                roll_back(local, slot).await;
                caller.tell(Err(RunError::RolledBack));
            }
        },
        Phase::Idle | Phase::Open | Phase::Ended => caller.tell(Err(RunError::RolledBack)),
    }
}

/// A reply without a commit of the handler's is stored alone. A rejection frees the key, which
/// here is to commit nothing; but a transaction was open, so it is a reply like any other (R14).
fn reply_of(ended: Ended) -> Option<Reply> {
    match ended {
        Ended::Answered(answer) => Some(answer.reply),
        Ended::Failed(failure) => match failure.kind {
            FailureKind::Rejected(reply) => Some(reply),
            _ => None,
        },
        _ => None,
    }
}

async fn complete_alone(
    local: &dyn LocalStore,
    execution: &Execution,
    fence: &Fence,
    slot: Slot,
    reply: Reply,
    caller: &mut Caller,
) {
    let sealed = match execution.seal_reply(&reply, false) {
        Ok(sealed) => sealed,
        Err(error) => {
            tracing::error!(error = %error, "the reply cannot be stored");
            roll_back(local, slot).await;
            return caller.tell(Err(RunError::RolledBack));
        }
    };
    caller.tell(match local.complete_alone(slot, fence, &sealed).await {
        Ok(()) => Ok(execution.executed(reply, true)),
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => Err(RunError::Unknown),
        Err(_) => Err(RunError::RolledBack),
    });
}

async fn roll_back(local: &dyn LocalStore, slot: Slot) {
    // It is gone in any case: nothing of it was committed.
    if let Err(error) = local.rollback(slot).await {
        tracing::debug!(error = %error, "rollback failed");
    }
}

impl Execution {
    /// What became of the transaction, once no commit is under way any more.
    async fn take_phase(&self) -> Phase {
        let mut open = self.inner.local_open.subscribe();
        while self.lock_local().is_open() {
            let _ = open.wait_for(|open| !*open).await;
        }
        std::mem::replace(&mut self.lock_local().phase, Phase::Ended)
    }
}
