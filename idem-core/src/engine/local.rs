//! Local effects: the handler's own rows commit with the record, or not at all (R19).

use std::any::Any;

use crate::engine::commit;
use crate::engine::execution::{Execution, failure_of_store};
use crate::engine::failure::{Failure, Misuse};
use crate::error::{ErrorKind, StoreError};
use crate::operation::LocalForm;
use crate::outbox::OutboxMessage;
use crate::record::Fence;
use crate::reply::Reply;
use crate::transactional::TransactionalStore;

/// What became of the execution's transaction.
pub(super) struct LocalState {
    pub(super) phase: Phase,
    asked: bool,
}

pub(super) enum Phase {
    /// None is open.
    Idle,
    /// The one-commit form's transaction, waiting for the handler or for the engine.
    Slot(Box<dyn Any + Send>),
    /// The handler holds it, or its commit is under way.
    Open,
    /// It was committed with this reply.
    Committed(Reply),
    /// The commit was asked for, and nobody knows whether it happened.
    Unknown,
    /// The one-commit form's transaction is gone.
    Ended,
}

impl LocalState {
    pub(super) fn new(phase: Phase) -> Self {
        Self { phase, asked: false }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    pub(super) fn was_asked(&self) -> bool {
        self.asked
    }
}

/// The handler's transaction: its rows, its outbox messages and the reply commit together.
///
/// Dropped without [`commit`](Self::commit), everything in it is taken back.
pub struct Transaction<S: TransactionalStore + Clone> {
    store: S,
    open: Option<S::Transaction>,
    guard: Option<OpenGuard>,
}

/// Lets the heartbeat go on, however the transaction ends.
pub(super) struct OpenGuard {
    pub(super) execution: Execution,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let mut local = self.execution.lock_local();
        if local.is_open() {
            local.phase = match self.execution.inner.operation.local_form() {
                LocalForm::ClaimFirst => Phase::Idle,
                LocalForm::OneCommit => Phase::Ended,
            };
        }
        drop(local);
        self.execution.inner.local_open.send_replace(false);
    }
}

impl<S: TransactionalStore + Clone> Drop for Transaction<S> {
    fn drop(&mut self) {
        let (Some(open), Some(guard)) = (self.open.take(), &self.guard) else { return };
        if guard.execution.inner.operation.local_form() == LocalForm::OneCommit {
            // The claim is in it too: the engine undoes the rows and stores the reply with it.
            guard.execution.lock_local().phase = Phase::Slot(Box::new(open));
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
        self.lock_local().asked = true;
        match self.inner.operation.local_form() {
            LocalForm::OneCommit => self.take_slot(store),
            LocalForm::ClaimFirst => self.open(store, &fence).await,
        }
    }

    fn take_slot<S: TransactionalStore + Clone>(
        &self,
        store: &S,
    ) -> Result<Transaction<S>, Failure> {
        let mut local = self.lock_local();
        let slot = match std::mem::replace(&mut local.phase, Phase::Open) {
            Phase::Slot(slot) => slot,
            other => {
                let open = matches!(other, Phase::Open);
                local.phase = other;
                let misuse = if open { Misuse::TransactionOpen } else { Misuse::TransactionEnded };
                return Err(misuse.into());
            }
        };
        match slot.downcast::<S::Transaction>() {
            Ok(open) => Ok(Transaction {
                store: store.clone(),
                open: Some(*open),
                guard: Some(OpenGuard { execution: self.clone() }),
            }),
            Err(slot) => {
                local.phase = Phase::Slot(slot);
                Err(Misuse::OtherStore.into())
            }
        }
    }

    async fn open<S>(&self, store: &S, fence: &Fence) -> Result<Transaction<S>, Failure>
    where
        S: TransactionalStore + Clone,
    {
        {
            let mut local = self.lock_local();
            match local.phase {
                Phase::Idle => local.phase = Phase::Open,
                Phase::Open => return Err(Misuse::TransactionOpen.into()),
                _ => return Err(Misuse::TransactionEnded.into()),
            }
        }
        self.inner.local_open.send_replace(true);
        // From here on this guard closes what was opened, however this future ends.
        let guard = OpenGuard { execution: self.clone() };
        let operation = &self.inner.operation;
        let lease = operation.lease() + operation.transaction_limit();
        self.inner
            .lease
            .renew(self.inner.engine.store(), fence, lease)
            .await
            .map_err(failure_before_commit)?;
        let mut open = store.begin().await.map_err(failure_before_commit)?;
        store.hold_in(&mut open, fence).await.map_err(|error| {
            if error.kind() == ErrorKind::FenceLost {
                self.inner.lease.mark_lost();
            }
            failure_before_commit(error)
        })?;
        Ok(Transaction { store: store.clone(), open: Some(open), guard: Some(guard) })
    }
}

impl<S: TransactionalStore + Clone> Transaction<S> {
    /// The connection, for the handler's own queries.
    ///
    /// # Panics
    /// Never while the transaction is borrowed from its owner: only ending it takes it out.
    pub fn connection(&mut self) -> &mut S::Connection {
        let open = self.open.as_mut().expect("a transaction is open until it is ended");
        self.store.connection(open)
    }

    /// Puts a message into the outbox, to be sent once this has committed (R21).
    ///
    /// # Errors
    /// The store's failure.
    ///
    /// # Cancel safety
    /// The message may be in the transaction; it is sent only if that commits.
    pub async fn push(&mut self, message: &OutboxMessage) -> Result<(), Failure> {
        let open = self.open.as_mut().expect("a transaction is open until it is ended");
        self.store.push_in(open, message).await.map_err(failure_before_commit)
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
        let (open, guard) = self.take();
        let task = commit::commit(self.store.clone(), open, guard, reply.into());
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
        let (open, guard) = self.take();
        let task = commit::commit_step(self.store.clone(), open, guard, name.to_owned(), result);
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
        let (open, _guard) = self.take();
        self.store.rollback(open).await.map_err(failure_before_commit)
    }

    fn is_one_commit(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| {
            guard.execution.inner.operation.local_form() == LocalForm::OneCommit
        })
    }

    fn take(&mut self) -> (S::Transaction, OpenGuard) {
        match (self.open.take(), self.guard.take()) {
            (Some(open), Some(guard)) => (open, guard),
            _ => unreachable!("only what ends a transaction takes it out, and consumes it"),
        }
    }
}

impl Execution {
    /// The stored result of a step, where an earlier attempt or
    /// [`commit_step`](Transaction::commit_step) stored one.
    ///
    /// # Errors
    /// A [`Failure`] when it is not JSON of that shape: the step is done, but not as this build
    /// knows it.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub async fn done<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Failure> {
        let standing = self.inner.standing.lock().await;
        let result = standing.progress.step(name).and_then(|step| step.result());
        Ok(result.map(|result| serde_json::from_slice(result)).transpose()?)
    }
}

/// A store's failure while nothing of the transaction can have been committed.
pub(super) fn failure_before_commit(error: StoreError) -> Failure {
    match error.kind() {
        ErrorKind::FenceLost => failure_of_store(error),
        _ => Failure::rolled_back(error),
    }
}
