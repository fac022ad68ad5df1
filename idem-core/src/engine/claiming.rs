//! Winning a claim, or learning who has it.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::claim::{Claim, Claimed, Takeover};
use crate::codec::Sealed;
use crate::engine::backoff::{Backoff, random_up_to};
use crate::error::{ErrorKind, StoreError, Verb};
use crate::fingerprint::Fingerprints;
use crate::key::{Key, Scope};
use crate::operation::{Begun, Operation};
use crate::record::Owner;
use crate::store::Store;

/// What a claim says, apart from who makes it.
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) scope: Scope,
    pub(super) key: Key,
    pub(super) fingerprints: Fingerprints,
    pub(super) input: Option<Sealed>,
    pub(super) takeover: Takeover,
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

/// A claim that failed, and whether a copy of it may have been applied all the same.
pub(super) struct ClaimFailure {
    pub(super) error: StoreError,
    pub(super) may_be_applied: bool,
}

/// Claims, and where the operation waits for the first one to finish, asks again until then.
/// With the answer comes the instant before it was asked for: leases are counted from there (R6).
pub(super) async fn claim(
    store: &dyn Store,
    asked: &Asked,
) -> Result<(Claimed, Instant), ClaimFailure> {
    let patience = asked.operation.wait().map(|wait| Instant::now() + wait);
    let mut pause = Duration::from_millis(10);
    loop {
        let (claimed, sent) = claim_once(store, asked).await?;
        let Claimed::InProgress { remaining } = &claimed else { return Ok((claimed, sent)) };
        let now = Instant::now();
        let Some(left) = patience.and_then(|until| until.checked_duration_since(now)) else {
            return Ok((claimed, sent));
        };
        // Half fixed, half random: waiters of one key spread out, and none spins.
        let spread = pause / 2 + random_up_to(pause / 2);
        sleep(spread.min((*remaining).max(Duration::from_millis(1))).min(left)).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// One logical claim: the same call with the same owner until it is answered (R5), within the
/// operation's limit.
async fn claim_once(store: &dyn Store, asked: &Asked) -> Result<(Claimed, Instant), ClaimFailure> {
    let claim = asked.by(Owner::random());
    let mut backoff = Backoff::until(Instant::now() + asked.operation.claim_limit());
    let mut may_be_applied = false;
    loop {
        let sent = Instant::now();
        let answered = timeout_at(backoff.deadline(), store.claim(&claim)).await;
        let error = match answered {
            Ok(Ok(Claimed::Acquired(acquired))) if sent.elapsed() >= acquired.lease => {
                may_be_applied = true;
                let detail = "the store answered after the lease that it gave was over";
                StoreError::new(ErrorKind::OutcomeUnknown, Verb::Claim, detail)
            }
            Ok(Ok(claimed)) => return Ok((claimed, sent)),
            Ok(Err(error)) => error,
            Err(_) => {
                let detail = "the store did not answer in time";
                let error = StoreError::new(ErrorKind::OutcomeUnknown, Verb::Claim, detail);
                return Err(ClaimFailure { error, may_be_applied: true });
            }
        };
        may_be_applied |= !error.kind().is_known_not_applied();
        if !error.kind().is_transient() || !backoff.wait().await {
            return Err(ClaimFailure { error, may_be_applied });
        }
    }
}
