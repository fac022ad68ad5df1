//! A transactional store whose types the engine does not know.

use async_trait::async_trait;

use crate::claim::{Claim, Claimed};
use crate::codec::Sealed;
use crate::engine::claiming::Claims;
use crate::engine::lease::{MIN_BOUND, bounded};
use crate::engine::local_state::Slot;
use crate::error::{ErrorKind, StoreError, Verb};
use crate::record::Fence;
use crate::transactional::TransactionalStore;

/// What the engine itself needs of a transaction in the one-commit form.
#[async_trait]
pub(super) trait LocalStore: Send + Sync {
    async fn begin(&self) -> Result<Slot, StoreError>;
    /// Claims, and marks the place to come back to when the claim was won.
    async fn claim_in(&self, slot: &mut Slot, claim: &Claim<'_>) -> Result<Claimed, StoreError>;
    /// Takes the handler's rows back, and stores the reply with the claim.
    async fn complete_alone(
        &self,
        slot: &mut Slot,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError>;
    async fn commit(&self, slot: Slot) -> Result<(), StoreError>;
    async fn rollback(&self, slot: Slot) -> Result<(), StoreError>;
}

pub(super) struct Erased<S>(pub(super) S);

impl<S: TransactionalStore> Erased<S> {
    fn open(slot: &mut Slot) -> &mut S::Transaction {
        slot.downcast_mut().expect("the slot holds this store's transaction")
    }

    fn owned(slot: Slot) -> S::Transaction {
        *slot.downcast().expect("the slot holds this store's transaction")
    }
}

#[async_trait]
impl<S: TransactionalStore> LocalStore for Erased<S> {
    async fn begin(&self) -> Result<Slot, StoreError> {
        Ok(Box::new(self.0.begin().await?))
    }

    async fn claim_in(&self, slot: &mut Slot, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let open = Self::open(slot);
        let claimed = self.0.claim_in(open, claim).await?;
        if let Claimed::Acquired(_) = claimed {
            self.0.savepoint_in(open).await?;
        }
        Ok(claimed)
    }

    async fn complete_alone(
        &self,
        slot: &mut Slot,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        let open = Self::open(slot);
        self.0.undo_to_savepoint_in(open).await?;
        self.0.complete_in(open, fence, reply).await
    }

    async fn commit(&self, slot: Slot) -> Result<(), StoreError> {
        self.0.commit(Self::owned(slot)).await
    }

    async fn rollback(&self, slot: Slot) -> Result<(), StoreError> {
        self.0.rollback(Self::owned(slot)).await
    }
}

/// Claims inside a transaction of its own, which stays open when the claim was won.
pub(super) struct InTransaction<'s>(pub(super) &'s dyn LocalStore);

#[async_trait]
impl Claims for InTransaction<'_> {
    type With = Option<Slot>;
    /// Dropped, the transaction is rolled back.
    const UNANSWERED: ErrorKind = ErrorKind::NotApplied;

    async fn claim(&self, claim: &Claim<'_>) -> Result<(Claimed, Option<Slot>), StoreError> {
        let mut slot = self.0.begin().await?;
        let claimed = self.0.claim_in(&mut slot, claim).await?;
        if let Claimed::Acquired(_) = claimed {
            return Ok((claimed, Some(slot)));
        }
        // It wrote nothing; a failure here changes nothing about the answer.
        let _ = bounded(Verb::Rollback, MIN_BOUND, self.0.rollback(slot)).await;
        Ok((claimed, None))
    }
}
