//! Winning a claim, or learning who has it.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::Instrument;

use crate::claim::{Claim, Claimed, Takeover};
use crate::codec::Sealed;
use crate::engine::backoff::{Backoff, random_up_to};
use crate::error::{ErrorKind, StoreError, Verb};
use crate::fingerprint::Fingerprints;
use crate::key::{Key, Scope};
use crate::log_hash::KeyHash;
use crate::operation::{Begun, Operation};
use crate::record::Owner;
use crate::store::Store;
use crate::telemetry::{self, spans};

/// What a claim says, apart from who makes it.
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) scope: Scope,
    pub(super) key: Key,
    pub(super) fingerprints: Fingerprints,
    pub(super) input: Option<Sealed>,
    /// The key as logs may show it.
    pub(super) key_hash: KeyHash,
    pub(super) takeover: Takeover,
    /// How long to wait for a first one that is still running.
    pub(super) patience: Option<Duration>,
}

impl Asked {
    pub(super) fn by(&self, owner: Owner) -> Claim<'_> {
        Claim::new(
            &self.scope,
            &self.key,
            owner,
            self.operation.name(),
            &self.fingerprints,
            self.operation.lease(),
            self.operation.retention(),
            self.takeover,
        )
        .with_input(self.input.as_ref())
        .marking_begun(self.operation.begun() != Begun::Unmarked)
    }
}

/// A claim that failed.
pub(super) struct ClaimFailure {
    pub(super) error: StoreError,
    /// A copy of it may have been applied all the same, or the key is known to be in use: nothing
    /// may run without a claim then (R18).
    pub(super) key_may_be_in_use: bool,
}

/// Where a claim is made: in the store itself, or inside a transaction of it.
#[async_trait]
pub(super) trait Claims: Send + Sync {
    /// What a claim that was won comes with.
    type With: Send;

    /// What is known of a claim that was not answered in time.
    const UNANSWERED: ErrorKind;

    async fn claim(&self, claim: &Claim<'_>) -> Result<(Claimed, Self::With), StoreError>;
}

pub(super) struct Outright<'s>(pub(super) &'s dyn Store);

#[async_trait]
impl Claims for Outright<'_> {
    type With = ();
    const UNANSWERED: ErrorKind = ErrorKind::OutcomeUnknown;

    async fn claim(&self, claim: &Claim<'_>) -> Result<(Claimed, ()), StoreError> {
        self.0.claim(claim).await.map(|claimed| (claimed, ()))
    }
}

/// An answer, what it comes with, and the instant before it was asked for: leases are counted
/// from there (R6).
pub(super) struct Answered<W> {
    pub(super) claimed: Claimed,
    pub(super) with: W,
    pub(super) sent: Instant,
}

/// Claims, and where the call waits for the first one to finish, asks again until then.
pub(super) async fn claim<C: Claims>(
    store: &C,
    asked: &Asked,
) -> Result<Answered<C::With>, ClaimFailure> {
    let patience = asked.patience.map(|patience| Instant::now() + patience);
    let mut pause = Duration::from_millis(10);
    let mut in_progress = false;
    loop {
        let answered = claim_seen(store, asked).await.map_err(|failure| ClaimFailure {
            key_may_be_in_use: failure.key_may_be_in_use || in_progress,
            ..failure
        })?;
        let Claimed::InProgress { remaining } = &answered.claimed else { return Ok(answered) };
        in_progress = true;
        let left = patience
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(answered);
        }
        // Half fixed, half random: waiters of one key spread out, and none spins.
        let spread = pause / 2 + random_up_to(pause / 2);
        sleep(spread.min((*remaining).max(Duration::from_millis(1))).min(left)).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// One logical claim, with what can be seen of it.
async fn claim_seen<C: Claims>(
    store: &C,
    asked: &Asked,
) -> Result<Answered<C::With>, ClaimFailure> {
    let operation = &asked.operation;
    let span = spans::claim(operation, asked.key_hash);
    let asking = Instant::now();
    let answered = claim_once(store, asked).instrument(span.clone()).await;
    let claimed = answered.as_ref().ok().map(|answered| &answered.claimed);
    span.record("idem.outcome", telemetry::claim_answer(claimed));
    if let Some(Claimed::Acquired(acquired)) = claimed {
        span.record("idem.attempt", acquired.fence.attempt);
    }
    telemetry::claimed(operation, claimed, asking.elapsed());
    answered
}

/// One logical claim: the same call with the same owner until it is answered (R5), within the
/// operation's limit.
async fn claim_once<C: Claims>(
    store: &C,
    asked: &Asked,
) -> Result<Answered<C::With>, ClaimFailure> {
    let claim = asked.by(Owner::random());
    let deadline = Instant::now() + asked.operation.claim_limit();
    let mut backoff = Backoff::default();
    let mut may_be_applied = false;
    loop {
        let sent = Instant::now();
        let answered = timeout_at(deadline, store.claim(&claim)).await;
        let error = match answered {
            Ok(Ok((Claimed::Acquired(acquired), _))) if sent.elapsed() >= acquired.lease => {
                may_be_applied = true;
                let detail = "the store answered after the lease that it gave was over";
                StoreError::new(ErrorKind::OutcomeUnknown, Verb::Claim, detail)
            }
            Ok(Ok((claimed, with))) => return Ok(Answered { claimed, with, sent }),
            Ok(Err(error)) => error,
            Err(_) => {
                let detail = "the store did not answer in time";
                let error = StoreError::new(C::UNANSWERED, Verb::Claim, detail);
                may_be_applied |= !error.kind().is_known_not_applied();
                return Err(ClaimFailure { error, key_may_be_in_use: may_be_applied });
            }
        };
        may_be_applied |= !error.kind().is_known_not_applied();
        if !error.kind().is_transient() || !backoff.wait_until(deadline).await {
            return Err(ClaimFailure { error, key_may_be_in_use: may_be_applied });
        }
    }
}
