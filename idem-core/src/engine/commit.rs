//! The commit of a handler's transaction (R19).

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::ask_record::{Verdict, ask_record};
use crate::engine::execution::Execution;
use crate::engine::failure::{Failure, Misuse};
use crate::engine::lease::{MIN_BOUND, bounded};
use crate::engine::local::{Opened, failure_before_commit};
use crate::engine::steps::Standing;
use crate::engine::storing::note_stored;
use crate::error::{ErrorKind, StoreError, Verb};
use crate::record::{Fence, Recovery};
use crate::reply::Reply;
use crate::telemetry;
use crate::transactional::TransactionalStore;

/// Completes and commits. It runs in a task of its own, so that it goes to its end.
pub(super) async fn commit<S: TransactionalStore>(
    store: S,
    opened: Opened<S>,
    reply: Reply,
) -> Result<Reply, Failure> {
    // Bound in this order the transaction is dropped before its guard.
    let Opened { guard, mut open } = opened;
    let execution = guard.execution.clone();
    let fence = fence_of(&execution);
    let taken = execution.inner.untaken.check_before_acting().await;
    taken.map_err(Failure::of_steps)?;
    let started = Instant::now();
    let (sealed, kept) = execution.seal_reply(&reply, false).map_err(Failure::rolled_back)?;
    let completing = store.complete_in(&mut open, &fence, &sealed);
    match bounded(Verb::Complete, execution.write_limit(), completing).await {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyApplied => {
            // An earlier commit of the same reply stands; these rows go.
            drop(open);
            execution.inner.local.committed(reply.clone());
            return Ok(reply);
        }
        Err(error) => return Err(undo(&store, open, &execution, error).await),
    }
    finish(&store, open, &execution, &fence, None).await?;
    note_stored(&execution, kept, started);
    execution.inner.local.committed(reply.clone());
    Ok(reply)
}

/// Writes a recovery point and commits.
pub(super) async fn commit_step<S: TransactionalStore>(
    store: S,
    opened: Opened<S>,
    name: String,
    result: Vec<u8>,
) -> Result<(), Failure> {
    let Opened { guard, mut open } = opened;
    let execution = guard.execution.clone();
    let fence = fence_of(&execution);
    execution.inner.untaken.take(&name);
    let taken = execution.inner.untaken.check_before_acting().await;
    taken.map_err(Failure::of_steps)?;
    let mut standing = execution.inner.standing.lock().await;
    let generation = standing.progress.step(&name).map_or(0, |step| step.generation());
    let progress =
        standing.progress.with_result(&name, generation, result).map_err(Failure::rolled_back)?;
    let recovery = execution.next_recovery(&standing, &progress)?;
    let lease = execution.inner.operation.lease();
    let sent = Instant::now();
    let writing = store.checkpoint_in(&mut open, &fence, &recovery, lease);
    let held = match bounded(Verb::Checkpoint, execution.write_limit(), writing).await {
        Ok(held) => held,
        Err(error) => return Err(undo(&store, open, &execution, error).await),
    };
    finish(&store, open, &execution, &fence, Some(&recovery)).await?;
    execution.inner.local.step_is_committed();
    execution.inner.lease.extend(sent, held.remaining);
    *standing = Standing { number: recovery.number, progress };
    Ok(())
}

fn fence_of(execution: &Execution) -> Fence {
    match &execution.inner.fence {
        Some(fence) => fence.clone(),
        None => unreachable!("only a protected execution opens a transaction"),
    }
}

async fn undo<S: TransactionalStore>(
    store: &S,
    open: S::Transaction,
    execution: &Execution,
    error: StoreError,
) -> Failure {
    execution.inner.lease.note(&error);
    // Where this fails the transaction is gone all the same: it was never committed.
    let rolled_back = bounded(Verb::Rollback, MIN_BOUND, store.rollback(open)).await;
    if let Err(error) = rolled_back {
        tracing::debug!(error = %error, "rollback failed");
    }
    failure_before_commit(error)
}

/// Commits; `Ok` when it is certain that the commit happened.
async fn finish<S: TransactionalStore>(
    store: &S,
    open: S::Transaction,
    execution: &Execution,
    fence: &Fence,
    recovery: Option<&Recovery>,
) -> Result<(), Failure> {
    let local = &execution.inner.local;
    if !local.start_commit() {
        return Err(Misuse::TransactionEnded.into());
    }
    let committing = bounded(Verb::Commit, execution.commit_limit(), store.commit(open));
    let Err(error) = committing.await else { return Ok(()) };
    if error.kind() != ErrorKind::OutcomeUnknown {
        local.commit_is_over();
        execution.inner.lease.note(&error);
        return Err(failure_before_commit(error));
    }
    telemetry::commit_unacknowledged(execution.operation());
    tracing::warn!(
        error = %error,
        idem.key_hash = %execution.key_hash(),
        "the commit was not acknowledged; asking the record"
    );
    let verdict = ask_record(execution, fence, recovery).await;
    if !matches!(verdict, Verdict::Unknown) {
        local.commit_is_over();
    }
    match verdict {
        Verdict::Committed => Ok(()),
        Verdict::NotCommitted => Err(Failure::rolled_back("the commit did not happen")),
        Verdict::TakenOver => {
            execution.inner.lease.mark_lost();
            Err(Failure::lease_lost())
        }
        Verdict::Unknown => Err(Failure::unknown(error)),
    }
}

impl Execution {
    /// How long one write to the record may take.
    pub(super) fn write_limit(&self) -> Duration {
        (self.inner.operation.lease() / 2).max(MIN_BOUND)
    }

    /// How long a COMMIT may take before its record is asked.
    pub(super) fn commit_limit(&self) -> Duration {
        self.inner.operation.reply_delay_limit().max(MIN_BOUND)
    }
}
