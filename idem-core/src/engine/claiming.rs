//! Winning a claim, or learning who has it.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use crate::claim::{Claim, Claimed, Takeover};
use crate::codec::{CodecError, Sealed};
use crate::engine::Engine;
use crate::engine::backoff::{Backoff, random_up_to};
use crate::engine::gate::Pass;
use crate::engine::taking_over::{Route, claim_what_can_be_read};
use crate::error::{ErrorKind, StoreError, Verb};
use crate::fingerprint::Fingerprints;
use crate::key::{Key, Scope};
use crate::log_hash::KeyHash;
use crate::operation::{Begun, Operation};
use crate::record::Owner;
use crate::reply::Reply;
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
    /// What is stored where the operation wants a server error stored.
    pub(super) server_error: Reply,
    /// Where the call went, if it says so.
    pub(super) route: Option<Route>,
    /// How long to wait for a first one that is still running.
    pub(super) patience: Option<Duration>,
}

impl Asked {
    fn by(&self, owner: Owner, takeover: Takeover) -> Claim<'_> {
        Claim::new(
            &self.scope,
            &self.key,
            owner,
            self.operation.name(),
            &self.fingerprints,
            self.operation.lease(),
            self.operation.retention(),
            takeover,
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

/// Why a claim was not answered.
pub(super) enum Unclaimed {
    /// It failed.
    Failed(ClaimFailure),
    /// It would have taken over what this process cannot read.
    Unreadable(CodecError),
}

impl From<ClaimFailure> for Unclaimed {
    fn from(failure: ClaimFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Where a claim is made: in the store itself, or inside a transaction of it.
#[async_trait]
pub(super) trait Claims: Send + Sync {
    /// What a claim that was won comes with; nothing, for one that was not.
    type With: Default + Send;

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

impl<W: Default> Answered<W> {
    pub(super) fn without(claimed: Claimed, sent: Instant) -> Self {
        Self { claimed, with: W::default(), sent }
    }
}

/// Claims, and where the call waits for the first one to finish, asks again until then. While it
/// waits others have its slot.
pub(super) async fn claim<C: Claims>(
    store: &C,
    engine: &Engine,
    asked: &Asked,
    pass: &mut Pass,
) -> Result<Answered<C::With>, Unclaimed> {
    let patience = asked.patience.map(|patience| Instant::now() + patience);
    let mut pause = Duration::from_millis(10);
    let mut in_progress = false;
    loop {
        let answered = claim_what_can_be_read(store, engine, asked).await;
        let answered = answered.map_err(|unclaimed| match unclaimed {
            Unclaimed::Failed(failure) => Unclaimed::Failed(ClaimFailure {
                key_may_be_in_use: failure.key_may_be_in_use || in_progress,
                ..failure
            }),
            unreadable => unreadable,
        })?;
        let Claimed::InProgress { remaining } = &answered.claimed else { return Ok(answered) };
        in_progress = true;
        let Some(until) = patience.filter(|until| *until > Instant::now()) else {
            return Ok(answered);
        };
        // Half fixed, half random: waiters of one key spread out, and none spins.
        let spread = pause / 2 + random_up_to(pause / 2);
        let wake = Instant::now() + spread.min((*remaining).max(Duration::from_millis(1)));
        if !pass.step_aside(wake.min(until), until).await {
            return Ok(answered);
        }
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// One logical claim, with what can be seen of it.
pub(super) async fn claim_seen<C: Claims>(
    store: &C,
    asked: &Asked,
    takeover: Takeover,
) -> Result<Answered<C::With>, ClaimFailure> {
    let operation = &asked.operation;
    let span = spans::claim(operation, asked.key_hash);
    let asking = Instant::now();
    let answered = claim_once(store, asked, takeover).instrument(span.clone()).await;
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
    takeover: Takeover,
) -> Result<Answered<C::With>, ClaimFailure> {
    let claim = asked.by(Owner::random(), takeover);
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
