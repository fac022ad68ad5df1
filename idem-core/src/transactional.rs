//! Stores that lend their own transaction, for effects in the same database (R19).

use std::time::Duration;

use async_trait::async_trait;

use crate::claim::{Claim, Claimed};
use crate::codec::Sealed;
use crate::error::StoreError;
use crate::outbox::OutboxMessage;
use crate::record::{Fence, Recovery};
use crate::store::{Lease, Store};

/// A store whose database can commit a handler's own rows together with the record.
///
/// Two forms use it. *Claim first*: the claim is committed, then rows and completion commit
/// together. *One commit*: claim, rows and completion commit together; a concurrent duplicate is
/// then told `InProgress` within a bound instead of waiting.
///
/// A repeat is refused here (R5): [`complete_in`](Self::complete_in) or
/// [`checkpoint_in`](Self::checkpoint_in) that finds itself done already is an error of kind
/// [`AlreadyApplied`](crate::error::ErrorKind::AlreadyApplied), since the rows beside it would
/// stand twice.
///
/// Dropping a transaction rolls it back. Every future may be dropped: the transaction is then not
/// committed, except in [`commit`](Self::commit), where the outcome is unknown.
#[async_trait]
pub trait TransactionalStore: Store {
    /// What a handler's own queries run on.
    type Connection: Send + ?Sized;
    /// An open transaction.
    type Transaction: Send + 'static;

    /// The connection inside a transaction.
    fn connection<'t>(&self, transaction: &'t mut Self::Transaction) -> &'t mut Self::Connection;

    /// Opens a transaction.
    ///
    /// # Errors
    /// `NotApplied` when none can be had within the store's bound.
    async fn begin(&self) -> Result<Self::Transaction, StoreError>;

    /// Locks the record's own row first and checks the fence. Without it a heartbeat in between
    /// makes the completion fail with a serialization error under stricter isolation levels.
    ///
    /// # Errors
    /// `FenceLost` when it is not in progress under this fence.
    async fn hold_in(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
    ) -> Result<(), StoreError>;

    /// [`Store::claim`] inside the transaction: what it wins stands only once that commits.
    ///
    /// # Errors
    /// Those of [`Store::claim`].
    async fn claim_in(
        &self,
        transaction: &mut Self::Transaction,
        claim: &Claim<'_>,
    ) -> Result<Claimed, StoreError>;

    /// Marks a place to come back to: what was written before it survives
    /// [`undo_to_savepoint_in`](Self::undo_to_savepoint_in). A later mark replaces the earlier.
    ///
    /// # Errors
    /// Those of the store itself.
    async fn savepoint_in(&self, transaction: &mut Self::Transaction) -> Result<(), StoreError>;

    /// Takes back everything written since the savepoint, so that an error reply can be stored.
    ///
    /// # Errors
    /// Those of the store itself.
    async fn undo_to_savepoint_in(
        &self,
        transaction: &mut Self::Transaction,
    ) -> Result<(), StoreError>;

    /// [`Store::checkpoint`] inside the transaction: for the rows of a step that is not the last.
    ///
    /// # Errors
    /// Those of [`Store::checkpoint`], and `AlreadyApplied`.
    async fn checkpoint_in(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError>;

    /// [`Store::complete`] inside the transaction.
    ///
    /// # Errors
    /// Those of [`Store::complete`], and `AlreadyApplied`.
    async fn complete_in(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError>;

    /// Puts a message into the outbox, to be sent once the transaction has committed.
    ///
    /// # Errors
    /// Those of the store itself.
    async fn push_in(
        &self,
        transaction: &mut Self::Transaction,
        message: &OutboxMessage,
    ) -> Result<(), StoreError>;

    /// Commits.
    ///
    /// # Errors
    /// `OutcomeUnknown` when the acknowledgement was lost: the caller asks its own record, and
    /// never runs the body again (R19). `NotApplied` when it is known to have been rolled back.
    async fn commit(&self, transaction: Self::Transaction) -> Result<(), StoreError>;

    /// Rolls back.
    ///
    /// # Errors
    /// Those of the store itself; the transaction is gone in any case.
    async fn rollback(&self, transaction: Self::Transaction) -> Result<(), StoreError>;
}
