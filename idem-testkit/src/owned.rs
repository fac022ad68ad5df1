//! A claim that owns what a [`Claim`] borrows.

use std::time::Duration;

use idem_core::claim::{Claim, Takeover};
use idem_core::codec::Sealed;
use idem_core::fingerprint::Fingerprints;
use idem_core::key::{Key, Scope};
use idem_core::record::{OperationName, Owner, Retention};

/// A claim that can wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedClaim {
    pub(crate) scope: Scope,
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    pub(crate) operation: OperationName,
    pub(crate) fingerprints: Fingerprints,
    pub(crate) input: Option<Sealed>,
    pub(crate) marks_begun: bool,
    pub(crate) lease: Duration,
    pub(crate) retention: Retention,
    pub(crate) takeover: Takeover,
}

impl OwnedClaim {
    pub(crate) fn of(claim: &Claim<'_>) -> Self {
        Self {
            scope: claim.scope.clone(),
            key: claim.key.clone(),
            owner: claim.owner,
            operation: claim.operation.clone(),
            fingerprints: claim.fingerprints.clone(),
            input: claim.input.cloned(),
            marks_begun: claim.marks_begun,
            lease: claim.lease,
            retention: claim.retention,
            takeover: claim.takeover,
        }
    }

    pub(crate) fn borrow(&self) -> Claim<'_> {
        Claim::new(
            &self.scope,
            &self.key,
            self.owner,
            &self.operation,
            &self.fingerprints,
            self.lease,
            self.retention,
            self.takeover,
        )
        .with_input(self.input.as_ref())
        .marking_begun(self.marks_begun)
    }
}
