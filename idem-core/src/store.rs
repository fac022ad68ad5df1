//! # The contract of a store
//!
//! A store keeps one [`Record`](crate::record::Record) for each (scope, key) and changes it only
//! through the verbs below. It promises three things: **one** caller wins a claim, however many
//! arrive at once; nobody writes under a fence that has been lost; and what it said was stored
//! stays stored as durably as its database can keep anything.
//!
//! *For implementers.* [`Store`] has no defaulted methods: a new verb must be thought about in
//! every store. The rules are in [`transition`](crate::transition) as pure functions. A store
//! that can lock a record may read it, call the function and apply the
//! [`Change`](crate::transition::Change) in one atomic step; one that talks to a server writes
//! the same rules as one statement or script and proves it with the testkit.
//!
//! 1. **Atomic claim** (R1, R2). No path reads first and inserts later outside one atomic step.
//!    Losers change nothing.
//! 2. **One clock** (R6): the store's own, read inside the step, after any wait for a lock. A
//!    lease that is returned is never over. A call waits no longer than a bound: a claim that
//!    waited on its own record says `InProgress`, one that waited on anything else is an error
//!    of kind [`NotApplied`](crate::error::ErrorKind::NotApplied).
//! 3. **The whole fence** (R8): scope, key, incarnation, attempt and owner, compared in the same
//!    step as the write. The incarnation is made by the store and differs from every earlier one.
//! 4. **Repeats are harmless** (R5): the same claim by the same owner, the same completion, the
//!    same recovery point and the same release may each arrive twice, at any later time.
//! 5. **Opaque bytes** (R3): keys, scopes and payloads come back as they went in; nothing is
//!    folded, trimmed or cut, and what does not fit is an error before anything is written.
//! 6. **Nothing expires in progress** (R10). Expiry of a completed record is judged when it is
//!    read.
//! 7. **Honest errors** (R9): what may have been applied is `OutcomeUnknown`, never `NotApplied`.
//!    What cannot be decoded is `CorruptRecord`, never absent.
//! 8. **Droppable** (R25): every future may be dropped at any await; the write has then happened
//!    or not, and no lock, connection or transaction is left for the next caller to trip over.
//!
//! Each verb lists what it does in each state. *Own* means under the fence that was passed; an
//! expired record counts as absent.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::claim::{Claim, Claimed};
use crate::codec::Sealed;
use crate::error::StoreError;
use crate::key::{Key, Scope};
use crate::record::{Fence, Observed, Recovery};

/// Where records live: eight verbs over one record each, and two to look after them all.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Takes the record, or says who has it or how it ended, in one atomic step.
    ///
    /// # Behavior
    /// The claim table of the design, in its order; see [`transition::claim`](crate::transition::claim).
    /// Absent or expired: inserted, unless the policy is `Only`. Own owner, in progress: acquired
    /// again with its lease set anew. Another request: mismatch. Live: in progress. Lapsed: taken
    /// over where the policy allows. Completed: the reply.
    ///
    /// # Errors
    /// `WrongSchema` for a fingerprint scheme that the caller does not know; `CorruptRecord`;
    /// `StoreFull`; `NotApplied` or `OutcomeUnknown` when the store could not be reached.
    ///
    /// # Cancel safety
    /// The claim may have been applied. Nobody then holds it; it lapses with its lease.
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError>;

    /// Sets the lease to `lease` from now. It is never shortened, except by zero, which gives it
    /// up at once and for good.
    ///
    /// # Behavior
    /// Own and in progress, lapsed or not: renewed, or [`Renewed::GivenUp`] once it was given up.
    /// Own and completed: [`Renewed::Completed`], nothing is written. Otherwise: fence lost.
    ///
    /// # Errors
    /// `FenceLost`, and those of the store itself.
    ///
    /// # Cancel safety
    /// The lease may have been set.
    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError>;

    /// Sets a recovery point and the lease in one write.
    ///
    /// # Behavior
    /// Own and in progress: written where number - 1 stands (0 is none); the same number with the
    /// same bytes again is Ok; anything else is refused. Otherwise: fence lost. A lease that was
    /// given up stays so.
    ///
    /// # Errors
    /// `Refused`, `FenceLost`, and those of the store itself.
    ///
    /// # Cancel safety
    /// The recovery point may have been written; writing the same one again is Ok.
    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError>;

    /// Stores the reply and ends the execution.
    ///
    /// # Behavior
    /// Own and in progress, lapsed or not: completed; input and recovery point go; the expiry is
    /// fixed. Own and completed with the same bytes: Ok. Otherwise: fence lost.
    ///
    /// # Errors
    /// `FenceLost`, and those of the store itself.
    ///
    /// # Cancel safety
    /// The reply may have been stored; storing the same one again is Ok.
    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError>;

    /// Deletes the record, for a rejection found before anything was done.
    ///
    /// # Behavior
    /// Own, in progress, attempt 1, no recovery point: deleted. Own but later than that: refused.
    /// Absent: Ok, it was released before. Own and completed, or another's: fence lost.
    ///
    /// # Errors
    /// `Refused`, `FenceLost`, and those of the store itself.
    ///
    /// # Cancel safety
    /// The record may be gone; releasing it again is Ok.
    async fn release(&self, fence: &Fence) -> Result<(), StoreError>;

    /// Reads one record; an expired one is `None`.
    ///
    /// # Errors
    /// `CorruptRecord`, and those of the store itself.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError>;

    /// Pages through the records whose lease is over, oldest lease first.
    ///
    /// `after` is the cursor of the page before. A page holds at most `limit` records, and no
    /// more than [`MAX_PAGE`].
    ///
    /// # Errors
    /// `InvalidInput` for a cursor that is not this store's; `CorruptRecord`; those of the store.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError>;

    /// Deletes up to `limit` expired records (R10, R11), and says whether more wait. At most
    /// [`MAX_PAGE`] go in one call.
    ///
    /// Also deleted: a lapsed record that marks begun, never began, and has outlived its
    /// retention. Nothing else in progress is ever touched.
    ///
    /// # Errors
    /// Those of the store itself.
    ///
    /// # Cancel safety
    /// Some may be gone.
    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError>;
}

/// The most records in one page or one batch.
pub const MAX_PAGE: u32 = 1_000;

/// `limit` as a store takes it: at least 1 and no more than [`MAX_PAGE`].
pub fn page_size(limit: u32) -> u32 {
    limit.clamp(1, MAX_PAGE)
}

/// A lease that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// How long it runs, counted by the caller from an instant before it sent the call (R6).
    pub remaining: Duration,
}

/// What a renewal was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewed {
    /// The lease is held.
    Held(Lease),
    /// The lease was given up under this fence, now or before.
    GivenUp,
    /// The record was completed under this fence; there is nothing to renew.
    Completed,
}

/// Where a page ended, in a form that only its store reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(Vec<u8>);

impl Cursor {
    /// For store authors: a cursor from what the store needs to go on.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// What the store put in.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Some records, and where the next ones are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// In the order of the listing.
    pub records: Vec<Observed>,
    /// Where to go on; `None` when this was the last page.
    pub next: Option<Cursor>,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// How many records went.
    pub deleted: u32,
    /// Whether more wait.
    pub more: bool,
}

macro_rules! forward_store {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<S: Store + ?Sized> Store for $pointer<S> {
            async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
                (**self).claim(claim).await
            }
            async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
                (**self).renew(fence, lease).await
            }
            async fn checkpoint(
                &self,
                fence: &Fence,
                recovery: &Recovery,
                lease: Duration,
            ) -> Result<Lease, StoreError> {
                (**self).checkpoint(fence, recovery, lease).await
            }
            async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
                (**self).complete(fence, reply).await
            }
            async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
                (**self).release(fence).await
            }
            async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
                (**self).get(scope, key).await
            }
            async fn lapsed(
                &self,
                after: Option<&Cursor>,
                limit: u32,
            ) -> Result<Page, StoreError> {
                (**self).lapsed(after, limit).await
            }
            async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
                (**self).sweep(limit).await
            }
        }
    )*};
}

forward_store!(Arc, Box);

const _: Option<&dyn Store> = None; // The trait stays usable as `dyn Store`.
