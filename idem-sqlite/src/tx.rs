//! [`TransactionalStore`] on SQLite: a handler's own rows commit with the record, or not at all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Fence, Incarnation, Record, Recovery};
use idem_core::store::Lease;
use idem_core::time::Timestamp;
use idem_core::transactional::TransactionalStore;
use idem_core::transition::{self, Applied, Decision};
use sqlx::{Sqlite, SqliteConnection, Transaction};

use crate::error::{self, ROLLED_BACK};
use crate::gate::Gate;
use crate::outbox;
use crate::store::SqliteStore;

/// A transaction that holds SQLite's write lock. Dropping it rolls back, and has to happen inside
/// a Tokio runtime.
///
/// Only [`commit`](TransactionalStore::commit) commits it. A COMMIT of the handler's own is
/// refused by SQLite (extended result code 531), and so is every statement after SQLite has
/// rolled the transaction back by itself, as it does when the disk is full.
pub struct SqliteTransaction {
    inner: Transaction<'static, Sqlite>,
    gate: Arc<Gate>,
}

impl fmt::Debug for SqliteTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteTransaction").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl SqliteTransaction {
    /// The connection, for the handler's own statements. It can be given to whatever takes an
    /// [`Executor`](sqlx::Executor) or an [`Acquire`](sqlx::Acquire).
    pub fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.inner
    }

    fn still_open(&mut self, verb: Verb) -> Result<&mut SqliteConnection, StoreError> {
        if self.gate.was_rolled_back() {
            return Err(StoreError::new(ErrorKind::NotApplied, verb, ROLLED_BACK));
        }
        Ok(&mut self.inner)
    }
}

impl SqliteStore {
    async fn decide_in<T: Send>(
        &self,
        transaction: &mut SqliteTransaction,
        verb: Verb,
        fence: &Fence,
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<(Applied, T)> + Send,
    ) -> Result<T, StoreError> {
        let shared = &self.shared;
        let connection = transaction.still_open(verb)?;
        let found = shared.find(connection, verb, &fence.scope, &fence.key).await?;
        let decision = rule(found.as_ref(), shared.clock.now());
        let (applied, answer) = decision.outcome.map_err(|refusal| refusal.at(verb))?;
        if applied == Applied::Already {
            let detail = "this very write was committed before";
            return Err(StoreError::new(ErrorKind::AlreadyApplied, verb, detail));
        }
        shared.apply(connection, verb, &fence.scope, &fence.key, &decision.change).await?;
        Ok(answer)
    }
}

#[async_trait]
impl TransactionalStore for SqliteStore {
    type Connection = SqliteConnection;
    type Transaction = SqliteTransaction;

    fn connection<'t>(&self, transaction: &'t mut SqliteTransaction) -> &'t mut SqliteConnection {
        transaction.connection()
    }

    async fn begin(&self) -> Result<SqliteTransaction, StoreError> {
        let mut inner = self.shared.pools.begin(Verb::Begin).await?;
        let gate = Gate::on(&mut inner).await;
        let gate = gate.map_err(|error| error::before_commit(Verb::Begin, error))?;
        Ok(SqliteTransaction { inner, gate })
    }

    /// The write lock is held since [`begin`](TransactionalStore::begin), so nothing is locked
    /// here; the fence is checked.
    async fn hold_in(
        &self,
        transaction: &mut SqliteTransaction,
        fence: &Fence,
    ) -> Result<(), StoreError> {
        let connection = transaction.still_open(Verb::Hold)?;
        let found = self.shared.find(connection, Verb::Hold, &fence.scope, &fence.key).await?;
        let decision = transition::hold(found.as_ref(), fence, self.shared.clock.now());
        decision.outcome.map_err(|refusal| refusal.at(Verb::Hold))
    }

    async fn claim_in(
        &self,
        transaction: &mut SqliteTransaction,
        claim: &Claim<'_>,
    ) -> Result<Claimed, StoreError> {
        let (shared, verb) = (&self.shared, Verb::Claim);
        let connection = transaction.still_open(verb)?;
        let found = shared.find(connection, verb, claim.scope, claim.key).await?;
        let now = shared.clock.now();
        let decision = transition::claim(found.as_ref(), claim, now, Incarnation::random());
        shared.apply(connection, verb, claim.scope, claim.key, &decision.change).await?;
        decision.outcome.map_err(|refusal| refusal.at(verb))
    }

    async fn savepoint_in(&self, transaction: &mut SqliteTransaction) -> Result<(), StoreError> {
        savepoint_statement(transaction, "SAVEPOINT idem_savepoint").await
    }

    async fn undo_to_savepoint_in(
        &self,
        transaction: &mut SqliteTransaction,
    ) -> Result<(), StoreError> {
        savepoint_statement(transaction, "ROLLBACK TO idem_savepoint").await
    }

    async fn checkpoint_in(
        &self,
        transaction: &mut SqliteTransaction,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.decide_in(transaction, Verb::Checkpoint, fence, |found, now| {
            transition::checkpoint(found, fence, recovery, lease, now)
        })
        .await
    }

    async fn complete_in(
        &self,
        transaction: &mut SqliteTransaction,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        self.decide_in(transaction, Verb::Complete, fence, |found, now| {
            let decision = transition::complete(found, fence, reply, now);
            let outcome = decision.outcome.map(|applied| (applied, ()));
            Decision { change: decision.change, outcome }
        })
        .await
    }

    async fn push_in(
        &self,
        transaction: &mut SqliteTransaction,
        message: &OutboxMessage,
    ) -> Result<(), StoreError> {
        outbox::push(&self.shared, transaction.still_open(Verb::Push)?, message).await
    }

    async fn commit(&self, transaction: SqliteTransaction) -> Result<(), StoreError> {
        let verb = Verb::Commit;
        let SqliteTransaction { inner, gate } = transaction;
        if gate.was_rolled_back() {
            return Err(StoreError::new(ErrorKind::NotApplied, verb, ROLLED_BACK));
        }
        gate.open();
        match inner.commit().await {
            Ok(()) if gate.was_passed() => Ok(()),
            Ok(()) => {
                // The driver released a savepoint in place of a commit.
                let detail = "a transaction inside this one was left open; nothing was committed";
                Err(StoreError::new(ErrorKind::InvalidInput, verb, detail))
            }
            Err(error) if gate.was_passed() => Err(error::at_commit(verb, error)),
            Err(error) if error::is_constraint(&error) => {
                let detail = "a deferred constraint of the handler's tables refused the commit";
                Err(StoreError::new(ErrorKind::InvalidInput, verb, detail).with_source(error))
            }
            Err(error) => Err(error::before_commit(verb, error)),
        }
    }

    async fn rollback(&self, transaction: SqliteTransaction) -> Result<(), StoreError> {
        if transaction.gate.was_rolled_back() {
            return Ok(());
        }
        let rolled_back = transaction.inner.rollback().await;
        rolled_back.map_err(|error| error::before_commit(Verb::Rollback, error))
    }
}

async fn savepoint_statement(
    transaction: &mut SqliteTransaction,
    statement: &'static str,
) -> Result<(), StoreError> {
    let connection = transaction.still_open(Verb::Hold)?;
    let done = sqlx::query(statement).execute(connection).await;
    done.map(|_| ()).map_err(|error| {
        let detail = "the savepoint does not stand, and nothing was committed";
        StoreError::new(ErrorKind::NotApplied, Verb::Hold, detail).with_source(error)
    })
}
