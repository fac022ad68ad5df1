//! A handler's own rows, for stores that lend their transaction (R19).

use std::any::Any;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::StoreError;
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Fence, Recovery};
use idem_core::store::Lease;
use idem_core::transactional::TransactionalStore;

use crate::fixture::SetupError;

/// Rows of the fixture's own in the store's database: they stand for what a handler does, and
/// they are counted, since an answer alone proves nothing.
///
/// The fixture makes a table of one text column that allows repeats.
#[async_trait]
pub trait Effects<S: TransactionalStore>: Send + Sync + 'static {
    /// Inserts one row that says `marker`, inside the transaction.
    ///
    /// # Errors
    /// When the database refuses.
    async fn insert(&self, connection: &mut S::Connection, marker: &str) -> Result<(), SetupError>;

    /// Counts the committed rows that say `marker`, on a connection of its own.
    ///
    /// # Errors
    /// When the database cannot be asked.
    async fn count(&self, store: &S, marker: &str) -> Result<u64, SetupError>;
}

/// An open transaction, whatever its type.
pub(crate) type Transaction = Box<dyn Any + Send>;

/// [`TransactionalStore`] and [`Effects`] together, with their types erased.
#[async_trait]
pub(crate) trait Transactions: Send + Sync {
    async fn begin(&self) -> Result<Transaction, StoreError>;
    async fn hold_in(&self, tx: &mut Transaction, fence: &Fence) -> Result<(), StoreError>;
    async fn claim_in(
        &self,
        tx: &mut Transaction,
        claim: &Claim<'_>,
    ) -> Result<Claimed, StoreError>;
    async fn savepoint_in(&self, tx: &mut Transaction) -> Result<(), StoreError>;
    async fn undo_to_savepoint_in(&self, tx: &mut Transaction) -> Result<(), StoreError>;
    async fn checkpoint_in(
        &self,
        tx: &mut Transaction,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError>;
    async fn complete_in(
        &self,
        tx: &mut Transaction,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError>;
    async fn push_in(
        &self,
        tx: &mut Transaction,
        message: &OutboxMessage,
    ) -> Result<(), StoreError>;
    async fn commit(&self, tx: Transaction) -> Result<(), StoreError>;
    async fn rollback(&self, tx: Transaction) -> Result<(), StoreError>;
    async fn insert_in(&self, tx: &mut Transaction, marker: &str) -> Result<(), SetupError>;
    async fn count(&self, marker: &str) -> Result<u64, SetupError>;
}

pub(crate) struct Lent<S, E> {
    pub(crate) store: S,
    pub(crate) effects: E,
}

/// A transaction never meets another store's type: the context that opened it holds both.
fn own<S: TransactionalStore>(tx: &mut Transaction) -> &mut S::Transaction {
    tx.downcast_mut().expect("a transaction goes back to the store that opened it")
}

fn take<S: TransactionalStore>(tx: Transaction) -> S::Transaction {
    *tx.downcast().expect("a transaction goes back to the store that opened it")
}

#[async_trait]
impl<S: TransactionalStore, E: Effects<S>> Transactions for Lent<S, E> {
    async fn begin(&self) -> Result<Transaction, StoreError> {
        Ok(Box::new(self.store.begin().await?))
    }

    async fn hold_in(&self, tx: &mut Transaction, fence: &Fence) -> Result<(), StoreError> {
        self.store.hold_in(own::<S>(tx), fence).await
    }

    async fn claim_in(
        &self,
        tx: &mut Transaction,
        claim: &Claim<'_>,
    ) -> Result<Claimed, StoreError> {
        self.store.claim_in(own::<S>(tx), claim).await
    }

    async fn savepoint_in(&self, tx: &mut Transaction) -> Result<(), StoreError> {
        self.store.savepoint_in(own::<S>(tx)).await
    }

    async fn undo_to_savepoint_in(&self, tx: &mut Transaction) -> Result<(), StoreError> {
        self.store.undo_to_savepoint_in(own::<S>(tx)).await
    }

    async fn checkpoint_in(
        &self,
        tx: &mut Transaction,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.store.checkpoint_in(own::<S>(tx), fence, recovery, lease).await
    }

    async fn complete_in(
        &self,
        tx: &mut Transaction,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        self.store.complete_in(own::<S>(tx), fence, reply).await
    }

    async fn push_in(
        &self,
        tx: &mut Transaction,
        message: &OutboxMessage,
    ) -> Result<(), StoreError> {
        self.store.push_in(own::<S>(tx), message).await
    }

    async fn commit(&self, tx: Transaction) -> Result<(), StoreError> {
        self.store.commit(take::<S>(tx)).await
    }

    async fn rollback(&self, tx: Transaction) -> Result<(), StoreError> {
        self.store.rollback(take::<S>(tx)).await
    }

    async fn insert_in(&self, tx: &mut Transaction, marker: &str) -> Result<(), SetupError> {
        self.effects.insert(self.store.connection(own::<S>(tx)), marker).await
    }

    async fn count(&self, marker: &str) -> Result<u64, SetupError> {
        self.effects.count(&self.store, marker).await
    }
}
