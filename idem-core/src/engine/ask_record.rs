//! What a lost acknowledgement of a COMMIT means: the own record says (R19).

use tokio::time::Instant;

use crate::claim::{Acquired, Claim, Claimed, Takeover};
use crate::engine::backoff::Backoff;
use crate::engine::execution::Execution;
use crate::engine::lease::bounded;
use crate::error::{StoreError, Verb};
use crate::fingerprint::Fingerprints;
use crate::operation::LocalForm;
use crate::record::{Fence, Recovery};

pub(super) enum Verdict {
    Committed,
    /// It did not happen, and will not.
    NotCommitted,
    /// Another execution holds the record, or has completed it: it did not happen.
    TakenOver,
    /// The record would not say in time.
    Unknown,
}

/// Asks by a claim of the same owner: it locks the record, so that it waits for a COMMIT that is
/// still pending, and then says which way that went.
pub(super) async fn ask_record(
    execution: &Execution,
    fence: &Fence,
    recovery: Option<&Recovery>,
) -> Verdict {
    let inner = &execution.inner;
    let fingerprints = Fingerprints::from(inner.fingerprint);
    let claim = Claim::new(
        &fence.scope,
        &fence.key,
        fence.owner,
        inner.operation.name(),
        &fingerprints,
        inner.operation.lease(),
        inner.operation.retention(),
        policy(execution, fence),
    );
    let limit = Instant::now() + execution.commit_limit();
    let end = inner.lease.until().max(limit);
    let mut backoff = Backoff::default();
    loop {
        let asking = inner.engine.store().claim(&claim);
        let answer = bounded(Verb::Claim, execution.write_limit(), asking).await;
        if let Some(verdict) = judge(execution, fence, recovery, answer).await {
            return verdict;
        }
        if !backoff.wait_until(end).await {
            return Verdict::Unknown;
        }
    }
}

fn policy(execution: &Execution, fence: &Fence) -> Takeover {
    match execution.inner.operation.local_form() {
        LocalForm::ClaimFirst => Takeover::Only {
            incarnation: fence.incarnation,
            attempt: fence.attempt,
            younger_than: None,
        },
        // The record is absent until it commits: an insert under the unique key makes sure that a
        // pending COMMIT cannot succeed any more.
        LocalForm::OneCommit => Takeover::Never,
    }
}

/// `None` is to ask again.
async fn judge(
    execution: &Execution,
    fence: &Fence,
    recovery: Option<&Recovery>,
    answer: Result<Claimed, StoreError>,
) -> Option<Verdict> {
    let one_commit = execution.inner.operation.local_form() == LocalForm::OneCommit;
    match answer {
        // Under this fence only our own commit completes.
        Ok(Claimed::Completed(replay)) if replay.fence == *fence => Some(Verdict::Committed),
        Ok(Claimed::Completed(replay)) => {
            let same_life = replay.fence.incarnation == fence.incarnation;
            Some(if same_life || one_commit { Verdict::TakenOver } else { Verdict::Unknown })
        }
        Ok(Claimed::Acquired(acquired)) => {
            Some(acquired_again(execution, fence, recovery, acquired, one_commit).await)
        }
        // Somebody holds the record, or it waited for a lock: perhaps that of our own COMMIT.
        Ok(Claimed::InProgress { .. }) => None,
        // Another life, or another attempt: ours may have been completed before.
        Ok(_) => Some(Verdict::Unknown),
        Err(error) => (!error.kind().is_transient()).then_some(Verdict::Unknown),
    }
}

async fn acquired_again(
    execution: &Execution,
    fence: &Fence,
    recovery: Option<&Recovery>,
    acquired: Acquired,
    one_commit: bool,
) -> Verdict {
    let own = acquired.fence == *fence;
    if own && recovery.is_some() && acquired.recovery.as_ref() == recovery {
        return Verdict::Committed;
    }
    if one_commit {
        // What was won to make sure is given back; nothing runs on it.
        give_back(execution, &acquired.fence).await;
        let retention = execution.inner.operation.retention().total();
        let may_have_expired = retention.is_some_and(|total| execution.age() >= total);
        return if may_have_expired { Verdict::Unknown } else { Verdict::NotCommitted };
    }
    if own { Verdict::NotCommitted } else { Verdict::Unknown }
}

async fn give_back(execution: &Execution, fence: &Fence) {
    let store = execution.inner.engine.store();
    let limit = execution.write_limit();
    if bounded(Verb::Release, limit, store.release(fence)).await.is_err() {
        let gave_up = store.renew(fence, std::time::Duration::ZERO);
        if let Err(error) = bounded(Verb::Renew, limit, gave_up).await {
            tracing::debug!(error = %error, "the lease was not given up");
        }
    }
}
