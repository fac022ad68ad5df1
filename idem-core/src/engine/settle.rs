//! What becomes of an execution once its handler has ended.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::codec::{CodecError, Sealed};
use crate::engine::backoff::Backoff;
use crate::engine::execution::Execution;
use crate::engine::failure::{Failure, FailureKind};
use crate::engine::local::Phase;
use crate::engine::outcome::{Answer, How, Outcome, RunError};
use crate::engine::run::{Caller, Ended};
use crate::error::{ErrorKind, StoreError};
use crate::operation::{OnUnknown, Unstored};
use crate::record::{Fence, State};
use crate::reply::{Reply, StoredReply, Tombstone};

pub(super) async fn settle(
    execution: &Execution,
    fence: &Fence,
    ended: Ended,
    caller: &mut Caller,
) {
    if let Some(reply) = execution.committed_reply().await {
        return caller.tell(Ok(execution.executed(reply, true)));
    }
    match ended {
        Ended::Answered(answer) => store_answer(execution, fence, answer, caller).await,
        Ended::NotStarted(failure) => {
            let error = not_started(failure);
            if matches!(error, RunError::LeaseLost) {
                return lost(execution, fence, caller).await;
            }
            give_up(execution, fence).await;
            caller.tell(Err(error));
        }
        Ended::Failed(failure) => failed(execution, fence, failure, caller).await,
        Ended::Panicked | Ended::TransactionTooLong => unknown(execution, fence, caller).await,
    }
}

async fn failed(execution: &Execution, fence: &Fence, failure: Failure, caller: &mut Caller) {
    match &failure.kind {
        FailureKind::Rejected(_) => {}
        other => {
            let expected = matches!(other, FailureKind::LeaseLost);
            if !expected {
                tracing::warn!(
                    key_hash = %execution.key_hash(),
                    operation = %execution.operation().name(),
                    attempt = fence.attempt,
                    failure = %failure,
                    "the handler ended without a reply"
                );
            }
        }
    }
    match failure.kind {
        FailureKind::Rejected(reply) => reject(execution, fence, reply, caller).await,
        FailureKind::LeaseLost => lost(execution, fence, caller).await,
        FailureKind::WindowOver => {
            give_up(execution, fence).await;
            caller.tell(Err(RunError::Held { attempt: fence.attempt }));
        }
        FailureKind::RolledBack(_) | FailureKind::Unknown(_) => {
            unknown(execution, fence, caller).await;
        }
    }
}

/// The handler ended without a reply (R15).
async fn unknown(execution: &Execution, fence: &Fence, caller: &mut Caller) {
    if execution.is_lease_lost() {
        return lost(execution, fence, caller).await;
    }
    if execution.is_known_rolled_back() {
        give_up(execution, fence).await;
        return caller.tell(Err(RunError::RolledBack));
    }
    match execution.operation().on_unknown() {
        OnUnknown::StoreServerError => {
            let reply = Reply::new(500).expect("500 is a status");
            store_answer(execution, fence, reply.into(), caller).await;
        }
        OnUnknown::Resume | OnUnknown::Hold => caller.tell(Err(RunError::Unknown)),
    }
}

/// Nothing was executed: the key is freed, where nothing can have been done (R14).
async fn reject(execution: &Execution, fence: &Fence, reply: Reply, caller: &mut Caller) {
    let begun = execution.inner.standing.lock().await.has_begun();
    if fence.attempt > 1 || begun || execution.may_have_acted() {
        return store_answer(execution, fence, reply.into(), caller).await;
    }
    let outcome = execution.rejected(reply.clone());
    let result = in_time(execution, release(execution, fence), || {
        caller.tell(Ok(outcome.clone()));
    })
    .await;
    match result {
        Err(error) if error.kind() == ErrorKind::Refused => {
            store_answer(execution, fence, reply.into(), caller).await;
        }
        Err(error) if error.kind() == ErrorKind::FenceLost => lost(execution, fence, caller).await,
        Err(error) => {
            tracing::warn!(error = %error, "the key of a rejected request was not freed");
            caller.tell(Ok(outcome));
        }
        Ok(()) => caller.tell(Ok(outcome)),
    }
}

async fn release(execution: &Execution, fence: &Fence) -> Result<(), StoreError> {
    let mut backoff = Backoff::until(execution.inner.lease.until());
    loop {
        match execution.inner.engine.store().release(fence).await {
            Err(error) if error.kind().is_transient() => {
                if !backoff.wait().await {
                    return Err(error);
                }
            }
            settled => return settled,
        }
    }
}

/// Stores the answer, then tells the caller; or tells it without, when that takes too long (R16).
async fn store_answer(execution: &Execution, fence: &Fence, answer: Answer, caller: &mut Caller) {
    let sealed = match execution.seal_reply(&answer.reply, answer.streamed) {
        Ok(sealed) => sealed,
        Err(error) => {
            tracing::error!(error = %error, "the reply cannot be stored");
            return caller.tell(execution.unstored(answer.reply));
        }
    };
    let result = in_time(execution, complete(execution, fence, &sealed), || {
        caller.tell(execution.unstored(answer.reply.clone()));
    })
    .await;
    match result {
        Ok(()) => caller.tell(Ok(execution.executed(answer.reply, true))),
        Err(error) if error.kind() == ErrorKind::FenceLost => lost(execution, fence, caller).await,
        Err(error) => {
            tracing::error!(
                key_hash = %execution.key_hash(),
                error = %error,
                "the reply was not stored; the key stays held until its lease is over"
            );
            caller.tell(execution.unstored(answer.reply));
        }
    }
}

/// Waits for the store's last word; when that takes too long it is `late` for the caller.
///
/// Once the lease has run out nothing unstored is delivered, and another execution may have taken
/// over, whose reply is the answer: then the store has its say first, within the bound.
async fn in_time<T>(
    execution: &Execution,
    settling: impl Future<Output = T>,
    late: impl FnOnce(),
) -> T {
    tokio::pin!(settling);
    tokio::select! {
        biased;
        settled = &mut settling => return settled,
        () = sleep_until(execution.latest_answer()) => {}
    }
    if execution.inner.lease.has_run_out() {
        let bound = execution.operation().reply_delay_limit();
        if let Ok(settled) = timeout(bound, &mut settling).await {
            return settled;
        }
    }
    late();
    settling.await
}

/// Repeats the completion while the lease lasts. The bytes are the same each time (R8).
async fn complete(execution: &Execution, fence: &Fence, sealed: &Sealed) -> Result<(), StoreError> {
    let inner = &execution.inner;
    let end = inner.started + inner.operation.max_run_time() + inner.operation.lease();
    let mut backoff = Backoff::until(end.max(Instant::now() + inner.operation.lease()));
    loop {
        match inner.engine.store().complete(fence, sealed).await {
            Err(error) if error.kind().is_transient() => {
                if inner.lease.has_run_out() || inner.lease.is_lost() || !backoff.wait().await {
                    return Err(error);
                }
            }
            settled => {
                if settled.as_ref().is_err_and(|e| e.kind() == ErrorKind::FenceLost) {
                    inner.lease.mark_lost();
                }
                return settled;
            }
        }
    }
}

/// Another execution took over: its reply is the answer, if it has one (R9). One of another life
/// of the key is an answer to another request.
async fn lost(execution: &Execution, fence: &Fence, caller: &mut Caller) {
    let inner = &execution.inner;
    let found = inner.engine.store().get(&fence.scope, &fence.key).await;
    let winner = match found {
        Ok(Some(found)) if found.record.incarnation == fence.incarnation => found,
        _ => return caller.tell(Err(RunError::LeaseLost)),
    };
    let State::Completed { reply, expires_at, .. } = &winner.record.state else {
        return caller.tell(Err(RunError::LeaseLost));
    };
    let longest = inner.operation.max_run_time();
    let lifetime = expires_at.map(|at| at.since(winner.now).saturating_sub(longest));
    let codec = inner.engine.codec();
    caller.tell(match codec.decode_reply(reply, &fence.scope, &fence.key) {
        Ok(StoredReply::Full(reply)) => Ok(Outcome {
            reply,
            how: How::Replayed,
            stored: true,
            attempt: winner.record.attempt,
            lifetime,
        }),
        Ok(StoredReply::Tombstone(tombstone)) => {
            Err(RunError::ReplyNotKept { status: tombstone.status() })
        }
        Err(error) => Err(RunError::Corrupt(error)),
    });
}

/// Gives the lease up, so that a retry need not wait for it. Where that fails the lease runs out.
async fn give_up(execution: &Execution, fence: &Fence) {
    let bound = execution.operation().claim_limit();
    let gave_up = timeout(bound, execution.inner.engine.store().renew(fence, Duration::ZERO));
    if let Ok(Err(error)) = gave_up.await {
        tracing::debug!(error = %error, "the lease was not given up");
    }
}

fn not_started(failure: Failure) -> RunError {
    match failure.kind {
        FailureKind::LeaseLost => RunError::LeaseLost,
        FailureKind::Unknown(source) | FailureKind::RolledBack(source) => {
            match source.downcast::<StoreError>() {
                Ok(error) => RunError::Store(*error),
                Err(_) => RunError::RolledBack,
            }
        }
        FailureKind::WindowOver | FailureKind::Rejected(_) => RunError::RolledBack,
    }
}

impl Execution {
    /// The reply that the handler committed, once no commit is under way any more.
    async fn committed_reply(&self) -> Option<Reply> {
        let mut open = self.inner.local_open.subscribe();
        while self.lock_local().is_open() {
            // The commit's own task is bounded, and says when it is done.
            let _ = open.wait_for(|open| !*open).await;
        }
        match &self.lock_local().phase {
            Phase::Committed(reply) => Some(reply.clone()),
            _ => None,
        }
    }

    /// Whether all that was done was in a transaction that is known not to have committed.
    fn is_known_rolled_back(&self) -> bool {
        let asked_downstream =
            self.inner.asked_downstream.load(std::sync::atomic::Ordering::SeqCst);
        let local = self.lock_local();
        local.was_asked() && !asked_downstream && !matches!(local.phase, Phase::Unknown)
    }

    /// By when the caller is answered, stored or not: while the lease surely runs.
    fn latest_answer(&self) -> Instant {
        let operation = self.operation();
        let margin = operation.lease() / 10;
        let lease_end = self.inner.lease.until().checked_sub(margin).unwrap_or_else(Instant::now);
        (Instant::now() + operation.reply_delay_limit()).min(lease_end)
    }

    fn unstored(&self, reply: Reply) -> Result<Outcome, RunError> {
        let may_deliver = !self.inner.lease.has_run_out() && !self.is_lease_lost();
        match self.operation().unstored() {
            Unstored::Deliver if may_deliver => Ok(self.executed(reply, false)),
            _ => Err(RunError::NotStored),
        }
    }

    pub(super) fn executed(&self, reply: Reply, stored: bool) -> Outcome {
        let lifetime = self.operation().published_lifetime();
        Outcome {
            reply,
            how: How::Executed,
            stored,
            attempt: self.attempt(),
            lifetime: lifetime.map(|lifetime| lifetime.saturating_sub(self.age())),
        }
    }

    fn rejected(&self, reply: Reply) -> Outcome {
        Outcome {
            reply,
            how: How::Rejected,
            stored: false,
            attempt: self.attempt(),
            lifetime: Some(Duration::ZERO),
        }
    }

    /// Frames a reply, or a tombstone for one that is not kept. Called once per fence.
    pub(super) fn seal_reply(&self, reply: &Reply, streamed: bool) -> Result<Sealed, CodecError> {
        let inner = &self.inner;
        let bytes = reply.body().map_or(0, |body| body.len());
        let stored = if streamed {
            StoredReply::Tombstone(Tombstone::of(reply))
        } else if bytes > inner.operation.max_reply_bytes() {
            StoredReply::Tombstone(Tombstone::of(reply).with_body_bytes_seen(bytes as u64))
        } else {
            StoredReply::Full(reply.clone())
        };
        inner.engine.codec().encode_reply(&stored, &inner.scope, &inner.key)
    }
}
