//! Storing the reply, within bounds (R16, R17).

use tokio::time::{Instant, sleep_until, timeout};

use crate::codec::{CodecError, CodecErrorKind, Sealed};
use crate::engine::backoff::Backoff;
use crate::engine::caller::{Caller, RunResult};
use crate::engine::execution::Execution;
use crate::engine::lease::bounded;
use crate::engine::outcome::{Answer, How, Outcome, RunError};
use crate::engine::winner::{find_winner, lost};
use crate::error::{ErrorKind, StoreError, Verb};
use crate::operation::Unstored;
use crate::record::Fence;
use crate::reply::{Reply, StoredReply, Tombstone};
use crate::telemetry;

/// Stores the answer, then tells the caller; or tells it without, when that takes too long (R16).
pub(super) async fn store_answer(
    execution: &Execution,
    fence: &Fence,
    answer: Answer,
    caller: &mut Caller,
) {
    let started = Instant::now();
    let storing = store(execution, fence, &answer);
    let late = async { caller.tell(unstored(execution, fence, answer.reply.clone()).await) };
    let stored = in_time(execution, storing, late).await;
    match stored {
        Ok(kept) => {
            note_stored(execution, kept, started);
            caller.tell(Ok(execution.executed(answer.reply, true)));
        }
        Err(Unstorable::Store(error)) if error.kind() == ErrorKind::FenceLost => {
            lost(execution, fence, caller).await;
        }
        Err(error) => {
            tracing::error!(
                idem.key_hash = %execution.key_hash(),
                error = %error,
                "the reply was not stored; the key stays held until its lease is over"
            );
            if !caller.was_told() {
                caller.tell(unstored(execution, fence, answer.reply).await);
            }
        }
    }
}

/// Notes a completion, and whether the reply itself stands in it.
pub(super) fn note_stored(execution: &Execution, kept: Kept, started: Instant) {
    telemetry::completed(execution.operation(), started.elapsed());
    if kept == Kept::Tombstone {
        telemetry::not_kept(execution.operation());
    }
}

/// What stands in a record in place of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Reply,
    Tombstone,
}

/// What a caller is told whose reply is not stored. Who was paused past the lease may have been
/// taken over without having heard of it: then the winner's reply is the answer.
async fn unstored(execution: &Execution, fence: &Fence, reply: Reply) -> RunResult {
    if execution.inner.lease.has_run_out()
        && let Some(Ok(winner)) = find_winner(execution, fence).await
    {
        return Ok(winner);
    }
    telemetry::not_stored(execution.operation());
    execution.unstored(reply)
}

/// Waits for the store's last word; when that takes too long it is `late` for the caller.
///
/// Once the lease has run out nothing unstored is delivered, and another execution may have taken
/// over, whose reply is the answer: then the store has its say first, within the bound.
pub(super) async fn in_time<T>(
    execution: &Execution,
    settling: impl Future<Output = T>,
    late: impl Future<Output = ()>,
) -> T {
    tokio::pin!(settling);
    tokio::select! {
        biased;
        settled = &mut settling => return settled,
        () = sleep_until(execution.latest_answer()) => {}
    }
    if execution.inner.lease.has_run_out()
        && let Ok(settled) = timeout(execution.answer_limit(), &mut settling).await
    {
        return settled;
    }
    late.await;
    settling.await
}

#[derive(Debug, thiserror::Error)]
enum Unstorable {
    #[error(transparent)]
    Codec(CodecError),
    #[error(transparent)]
    Store(StoreError),
}

/// Seals once and stores that. What the store finds too large has a tombstone in its place, so
/// that a retry does not run it again (R17).
async fn store(execution: &Execution, fence: &Fence, answer: &Answer) -> Result<Kept, Unstorable> {
    let (sealed, kept) = seal(execution, &answer.reply, answer.streamed).await?;
    match complete(execution, fence, &sealed).await {
        Err(error) if error.kind() == ErrorKind::InvalidInput && !answer.streamed => {
            let (tombstone, kept) = seal(execution, &answer.reply, true).await?;
            complete(execution, fence, &tombstone).await.map_err(Unstorable::Store)?;
            Ok(kept)
        }
        settled => settled.map(|()| kept).map_err(Unstorable::Store),
    }
}

/// A sealer that cannot work just now is asked again while the lease lasts.
async fn seal(
    execution: &Execution,
    reply: &Reply,
    streamed: bool,
) -> Result<(Sealed, Kept), Unstorable> {
    let mut backoff = Backoff::default();
    loop {
        match execution.seal_reply(reply, streamed) {
            Err(error) if error.kind() == CodecErrorKind::SealerFailed => {
                if !backoff.wait_until(storing_ends(execution)).await {
                    return Err(Unstorable::Codec(error));
                }
            }
            settled => return settled.map_err(Unstorable::Codec),
        }
    }
}

/// Repeats the completion while the lease lasts. The bytes are the same each time (R8).
async fn complete(execution: &Execution, fence: &Fence, sealed: &Sealed) -> Result<(), StoreError> {
    let inner = &execution.inner;
    let mut backoff = Backoff::default();
    loop {
        let completing = inner.engine.store().complete(fence, sealed);
        match bounded(Verb::Complete, execution.write_limit(), completing).await {
            Err(error) if error.kind().is_transient() => {
                let lost = inner.lease.is_lost();
                if lost || !backoff.wait_until(storing_ends(execution)).await {
                    return Err(error);
                }
            }
            settled => {
                if let Err(error) = &settled {
                    inner.lease.note(error);
                }
                return settled;
            }
        }
    }
}

/// When there is no more trying: at the end of the lease, which heartbeats move on until the
/// longest run is over.
fn storing_ends(execution: &Execution) -> Instant {
    execution.inner.lease.until()
}

impl Execution {
    /// By when the caller is answered, stored or not: while the lease surely runs. Once that is
    /// over nothing unstored is delivered, and the store has its say within the bound.
    fn latest_answer(&self) -> Instant {
        let operation = self.operation();
        let now = Instant::now();
        let bound = now + operation.reply_delay_limit();
        let margin = operation.lease() / 10;
        match self.inner.lease.until().checked_sub(margin) {
            Some(surely) if surely > now => bound.min(surely),
            _ => bound,
        }
    }

    /// A reply is delivered unstored only while nobody can have taken over, and never where rows
    /// of a transaction should stand beside it.
    fn unstored(&self, reply: Reply) -> Result<Outcome, RunError> {
        let may_deliver = !self.inner.lease.has_run_out()
            && !self.is_lease_lost()
            && !self.inner.local.was_asked();
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

    /// Frames a reply, or a tombstone for one that is not kept.
    pub(super) fn seal_reply(
        &self,
        reply: &Reply,
        streamed: bool,
    ) -> Result<(Sealed, Kept), CodecError> {
        let limit = self.inner.operation.max_reply_bytes();
        if !streamed && reply.body().map_or(0, |body| body.len()) <= limit {
            match self.encode(&StoredReply::Full(reply.clone())) {
                Err(error) if error.kind() == CodecErrorKind::TooLarge => {}
                settled => return Ok((settled?, Kept::Reply)),
            }
        }
        Ok((self.encode(&StoredReply::Tombstone(Tombstone::of(reply)))?, Kept::Tombstone))
    }

    fn encode(&self, reply: &StoredReply) -> Result<Sealed, CodecError> {
        let inner = &self.inner;
        inner.engine.codec().encode_reply(reply, &inner.scope, &inner.key)
    }
}
