//! What a claim asks, and what it is told.

use std::time::Duration;

use crate::codec::Sealed;
use crate::fingerprint::{Fingerprint, Fingerprints};
use crate::key::{Key, Scope};
use crate::record::{Fence, Incarnation, OperationName, Owner, Recovery, Retention};
use crate::time::bounded_lease;

/// One claim: everything that the store needs to decide in one atomic step.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Claim<'a> {
    /// Whose key.
    pub scope: &'a Scope,
    /// Which key.
    pub key: &'a Key,
    /// Fresh for each logical call; the same when that call is repeated (R5).
    pub owner: Owner,
    /// The operation, compared with the stored one (R4).
    pub operation: &'a OperationName,
    /// The request under every scheme that this build knows; an insert writes the first (R23).
    pub fingerprints: &'a Fingerprints,
    /// What a resumption without the client needs; written only by an insert.
    pub input: Option<&'a Sealed>,
    /// Whether the operation writes a recovery point before its handler runs (R26).
    pub marks_begun: bool,
    /// How long the holder has before others may take over.
    pub lease: Duration,
    /// How long the reply is kept.
    pub retention: Retention,
    /// What to do about a lapsed record.
    pub takeover: Takeover,
}

impl<'a> Claim<'a> {
    /// A claim with no input, that does not mark begun. The lease is taken within
    /// [`MIN_LEASE`](crate::time::MIN_LEASE) and [`MAX_DURATION`](crate::time::MAX_DURATION).
    #[allow(clippy::too_many_arguments)] // Each of them is required, and each has its own type.
    pub fn new(
        scope: &'a Scope,
        key: &'a Key,
        owner: Owner,
        operation: &'a OperationName,
        fingerprints: &'a Fingerprints,
        lease: Duration,
        retention: Retention,
        takeover: Takeover,
    ) -> Self {
        Self {
            scope,
            key,
            owner,
            operation,
            fingerprints,
            input: None,
            marks_begun: false,
            lease: bounded_lease(lease),
            retention,
            takeover,
        }
    }

    /// Adds what a resumption needs.
    #[must_use]
    pub fn with_input(mut self, input: Option<&'a Sealed>) -> Self {
        self.input = input;
        self
    }

    /// Says whether the operation writes a recovery point before its handler runs.
    #[must_use]
    pub fn marking_begun(mut self, marks_begun: bool) -> Self {
        self.marks_begun = marks_begun;
        self
    }
}

/// Whether a claim may take over a lapsed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Takeover {
    /// Not once a recovery point stands (R26): the record is held until a person settles it.
    Never,
    /// Only below a number of attempts and an age, both judged inside the claim (R27).
    Below {
        /// Taken over while its attempt is lower than this.
        attempts: u32,
        /// Taken over while it was first claimed less than this ago.
        younger_than: Duration,
    },
    /// Only this very life and attempt, and **never inserting**: for a reconciler and for an
    /// operator's commands, which must not start work that nobody asks for (R2).
    Only {
        /// As it was listed.
        incarnation: Incarnation,
        /// As it was listed.
        attempt: u32,
        /// Taken over while it was first claimed less than this ago; `None` is at any age, for a
        /// person who settles or frees it.
        younger_than: Option<Duration>,
    },
}

/// What a claim was told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claimed {
    /// The caller holds the record and executes.
    Acquired(Acquired),
    /// Somebody else holds it.
    InProgress {
        /// How long their lease still runs; they may renew it.
        remaining: Duration,
    },
    /// Nobody holds it, and the policy forbids to take it over.
    Lapsed(Lapsed),
    /// The reply stands.
    Completed(Replay),
    /// The same key was used for another operation or another request.
    Mismatch {
        /// Whether the first one has finished.
        completed: bool,
    },
    /// The policy was [`Takeover::Only`] and there is nothing to take over.
    Gone,
}

/// A claim that was won.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acquired {
    /// What every later write is conditional on.
    pub fence: Fence,
    /// How long the lease runs, counted by the caller from an instant **before** it sent the
    /// claim (R6).
    pub lease: Duration,
    /// How long ago this life of the key was first claimed.
    pub age: Duration,
    /// What earlier attempts have done.
    pub recovery: Option<Recovery>,
    /// The stored input: on a takeover the first claim's, not this one's.
    pub input: Option<Sealed>,
    /// The stored fingerprint, from which downstream keys are derived (R20).
    pub fingerprint: Fingerprint,
    /// It took the place of a lapsed record of another request that never began; count it.
    pub replaced: bool,
}

impl Acquired {
    /// For store authors: the first attempt of a new life, holding what `claim` brought.
    pub fn inserted(claim: &Claim<'_>, incarnation: Incarnation, lease: Duration) -> Self {
        let fence = Fence {
            scope: claim.scope.clone(),
            key: claim.key.clone(),
            incarnation,
            attempt: 1,
            owner: claim.owner,
        };
        Self::held(fence, lease, claim.fingerprints.primary()).with_input(claim.input.cloned())
    }

    /// For store authors: a record held under `fence`, of age zero, with nothing done so far.
    pub fn held(fence: Fence, lease: Duration, fingerprint: Fingerprint) -> Self {
        Self {
            fence,
            lease,
            age: Duration::ZERO,
            recovery: None,
            input: None,
            fingerprint,
            replaced: false,
        }
    }

    /// Sets the age.
    #[must_use]
    pub fn with_age(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }

    /// Sets the recovery point that stands.
    #[must_use]
    pub fn with_recovery(mut self, recovery: Option<Recovery>) -> Self {
        self.recovery = recovery;
        self
    }

    /// Sets the stored input.
    #[must_use]
    pub fn with_input(mut self, input: Option<Sealed>) -> Self {
        self.input = input;
        self
    }

    /// Says that a lapsed record of another request was replaced.
    #[must_use]
    pub fn replacing(mut self, replaced: bool) -> Self {
        self.replaced = replaced;
        self
    }
}

/// A lapsed record that the policy leaves alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lapsed {
    /// Its attempt.
    pub attempt: u32,
    /// How long ago its lease ran out.
    pub since: Duration,
}

impl Lapsed {
    /// For store authors.
    pub fn new(attempt: u32, since: Duration) -> Self {
        Self { attempt, since }
    }
}

/// A reply that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replay {
    /// Framed by the codec.
    pub reply: Sealed,
    /// How long it is still kept; `None` is for ever.
    pub expires_in: Option<Duration>,
    /// The fence under which it was completed, so that an execution can tell its own.
    pub fence: Fence,
}

impl Replay {
    /// For store authors.
    pub fn new(reply: Sealed, expires_in: Option<Duration>, fence: Fence) -> Self {
        Self { reply, expires_in, fence }
    }
}
