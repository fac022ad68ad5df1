//! Local effects: the handler's own rows commit with the record (R19).

use std::fmt;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Fence, Recovery};
use idem_core::store::Lease;
use idem_core::transactional::TransactionalStore;
use idem_core::transition::Applied;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row, SqlSafeStr, SqlStr};
use tokio::time::timeout;

use crate::arguments::Arguments;
use crate::failure::{self, Fault, Stage};
use crate::session::{self, Session};
use crate::sql::TRANSACTION_ID;
use crate::store::{PostgresStore, Shared};
use crate::verbs::Via;
use crate::{claim, outbox, row, verbs};

/// An open transaction. Dropped without a commit, its connection is closed and the server takes
/// everything back.
pub struct PostgresTransaction {
    session: Session,
    /// Whether this crate's last statement succeeded, and no other was run since. A transaction
    /// in which a statement failed answers COMMIT with a rollback that looks like success.
    is_sound: bool,
    /// The server's number of it, once something was locked in it.
    id: Option<String>,
    /// The number of another one in its place, in which the store wrote last.
    later_id: Option<String>,
    /// Whether the handler had the connection while there was no number: it may have ended the
    /// transaction, and nothing shows that but the clock of the server's transactions.
    is_unproven: bool,
    call_limit: Duration,
}

impl PostgresTransaction {
    /// The connection inside the transaction, for plain queries.
    ///
    /// The transaction is ended by the store alone. A `COMMIT` that is sent here commits the rows
    /// without the record, and a crash before the record is completed, or an error that the handler
    /// returns, makes them stand twice. After a `ROLLBACK` the store writes nothing more: its own
    /// calls fail, and so does its commit. But statements that are sent here after it commit by
    /// themselves, and stand twice when the handler runs again: send none, and return. A nested
    /// `begin` of the driver whose future is dropped while it runs rolls the whole transaction back,
    /// and is the same.
    pub fn connection(&mut self) -> &mut PgConnection {
        self.is_sound = false;
        self.is_unproven = self.id.is_none();
        self.session.connection()
    }

    /// Runs a statement of this crate's.
    pub(crate) async fn rows(
        &mut self,
        shared: &Shared,
        statement: &SqlStr,
        arguments: Arguments,
        verb: Verb,
    ) -> Result<Vec<PgRow>, Fault> {
        let arguments = arguments.finish()?;
        let persistent = !shared.settings.pooled;
        self.expect_open(verb).await?;
        self.is_sound = false;
        let sent = self.session.fetch(statement, arguments, persistent);
        let rows = timeout(self.call_limit, sent).await.map_err(|_| slow(verb))?;
        let rows = rows.map_err(|error| failure::fault(verb, Stage::Inside, error))?;
        self.is_sound = true;
        self.note_id(rows.first());
        Ok(rows)
    }

    /// The server's number of the transaction, once the store has locked something in it.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    fn note_id(&mut self, row: Option<&PgRow>) {
        let id = row.and_then(|row| row.try_get::<Option<String>, _>(TRANSACTION_ID).ok());
        match (&self.id, id.flatten()) {
            (None, id) => self.id = id,
            (Some(begun), Some(id)) if *begun != id => {
                tracing::warn!("a handler ended its transaction; the record was written after it");
                self.later_id = Some(id);
            }
            _ => {}
        }
    }

    /// Fails when the transaction that was begun was rolled back, or the one in its place.
    pub(crate) async fn expect_standing(
        &mut self,
        shared: &Shared,
        verb: Verb,
    ) -> Result<(), StoreError> {
        if self.id.is_none() {
            return self.expect_open(verb).await;
        }
        let both = [(&self.id, rolled_back(verb)), (&self.later_id, ended(verb))];
        for (id, gone) in both.map(|(id, gone)| (id.clone(), gone)) {
            let Some(id) = id else { continue };
            let arguments = Arguments::of("standing", verb).add(id);
            let rows = self.rows(shared, &shared.statements.standing, arguments, verb).await;
            let rows = rows.map_err(Fault::into_error)?;
            match rows.first().map(|row| row::value(row, 1, verb)).transpose()? {
                Some(true) => {}
                _ => return Err(gone),
            }
        }
        Ok(())
    }

    /// Fails when the handler had the connection before anything was locked, and no transaction is
    /// open any more. One that it began in its place is taken for the same.
    async fn expect_open(&mut self, verb: Verb) -> Result<(), StoreError> {
        if !self.is_unproven {
            return Ok(());
        }
        let asked = session::is_outside_transaction(self.session.connection());
        let is_over = timeout(self.call_limit, asked).await.map_err(|_| slow(verb))?;
        let is_over = is_over.map_err(|error| failure::error(verb, Stage::Inside, error))?;
        if is_over {
            return Err(ended(verb));
        }
        self.is_unproven = false;
        Ok(())
    }

    /// Runs a statement without parameters.
    pub(crate) async fn execute(
        &mut self,
        statement: &SqlStr,
        verb: Verb,
    ) -> Result<(), StoreError> {
        self.is_sound = false;
        let sent = session::execute(self.session.connection(), statement);
        let sent = timeout(self.call_limit, sent).await.map_err(|_| slow(verb))?;
        sent.map_err(|error| failure::error(verb, Stage::Inside, error))?;
        self.is_sound = true;
        Ok(())
    }

    /// Begins one on a connection of its own.
    pub(crate) async fn begin(shared: &Shared) -> Result<Self, StoreError> {
        let mut session = Session::acquire(&shared.transactions, Verb::Begin).await?;
        let begun = session.begin(&shared.begin_transaction, Verb::Begin);
        let call_limit = shared.settings.call_limit;
        timeout(call_limit, begun).await.map_err(|_| slow(Verb::Begin))??;
        Ok(Self {
            session,
            is_sound: true,
            id: None,
            later_id: None,
            is_unproven: false,
            call_limit,
        })
    }
}

impl fmt::Debug for PostgresTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTransaction").finish_non_exhaustive()
    }
}

/// A handler's rows, the completed record and outbox messages in one transaction.
///
/// ```
/// use idem_core::engine::{Execution, Failure};
/// use idem_core::outbox::OutboxMessage;
/// use idem_core::reply::Reply;
/// use idem_postgres::PostgresStore;
/// use idem_postgres::sqlx;
///
/// async fn create_order(store: PostgresStore, run: Execution) -> Result<Reply, Failure> {
///     let mut tx = run.transaction(&store).await?;
///     sqlx::query("INSERT INTO orders (sku) VALUES ($1)")
///         .bind("tea")
///         .execute(tx.connection())
///         .await?;
///     tx.push(&OutboxMessage::new("order.created", "tea")?).await?;
///     Ok(tx.commit(Reply::from("created")).await?.into())
/// }
/// ```
#[async_trait]
impl TransactionalStore for PostgresStore {
    type Connection = PgConnection;
    type Transaction = PostgresTransaction;

    fn connection<'t>(&self, transaction: &'t mut PostgresTransaction) -> &'t mut PgConnection {
        transaction.connection()
    }

    async fn begin(&self) -> Result<PostgresTransaction, StoreError> {
        PostgresTransaction::begin(&self.shared).await
    }

    async fn hold_in(
        &self,
        transaction: &mut PostgresTransaction,
        fence: &Fence,
    ) -> Result<(), StoreError> {
        verbs::hold(&self.shared, &mut Via::Transaction(transaction), fence).await
    }

    async fn claim_in(
        &self,
        transaction: &mut PostgresTransaction,
        claim: &Claim<'_>,
    ) -> Result<Claimed, StoreError> {
        claim::claim(&self.shared, &mut Via::Transaction(transaction), claim).await
    }

    async fn savepoint_in(&self, transaction: &mut PostgresTransaction) -> Result<(), StoreError> {
        transaction.execute(&"SAVEPOINT idem_rows".into_sql_str(), Verb::Claim).await
    }

    async fn undo_to_savepoint_in(
        &self,
        transaction: &mut PostgresTransaction,
    ) -> Result<(), StoreError> {
        let undo = "ROLLBACK TO SAVEPOINT idem_rows";
        transaction.execute(&undo.into_sql_str(), Verb::Rollback).await
    }

    async fn checkpoint_in(
        &self,
        transaction: &mut PostgresTransaction,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let via = &mut Via::Transaction(transaction);
        let written = verbs::checkpoint(&self.shared, via, fence, recovery, lease).await?;
        match written {
            (Applied::Now, lease) => Ok(lease),
            (Applied::Already, _) => Err(already(Verb::Checkpoint)),
        }
    }

    async fn complete_in(
        &self,
        transaction: &mut PostgresTransaction,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        let via = &mut Via::Transaction(transaction);
        match verbs::complete(&self.shared, via, fence, reply).await? {
            Applied::Now => Ok(()),
            Applied::Already => Err(already(Verb::Complete)),
        }
    }

    async fn push_in(
        &self,
        transaction: &mut PostgresTransaction,
        message: &OutboxMessage,
    ) -> Result<(), StoreError> {
        outbox::push(&self.shared, transaction, message).await
    }

    async fn commit(&self, mut transaction: PostgresTransaction) -> Result<(), StoreError> {
        if !transaction.is_sound {
            transaction.execute(&"SELECT 1".into_sql_str(), Verb::Commit).await?;
            transaction.expect_standing(&self.shared, Verb::Commit).await?;
        }
        let committed = transaction.session.commit(Verb::Commit);
        match timeout(self.shared.settings.call_limit, committed).await {
            Ok(committed) => committed.map_err(Fault::into_error),
            Err(_) => {
                let detail = "the commit was not acknowledged in time";
                Err(StoreError::new(ErrorKind::OutcomeUnknown, Verb::Commit, detail))
            }
        }
    }

    async fn rollback(&self, transaction: PostgresTransaction) -> Result<(), StoreError> {
        let undone = transaction.session.roll_back(Verb::Rollback);
        timeout(self.shared.settings.call_limit, undone).await.map_err(|_| slow(Verb::Rollback))?
    }
}

fn slow(verb: Verb) -> StoreError {
    let detail = "the server did not answer in time; nothing of the transaction is committed";
    StoreError::new(ErrorKind::NotApplied, verb, detail)
}

fn rolled_back(verb: Verb) -> StoreError {
    let detail = "the transaction was rolled back before its commit; nothing of it is committed, but \
                  what the handler sent after that is";
    StoreError::new(ErrorKind::NotApplied, verb, detail)
}

fn ended(verb: Verb) -> StoreError {
    let detail = "the transaction was ended before its commit; whether rows of it are committed \
                  cannot be told";
    StoreError::new(ErrorKind::OutcomeUnknown, verb, detail)
}

fn already(verb: Verb) -> StoreError {
    let detail = "this was committed before, so the transaction must roll back";
    StoreError::new(ErrorKind::AlreadyApplied, verb, detail)
}
