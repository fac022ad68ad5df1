//! # The contract of a store
//!
//! A store keeps one [`Record`] for each (scope, key) and changes it only through the verbs below.
//! It promises three things: **one** caller wins a claim, however many arrive at once; nobody
//! writes under a fence that has been lost; and what it said was stored stays stored as durably as
//! its database can keep anything.
//!
//! *For implementers.* [`Store`] has no defaulted methods: a new verb must be thought about in
//! every store. The rules are in [`transition`] as pure functions. A store that can lock a record
//! may read it, call the function and apply the [`Change`](transition::Change) in one atomic step;
//! one that talks to a server writes the same rules as one statement or script and proves it with
//! the testkit.
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
use crate::cursor::LapsedPosition;
use crate::error::StoreError;
use crate::key::{Key, Scope};
use crate::record::{Fence, Observed, Record, Recovery};
use crate::time::Timestamp;
use crate::transition;

/// Where records live: eight verbs over one record each, and two to look after them all.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Takes the record, or says who has it or how it ended, in one atomic step.
    ///
    /// # Behavior
    /// The claim table of the design, in its order; see [`transition::claim`].
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

impl Page {
    /// For store authors: the page of lapsed records that comes after `after`, from all records in
    /// any order. A store with an index by the end of the lease does not read them all.
    ///
    /// `after` and `limit` are those of [`Store::lapsed`], and `now` is the store's.
    ///
    /// # Errors
    /// `InvalidInput` for a cursor of another listing.
    pub fn of_lapsed<'a>(
        records: impl IntoIterator<Item = &'a Record>,
        after: Option<&Cursor>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let after = after.map(LapsedPosition::from_cursor).transpose()?;
        let limit = page_size(limit) as usize;
        let lapsed = records.into_iter().filter(|record| transition::is_lapsed(record, now));
        let mut lapsed: Vec<_> = lapsed
            .filter_map(|record| Some((LapsedPosition::of_record(record)?, record)))
            .filter(|(position, _)| after.as_ref().is_none_or(|after| position > after))
            .collect();
        lapsed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let more = lapsed.len() > limit;
        lapsed.truncate(limit);
        let next = lapsed.last().filter(|_| more).map(|(position, _)| position.to_cursor());
        let observed = |(_, record): (_, &Record)| Observed { record: record.clone(), now };
        Ok(Self { records: lapsed.into_iter().map(observed).collect(), next })
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::ListPosition;
    use crate::error::ErrorKind;
    use crate::fingerprint::{Fingerprint, Scheme};
    use crate::record::{Incarnation, OperationName, Owner, Retention, State};

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_unix_micros(micros)
    }

    fn record(key: &str, state: State) -> Record {
        Record {
            scope: Scope::new("a").unwrap(),
            key: Key::new(key).unwrap(),
            operation: OperationName::new("charge").unwrap(),
            fingerprint: Fingerprint::from_parts(Scheme::from_byte(1), [0; 32]),
            input: None,
            attempt: 1,
            owner: Owner::from_bytes([0; 16]),
            incarnation: Incarnation::from_bytes([0; 16]),
            created_at: at(0),
            retention: Retention::Forever,
            marks_begun: false,
            state,
        }
    }

    fn held(key: &str, until: i64) -> Record {
        let state = State::InProgress { locked_until: at(until), given_up: false, recovery: None };
        record(key, state)
    }

    fn keys(page: &Page) -> Vec<&[u8]> {
        page.records.iter().map(|seen| seen.record.key.as_bytes()).collect()
    }

    #[test]
    fn lapsed_records_are_paged_by_the_end_of_the_lease_then_by_key() {
        let reply = Sealed::from_bytes(b"done".to_vec());
        let done = State::Completed { reply, completed_at: at(1), expires_at: Some(at(2)) };
        let all = [
            held("now", 10),
            held("live", 11),
            record("done", done),
            held("y", 5),
            held("x", 5),
            held("first", 4),
        ];
        let page = |after: Option<&Cursor>| Page::of_lapsed(&all, after, 2, at(10)).unwrap();
        let first = page(None);
        assert_eq!(keys(&first), [&b"first"[..], b"x"]);
        assert!(first.records.iter().all(|seen| seen.now == at(10)));
        let second = page(first.next.as_ref());
        assert_eq!(keys(&second), [&b"y"[..], b"now"]);
        assert_eq!(second.next, None, "a full page that is the last has no cursor");
        assert_eq!(keys(&Page::of_lapsed(&all, None, 0, at(10)).unwrap()), [&b"first"[..]]);
        assert_eq!(Page::of_lapsed([], None, 2, at(10)).unwrap(), Page::default());
    }

    #[test]
    fn a_cursor_of_another_listing_is_refused() {
        let seen = Observed { record: held("a", 1), now: at(2) };
        let foreign = ListPosition::of(&seen).to_cursor();
        let error = Page::of_lapsed([&seen.record], Some(&foreign), 1, at(2)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
