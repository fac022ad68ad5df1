//! # The contract of an outbox
//!
//! *For implementers.* [`Outbox`] has no defaulted methods: a new verb must be thought about in
//! every backend.
//!
//! 1. **Order is decided at the push.** Within one ordering key, numbers grow in the order of the
//!    commits: a message that becomes visible never has a lower number than one of its key that
//!    was visible before. Where numbers are given before the commit (a sequence, an
//!    auto-increment column), the push holds a lock of its ordering key until its transaction is
//!    over. A relay never remembers how far it has read, so that nothing is passed over because it
//!    committed late.
//! 2. **One holder for each ordering key.** While one lease holds any message of a key, no other
//!    lease gets one. What [`lease`](Outbox::lease) gets of a key is what stands at its front, without a
//!    gap: a message that waits for its next try, or is dead, holds back all those after it.
//! 3. **The fence** (R8): settling and renewing compare (id, owner) in the same step as the write.
//! 4. **One clock** (R6): the store's, read inside the step. Callers pass and get durations.
//! 5. **A lapsed lease permits takeover and nothing else** (R7): until another has the message,
//!    its holder may still settle or renew it.
//! 6. **Repeats are harmless** (R5): a settlement that arrives again is not *lost*.
//! 7. **Bounded**: limits are clamped as [`page_size`](crate::store::page_size) does; a batch ends
//!    early once its payloads have more than [`MAX_LEASED_BYTES`], with one message at least.
//! 8. **Droppable** (R25): any future may be dropped at any await.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{ErrorKind, StoreError, Verb};
use crate::outbox::{
    Backlog, EntryPage, LeaseMessages, LeasedBatch, Lost, MessageId, MessageLease, MessageState,
    Settlement,
};
use crate::store::{Cursor, MAX_PAGE, Swept};

/// A batch or a page ends early once its payloads have more bytes than this: 16 MiB.
pub const MAX_LEASED_BYTES: usize = 16 * 1024 * 1024;

/// Messages that wait to be sent, as a relay and an operator use them.
///
/// Messages get in by [`push_in`](crate::transactional::TransactionalStore::push_in), in the
/// transaction of what they tell about.
#[async_trait]
pub trait Outbox: Send + Sync + 'static {
    /// Takes messages that are due and that nobody holds, by number.
    ///
    /// # Behavior
    /// A message is taken when it waits, has never failed or its next try is due, and no lease on it
    /// runs. One with an ordering key is taken only where, besides, no running lease holds
    /// another message of its key, and every earlier one of its key is sent, or taken in this
    /// very call, or (with [`past_dead`](LeaseMessages::past_dead)) dead. Taking over from a lease
    /// that ran out adds one to [`lapses`](crate::outbox::Leased::lapses).
    ///
    /// # Errors
    /// Those of the store itself. After `OutcomeUnknown` messages may be held by nobody until the
    /// lease runs out.
    ///
    /// # Cancel safety
    /// As after `OutcomeUnknown`.
    async fn lease(&self, call: &LeaseMessages) -> Result<LeasedBatch, StoreError>;

    /// Sets leases to `lease` from now; none is shortened. Says which ones are lost.
    ///
    /// # Behavior
    /// Held, lapsed or not: renewed. Taken over, settled or gone: lost.
    ///
    /// # Errors
    /// `InvalidInput` for more than [`MAX_PAGE`] leases; those of the store.
    ///
    /// # Cancel safety
    /// The leases may have been set.
    async fn renew(&self, leases: &[MessageLease], lease: Duration) -> Result<Lost, StoreError>;

    /// Notes what became of messages, all in one write. Says which leases were lost; the others
    /// are settled all the same.
    ///
    /// # Behavior
    /// Held, lapsed or not: `Sent` ends it. `Failed` counts a failure, clears the lapses and sets
    /// the next try. `Dead` counts a failure and moves it to the dead letters. `GivenBack` ends
    /// the lease and counts nothing. Settled before under the same lease: Ok, nothing is written.
    /// Taken over or gone: lost.
    ///
    /// # Errors
    /// `InvalidInput` for more than [`MAX_PAGE`] settlements; those of the
    /// store. On an error nothing was written, unless it is `OutcomeUnknown`; then the same call
    /// may be repeated.
    ///
    /// # Cancel safety
    /// They may have been settled; settling them again in the same way is Ok.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Lost, StoreError>;

    /// Pages through the messages in one state, by number. Payloads are left out.
    ///
    /// `after` is the cursor of the page before. A page holds at most `limit` entries.
    ///
    /// # Errors
    /// `InvalidInput` for a cursor that is not this listing's; `CorruptRecord`; those of the store.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn list(
        &self,
        state: MessageState,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<EntryPage, StoreError>;

    /// Puts dead letters back, to be sent anew in their old place, with no failures counted.
    /// Says how many there were: an id that is not a dead letter's counts for nothing.
    ///
    /// They keep their ids. A consumer that has forgotten an id by now takes the message for new.
    ///
    /// # Errors
    /// `InvalidInput` for more than [`MAX_PAGE`] ids; those of the store.
    ///
    /// # Cancel safety
    /// They may have been put back.
    async fn requeue(&self, ids: &[MessageId]) -> Result<u64, StoreError>;

    /// Deletes dead letters for good, and says how many there were.
    ///
    /// # Errors
    /// As [`requeue`](Self::requeue).
    ///
    /// # Cancel safety
    /// They may be gone.
    async fn discard(&self, ids: &[MessageId]) -> Result<u64, StoreError>;

    /// Deletes up to `limit` messages that were sent at least `sent_before` ago, and says whether
    /// more wait. Nothing that was not sent is ever touched.
    ///
    /// # Errors
    /// Those of the store itself.
    ///
    /// # Cancel safety
    /// Some may be gone.
    async fn delete_sent(&self, sent_before: Duration, limit: u32) -> Result<Swept, StoreError>;

    /// Counts what waits.
    ///
    /// # Errors
    /// Those of the store itself.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn backlog(&self) -> Result<Backlog, StoreError>;
}

/// For store authors: refuses a call about more than [`MAX_PAGE`] messages.
///
/// # Errors
/// `InvalidInput`.
pub fn within_page(messages: usize) -> Result<(), StoreError> {
    if messages <= MAX_PAGE as usize {
        return Ok(());
    }
    let detail = "more messages than one call takes";
    Err(StoreError::new(ErrorKind::InvalidInput, Verb::Relay, detail))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<O: Outbox + ?Sized> Outbox for Arc<O> {
    async fn lease(&self, call: &LeaseMessages) -> Result<LeasedBatch, StoreError> {
        (**self).lease(call).await
    }
    async fn renew(&self, leases: &[MessageLease], lease: Duration) -> Result<Lost, StoreError> {
        (**self).renew(leases, lease).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Lost, StoreError> {
        (**self).settle(settlements).await
    }
    async fn list(
        &self,
        state: MessageState,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<EntryPage, StoreError> {
        (**self).list(state, after, limit).await
    }
    async fn requeue(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        (**self).requeue(ids).await
    }
    async fn discard(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        (**self).discard(ids).await
    }
    async fn delete_sent(&self, sent_before: Duration, limit: u32) -> Result<Swept, StoreError> {
        (**self).delete_sent(sent_before, limit).await
    }
    async fn backlog(&self) -> Result<Backlog, StoreError> {
        (**self).backlog().await
    }
}

const _: Option<&dyn Outbox> = None; // The trait stays usable as `dyn Outbox`.
