//! The commit of a handler's transaction, and what its lost acknowledgement means (R19).

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::claim::{Claim, Claimed, Takeover};
use crate::engine::backoff::Backoff;
use crate::engine::execution::Execution;
use crate::engine::failure::Failure;
use crate::engine::local::{OpenGuard, Phase, failure_before_commit};
use crate::engine::steps::Standing;
use crate::error::{ErrorKind, StoreError, Verb};
use crate::fingerprint::Fingerprints;
use crate::operation::LocalForm;
use crate::record::{Fence, Recovery};
use crate::reply::Reply;
use crate::transactional::TransactionalStore;

/// Completes and commits. It runs in a task of its own, so that it goes to its end.
pub(super) async fn commit<S: TransactionalStore + Clone>(
    store: S,
    mut open: S::Transaction,
    guard: OpenGuard,
    reply: Reply,
) -> Result<Reply, Failure> {
    let execution = guard.execution.clone();
    let fence = fence_of(&execution);
    let sealed = execution.seal_reply(&reply, false).map_err(Failure::rolled_back)?;
    match store.complete_in(&mut open, &fence, &sealed).await {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyApplied => {
            // An earlier commit of the same reply stands; these rows go.
            drop(open);
            return Ok(committed(&execution, reply));
        }
        Err(error) => return Err(undo(&store, open, &execution, error).await),
    }
    match finish(&store, open, &execution, &fence, None).await {
        Ok(()) => Ok(committed(&execution, reply)),
        Err(failure) => Err(failure),
    }
}

/// Writes a recovery point and commits.
pub(super) async fn commit_step<S: TransactionalStore + Clone>(
    store: S,
    mut open: S::Transaction,
    guard: OpenGuard,
    name: String,
    result: Vec<u8>,
) -> Result<(), Failure> {
    let execution = guard.execution.clone();
    let fence = fence_of(&execution);
    let mut standing = execution.inner.standing.lock().await;
    let generation = standing.progress.step(&name).map_or(0, |step| step.generation());
    let progress = standing.progress.with_result(&name, generation, result)?;
    let recovery = execution.next_recovery(&standing, &progress)?;
    let lease = execution.inner.operation.lease();
    let sent = Instant::now();
    let held = match store.checkpoint_in(&mut open, &fence, &recovery, lease).await {
        Ok(held) => held,
        Err(error) => return Err(undo(&store, open, &execution, error).await),
    };
    finish(&store, open, &execution, &fence, Some(&recovery)).await?;
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

fn committed(execution: &Execution, reply: Reply) -> Reply {
    execution.lock_local().phase = Phase::Committed(reply.clone());
    reply
}

async fn undo<S: TransactionalStore>(
    store: &S,
    open: S::Transaction,
    execution: &Execution,
    error: StoreError,
) -> Failure {
    if error.kind() == ErrorKind::FenceLost {
        execution.inner.lease.mark_lost();
    }
    // Where this fails the transaction is gone all the same: it was never committed.
    if let Err(error) = store.rollback(open).await {
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
    let bound = execution.inner.operation.reply_delay_limit().max(Duration::from_secs(1));
    let error = match timeout(bound, store.commit(open)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error,
        Err(_) => {
            let detail = "the commit was not acknowledged in time";
            StoreError::new(ErrorKind::OutcomeUnknown, Verb::Commit, detail)
        }
    };
    if error.kind() != ErrorKind::OutcomeUnknown {
        return Err(failure_before_commit(error));
    }
    tracing::warn!(
        error = %error,
        key_hash = %execution.key_hash(),
        "the commit was not acknowledged; asking the record"
    );
    match ask_record(store, execution, fence, recovery).await {
        Some(Ok(())) => Ok(()),
        Some(Err(failure)) => Err(failure),
        None => {
            execution.lock_local().phase = Phase::Unknown;
            Err(Failure::unknown(error))
        }
    }
}

/// A claim by the same owner locks the record, so that it waits for a commit that is still
/// pending, and then says which way that went. `None` when the record would not say in time.
async fn ask_record<S: TransactionalStore>(
    store: &S,
    execution: &Execution,
    fence: &Fence,
    recovery: Option<&Recovery>,
) -> Option<Result<(), Failure>> {
    let inner = &execution.inner;
    let fingerprints = Fingerprints::from(inner.fingerprint);
    let one_commit = inner.operation.local_form() == LocalForm::OneCommit;
    let takeover = if one_commit {
        // Its record is absent until it commits; an insert under the unique key makes sure that
        // a pending commit cannot succeed any more.
        Takeover::Never
    } else {
        Takeover::Only {
            incarnation: fence.incarnation,
            attempt: fence.attempt,
            younger_than: None,
        }
    };
    let claim = Claim::new(
        &fence.scope,
        &fence.key,
        fence.owner,
        inner.operation.name(),
        &fingerprints,
        inner.operation.lease(),
        inner.operation.retention(),
        takeover,
    );
    let limit = Instant::now() + inner.operation.reply_delay_limit().max(Duration::from_secs(1));
    let mut backoff = Backoff::until(inner.lease.until().max(limit));
    loop {
        match store.claim(&claim).await {
            Ok(Claimed::Completed(replay)) if replay.fence == *fence => {
                // Under this fence only our own commit completes.
                return Some(Ok(()));
            }
            Ok(Claimed::Acquired(acquired)) if acquired.fence == *fence => {
                let applied = recovery.is_some() && acquired.recovery.as_ref() == recovery;
                return Some(if applied { Ok(()) } else { Err(not_committed()) });
            }
            Ok(Claimed::Acquired(acquired)) => {
                let _ = store.release(&acquired.fence).await;
                return one_commit.then(|| Err(not_committed()));
            }
            Ok(Claimed::Gone) => return None,
            Ok(_) => {
                inner.lease.mark_lost();
                return Some(Err(Failure::lease_lost()));
            }
            Err(error) if !error.kind().is_transient() => return None,
            Err(_) => {
                if !backoff.wait().await {
                    return None;
                }
            }
        }
    }
}

fn not_committed() -> Failure {
    Failure::rolled_back("the commit did not happen")
}
