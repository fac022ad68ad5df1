//! What a person does about a record that nothing resumes: says how it ended, or frees its key.
//!
//! Both take the record over first, by a claim that never inserts (R2), so that a holder that was
//! paused and wakes up later finds its fence lost and changes nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::admin::Admin;
use crate::claim::{Acquired, Claim, Claimed, Replay, Takeover};
use crate::codec::{Codec, CodecError, CodecErrorKind, Sealed};
use crate::error::{ErrorKind, StoreError, Verb};
use crate::fingerprint::Fingerprints;
use crate::housekeeping::spread;
use crate::record::{Fence, Observed, Owner, State};
use crate::reply::{Reply, StoredReply};
use crate::store::Store;

/// How long each step is tried while the store does not answer.
const LIMIT: Duration = Duration::from_secs(10);
/// The lease of the takeover: longer than what follows it may take.
const LEASE: Duration = Duration::from_secs(30);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// What settling a record came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// The attempt under which the reply stands.
    pub attempt: u32,
    /// The very reply stood already: an earlier copy of this call stored it.
    pub already: bool,
}

/// Why a record was neither settled nor freed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// Somebody holds it under a lease that runs. They may finish by themselves.
    #[error("it is running: its lease lasts another {remaining:?}")]
    Running {
        /// How long, unless it is renewed.
        remaining: Duration,
    },
    /// It has a reply.
    #[error("it is completed, and its reply is what retries get")]
    Completed,
    /// It is not the record that was seen: it was resumed, replaced or removed since.
    #[error("it has changed since it was read; read it again")]
    Changed,
    /// Its retention is over, so a reply would be forgotten at once and a retry would run again.
    #[error("its retention is over: a reply would not be kept, and a retry would run again")]
    RetentionOver,
    /// What stands in the record was written with a sealer that this codec does not have, or by a
    /// newer release: the service could not read a reply of this codec, or it should not.
    #[error("the record belongs to a service with other settings: {0}")]
    OtherSettings(#[source] CodecError),
    /// The reply cannot be framed.
    #[error("the reply cannot be stored: {0}")]
    Reply(#[source] CodecError),
    /// The store failed. When its kind is `OutcomeUnknown`, read the record back.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Stores `reply` as the outcome of a lapsed record, so that every retry gets it. Nothing runs.
///
/// `seen` is the record as it was read: what has changed since is left alone. It is for work
/// whose outcome a person has found out, by asking the downstream for instance. Saying the same
/// again is harmless.
///
/// # Errors
/// [`SettleError`]. Unless it is a store's failure of kind `OutcomeUnknown`, no reply was stored;
/// the record's attempt may be one higher.
///
/// # Cancel safety
/// The record may be taken over, for 30 s at most, or settled.
pub async fn settle(
    store: &dyn Store,
    codec: &Codec,
    seen: &Observed,
    reply: &Reply,
) -> Result<Settled, SettleError> {
    check_settings(codec, seen)?;
    let record = &seen.record;
    if let State::InProgress { .. } = record.state
        && record.retention.expiry(record.created_at, seen.now).is_some_and(|at| at <= seen.now)
    {
        return Err(SettleError::RetentionOver);
    }
    let stored = StoredReply::Full(reply.clone());
    // Sealed once, so that a repeat sends the same bytes (R8).
    let sealed = codec.encode_reply(&stored, &record.scope, &record.key);
    let sealed = sealed.map_err(SettleError::Reply)?;
    let fence = match take_over(store, seen).await? {
        TakenOver::Held(acquired) => acquired.fence,
        TakenOver::Completed(replay) => return same_reply(codec, &replay, &stored),
    };
    let completed = complete(store, &fence, &sealed).await;
    if completed.is_err() {
        give_up(store, &fence).await;
    }
    completed?;
    Ok(Settled { attempt: fence.attempt, already: false })
}

/// Removes a lapsed record, so that its key is free and a retry runs as if it were the first.
///
/// What ran under it may run again: ask [`may_repeat`](crate::housekeeping::may_repeat) what, and
/// then a person, before this is called. `seen` is the record as it was read: what has changed
/// since is left alone.
///
/// # Errors
/// [`SettleError`]. Unless it is a store's failure of kind `OutcomeUnknown`, the record stands;
/// its attempt may be one higher.
///
/// # Cancel safety
/// The record may be taken over, for 30 s at most, or gone.
pub async fn release(store: &dyn Admin, seen: &Observed) -> Result<(), SettleError> {
    let fence = match take_over(store, seen).await? {
        TakenOver::Held(acquired) => acquired.fence,
        TakenOver::Completed(_) => return Err(SettleError::Completed),
    };
    let removed = repeated(Verb::Remove, || store.remove(&fence)).await;
    if removed.is_err() {
        give_up(store, &fence).await;
    }
    removed.map_err(failed)
}

enum TakenOver {
    Held(Acquired),
    Completed(Replay),
}

/// Fences out whoever holds it.
async fn take_over(store: &dyn Store, seen: &Observed) -> Result<TakenOver, SettleError> {
    let record = &seen.record;
    let fingerprints = Fingerprints::from(record.fingerprint);
    let policy = Takeover::Only {
        incarnation: record.incarnation,
        attempt: record.attempt,
        younger_than: None,
    };
    let claim = Claim::new(
        &record.scope,
        &record.key,
        Owner::random(),
        &record.operation,
        &fingerprints,
        LEASE,
        record.retention,
        policy,
    )
    // What never began stays known as that, should the second step fail.
    .marking_begun(record.marks_begun);
    match repeated(Verb::Claim, || store.claim(&claim)).await? {
        Claimed::Acquired(acquired) => Ok(TakenOver::Held(acquired)),
        Claimed::Completed(replay) if replay.fence.incarnation == record.incarnation => {
            Ok(TakenOver::Completed(replay))
        }
        Claimed::InProgress { remaining } => Err(SettleError::Running { remaining }),
        _ => Err(SettleError::Changed),
    }
}

fn same_reply(codec: &Codec, replay: &Replay, reply: &StoredReply) -> Result<Settled, SettleError> {
    let fence = &replay.fence;
    match codec.decode_reply(&replay.reply, &fence.scope, &fence.key) {
        Ok(stands) if stands == *reply => Ok(Settled { attempt: fence.attempt, already: true }),
        _ => Err(SettleError::Completed),
    }
}

/// A reply is written as the service writes its own: a record that this codec cannot read for
/// want of a key is not settled with it. A damaged one may be: that is one way to get stuck.
fn check_settings(codec: &Codec, seen: &Observed) -> Result<(), SettleError> {
    let record = &seen.record;
    let input = record.input.as_ref();
    let input = input.map(|input| codec.decode_input(input, &record.scope, &record.key).map(drop));
    let recovery = record.recovery();
    let recovery = recovery.map(|recovery| {
        codec.decode_progress(&recovery.payload, &record.scope, &record.key).map(drop)
    });
    for read in [input, recovery].into_iter().flatten() {
        match read {
            Err(error) if error.kind() != CodecErrorKind::Corrupt => {
                return Err(SettleError::OtherSettings(error));
            }
            _ => {}
        }
    }
    Ok(())
}

async fn complete(store: &dyn Store, fence: &Fence, reply: &Sealed) -> Result<(), SettleError> {
    repeated(Verb::Complete, || store.complete(fence, reply)).await.map_err(failed)
}

fn failed(error: StoreError) -> SettleError {
    match error.kind() {
        ErrorKind::FenceLost => SettleError::Changed,
        _ => SettleError::Store(error),
    }
}

/// So that nobody waits for the lease of a takeover that came to nothing.
async fn give_up(store: &dyn Store, fence: &Fence) {
    let until = Instant::now() + PAUSE * 5;
    if !matches!(timeout_at(until, store.renew(fence, Duration::ZERO)).await, Ok(Ok(_))) {
        tracing::debug!("the lease was not given up");
    }
}

/// Repeats a call, which is harmless (R5), until it is answered or the time is over.
async fn repeated<T, F, Fut>(verb: Verb, ask: F) -> Result<T, StoreError>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<T, StoreError>>,
{
    let end = Instant::now() + LIMIT;
    let mut may_be_applied = false;
    loop {
        let error = match timeout_at(end, ask()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if !error.kind().is_transient() => return Err(error),
            Ok(Err(error)) => error,
            Err(_) => unanswered(verb),
        };
        may_be_applied |= !error.kind().is_known_not_applied();
        let pause = spread(PAUSE);
        if Instant::now() + pause >= end {
            let known = error.kind().is_known_not_applied();
            return Err(if may_be_applied && known { unanswered(verb) } else { error });
        }
        sleep(pause).await;
    }
}

fn unanswered(verb: Verb) -> StoreError {
    StoreError::new(ErrorKind::OutcomeUnknown, verb, "the store did not answer in time")
}
