//! Local effects: the handler's own rows commit with the record, or not at all (R19).

use tokio::sync::OwnedRwLockWriteGuard;

use crate::engine::commit;
use crate::engine::execution::{Execution, failure_of_store};
use crate::engine::failure::{Failure, Misuse};
use crate::error::{ErrorKind, StoreError};
use crate::operation::LocalForm;
use crate::outbox::OutboxMessage;
use crate::record::Fence;
use crate::reply::Reply;
use crate::transactional::TransactionalStore;

/// The handler's transaction: its rows, its outbox messages and the reply commit together.
///
/// Dropped without [`commit`](Self::commit), everything in it is taken back.
pub struct Transaction<S: TransactionalStore + Clone> {
    store: S,
    opened: Option<Opened<S>>,
}

/// An open transaction and what it holds up. The transaction goes first: only then may others
/// write to the row again.
pub(super) struct Opened<S: TransactionalStore> {
    pub(super) open: S::Transaction,
    pub(super) guard: OpenGuard,
}

/// Says that the transaction is gone, however it ends.
pub(super) struct OpenGuard {
    pub(super) execution: Execution,
    /// Keeps heartbeats and recovery points away from the row; none in the one-commit form,
    /// whose record nobody else can see yet.
    _row: Option<OwnedRwLockWriteGuard<()>>,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.execution.inner.local.close();
    }
}

impl<S: TransactionalStore + Clone> Drop for Transaction<S> {
    fn drop(&mut self) {
        let Some(Opened { open, guard }) = self.opened.take() else { return };
        match guard.execution.inner.operation.local_form() {
            LocalForm::ClaimFirst => drop(open),
            // The claim is in it too: the engine undoes the rows and stores the reply with it.
            LocalForm::OneCommit => guard.execution.inner.local.give_back(Box::new(open)),
        }
    }
}

/// Proof that a reply was committed with the handler's rows; the handler returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed(pub(super) Reply);

impl Committed {
    /// The reply that stands.
    pub fn reply(&self) -> &Reply {
        &self.0
    }
}

impl From<Committed> for Reply {
    fn from(committed: Committed) -> Self {
        committed.0
    }
}

impl Execution {
    /// Opens a transaction in the store's own database. The code is the same in both forms of
    /// [`LocalForm`]; in the one-commit form it is the transaction that holds the claim.
    ///
    /// The heartbeat pauses while it is open, so it has a time limit
    /// ([`transaction_limit`](crate::operation::Operation::transaction_limit)): past it the
    /// handler is dropped and everything is taken back. The lease is renewed to cover that limit
    /// first, and a lease is never shortened: after a crash its key is held for as long.
    ///
    /// # Errors
    /// A [`Failure`] for the handler to return: lease lost, a [`Misuse`], or the store's failure.
    ///
    /// # Cancel safety
    /// Nothing stays open.
    pub async fn transaction<S>(&self, store: &S) -> Result<Transaction<S>, Failure>
    where
        S: TransactionalStore + Clone,
    {
        let Some(fence) = self.inner.fence.clone() else {
            return Err(Misuse::Unprotected.into());
        };
        if self.is_lease_lost() {
            return Err(Failure::lease_lost());
        }
        self.inner.local.ask();
        match self.inner.operation.local_form() {
            LocalForm::OneCommit => self.borrow_the_claims(store).await,
            LocalForm::ClaimFirst => self.open(store, &fence).await,
        }
    }

    async fn borrow_the_claims<S>(&self, store: &S) -> Result<Transaction<S>, Failure>
    where
        S: TransactionalStore + Clone,
    {
        let (slot, used) = self.inner.local.take()?;
        let open = match slot.downcast::<S::Transaction>() {
            Ok(open) => *open,
            Err(slot) => {
                self.inner.local.give_back(slot);
                return Err(Misuse::OtherStore.into());
            }
        };
        let guard = OpenGuard { execution: self.clone(), _row: None };
        // From here on what is dropped gives the transaction back.
        let mut transaction =
            Transaction { store: store.clone(), opened: Some(Opened { open, guard }) };
        if let (true, Some(opened)) = (used, &mut transaction.opened) {
            // What the handler wrote before it gave the transaction back is taken back.
            let undone = store.undo_to_savepoint_in(&mut opened.open).await;
            undone.map_err(failure_before_commit)?;
        }
        Ok(transaction)
    }

    async fn open<S>(&self, store: &S, fence: &Fence) -> Result<Transaction<S>, Failure>
    where
        S: TransactionalStore + Clone,
    {
        self.inner.local.open()?;
        // From here on this guard closes what was opened, however this future ends.
        let mut guard = OpenGuard { execution: self.clone(), _row: None };
        let (operation, lease) = (&self.inner.operation, &self.inner.lease);
        guard._row = Some(lease.row_alone().await);
        self.inner.local.start_limit();
        // No heartbeat renews it while the transaction holds the row.
        let span = operation.lease() + operation.transaction_limit();
        let renewed = lease.renew(self.inner.engine.store(), fence, span).await;
        if !renewed.map_err(failure_before_commit)? {
            return Err(Failure::lease_lost());
        }
        let mut open = store.begin().await.map_err(failure_before_commit)?;
        store.hold_in(&mut open, fence).await.map_err(|error| {
            lease.note(&error);
            failure_before_commit(error)
        })?;
        Ok(Transaction { store: store.clone(), opened: Some(Opened { open, guard }) })
    }
}

impl<S: TransactionalStore + Clone> Transaction<S> {
    /// The connection, for the handler's own queries.
    ///
    /// # Panics
    /// Never while the transaction is borrowed from its owner: only ending it takes it out.
    pub fn connection(&mut self) -> &mut S::Connection {
        let opened = self.opened.as_mut().expect("a transaction is open until it is ended");
        self.store.connection(&mut opened.open)
    }

    /// Puts a message into the outbox, to be sent once this has committed (R21).
    ///
    /// # Errors
    /// The store's failure.
    ///
    /// # Cancel safety
    /// The message may be in the transaction; it is sent only if that commits.
    pub async fn push(&mut self, message: &OutboxMessage) -> Result<(), Failure> {
        let opened = self.opened.as_mut().expect("a transaction is open until it is ended");
        self.store.push_in(&mut opened.open, message).await.map_err(failure_before_commit)
    }

    /// Completes the record with `reply` and commits it with everything in this transaction.
    ///
    /// When the acknowledgement of the commit is lost, the own record decides, and the body is
    /// not run again.
    ///
    /// # Errors
    /// A [`Failure`] for the handler to return; unless it is unknown, nothing was committed.
    ///
    /// # Cancel safety
    /// The commit goes on to its end, and the engine learns of it.
    pub async fn commit(mut self, reply: impl Into<Reply>) -> Result<Committed, Failure> {
        let task = commit::commit(self.store.clone(), self.take(), reply.into());
        tokio::spawn(task).await?.map(Committed)
    }

    /// Stores the result of a step that is not the last, and commits it with everything in this
    /// transaction: a resumed execution finds it with [`Execution::done`] and does not write the
    /// rows again.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    ///
    /// # Cancel safety
    /// As [`commit`](Self::commit).
    pub async fn commit_step<T>(mut self, name: &str, result: &T) -> Result<(), Failure>
    where
        T: serde::Serialize + ?Sized,
    {
        if self.is_one_commit() {
            return Err(Misuse::OneCommitHasNoSteps.into());
        }
        let result = serde_json::to_vec(result)?;
        let task = commit::commit_step(self.store.clone(), self.take(), name.to_owned(), result);
        tokio::spawn(task).await?
    }

    /// Takes everything back. The reply that the handler then returns is stored alone.
    ///
    /// # Errors
    /// The store's failure; the transaction is taken back in any case.
    ///
    /// # Cancel safety
    /// It is taken back in any case.
    pub async fn rollback(mut self) -> Result<(), Failure> {
        if self.is_one_commit() {
            return Ok(()); // Dropping it hands it back; the engine undoes the rows.
        }
        let Opened { open, guard: _guard } = self.take();
        self.store.rollback(open).await.map_err(failure_before_commit)
    }

    fn is_one_commit(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| {
            opened.guard.execution.inner.operation.local_form() == LocalForm::OneCommit
        })
    }

    fn take(&mut self) -> Opened<S> {
        match self.opened.take() {
            Some(opened) => opened,
            None => unreachable!("only what ends a transaction takes it out, and consumes it"),
        }
    }
}

/// A store's failure while nothing of the transaction can have been committed.
pub(super) fn failure_before_commit(error: StoreError) -> Failure {
    match error.kind() {
        ErrorKind::FenceLost => failure_of_store(error),
        _ => Failure::rolled_back(error),
    }
}
