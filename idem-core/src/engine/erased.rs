//! A transactional store whose types the engine does not know.

use std::any::Any;

use async_trait::async_trait;

use crate::claim::{Claim, Claimed};
use crate::codec::Sealed;
use crate::error::StoreError;
use crate::record::Fence;
use crate::transactional::TransactionalStore;

pub(super) type Slot = Box<dyn Any + Send>;

/// What the engine itself needs of a transaction in the one-commit form.
#[async_trait]
pub(super) trait LocalStore: Send + Sync {
    async fn begin(&self) -> Result<Slot, StoreError>;
    /// Claims, and marks the place to come back to when the claim was won.
    async fn claim_in(&self, slot: &mut Slot, claim: &Claim<'_>) -> Result<Claimed, StoreError>;
    /// Takes the handler's rows back, stores the reply, and commits it with the claim.
    async fn complete_alone(
        &self,
        slot: Slot,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError>;
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
        slot: Slot,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        let mut open = Self::owned(slot);
        self.0.undo_to_savepoint_in(&mut open).await?;
        self.0.complete_in(&mut open, fence, reply).await?;
        self.0.commit(open).await
    }

    async fn rollback(&self, slot: Slot) -> Result<(), StoreError> {
        self.0.rollback(Self::owned(slot)).await
    }
}
