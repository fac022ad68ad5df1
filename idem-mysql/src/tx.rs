//! Local effects: the handler's own rows commit with the record (R19).

mod errors;

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
use mysql_async::prelude::Queryable;
use mysql_async::{IsolationLevel, Row, Transaction, TxOpts, Value};
use tokio::time::timeout;

use crate::failure::{self, Fault, Stage};
use crate::row::Found;
use crate::session::{self, Done};
use crate::store::{MysqlStore, Shared};
use crate::tx::errors::{already, cut_off, ended, lost, slow};
use crate::via::Via;
use crate::{claim, outbox, verbs};

/// Stands from the beginning of a transaction to its end. A deadlock ends a transaction without a
/// word, and a statement that defines a table commits it: where this is gone, so is the
/// transaction that was begun.
const BEGUN: &str = "SAVEPOINT idem_begun";

/// An open transaction. Dropped without a commit, the server takes everything back.
pub struct MysqlTransaction {
    transaction: Transaction<'static>,
    isolation: Option<IsolationLevel>,
    call_limit: Duration,
    state: State,
    /// What the transaction wrote first, and what tells later whether that stands.
    first: Option<FirstWrite>,
    /// The revision that a claim last wrote in it.
    written_revision: i64,
    /// Whether the last statement found it standing.
    is_proven: bool,
}

/// A record that was claimed or held in a transaction, and so has this revision at the least.
struct FirstWrite {
    fence: Fence,
    revision: i64,
}

/// What became of a transaction so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was done in it.
    Fresh,
    /// Something was.
    Used,
    /// The server took it back.
    Lost,
}

impl MysqlTransaction {
    /// The transaction of the driver, for plain queries.
    ///
    /// The transaction is ended by the store alone. A `COMMIT` that is sent here, or a statement
    /// that commits by itself, such as `CREATE TABLE` or `TRUNCATE`, commits the rows without the
    /// record; the store then commits the record behind them. A crash in between, or an error that
    /// the handler returns, makes them stand twice. After a `ROLLBACK`, or a deadlock that was passed
    /// over, nothing is committed.
    pub fn connection(&mut self) -> &mut Transaction<'static> {
        self.state = self.state.used();
        self.is_proven = false;
        &mut self.transaction
    }

    /// Runs a statement of this crate's that gives rows.
    pub(crate) async fn rows(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
        verb: Verb,
    ) -> Result<Vec<Row>, Fault> {
        self.expect_open(verb)?;
        let sent = session::rows(&mut self.transaction, statement, parameters, verb, Stage::Inside);
        let rows = timeout(self.call_limit, sent).await.unwrap_or_else(|_| Err(slow(verb).into()));
        self.note(rows)
    }

    /// Runs a statement of this crate's that gives none.
    pub(crate) async fn run(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
        verb: Verb,
    ) -> Result<Done, Fault> {
        self.expect_open(verb)?;
        let sent = session::run(&mut self.transaction, statement, parameters, verb, Stage::Inside);
        let done = timeout(self.call_limit, sent).await.unwrap_or_else(|_| Err(slow(verb).into()));
        self.note(done)
    }

    /// After the server took a transaction back in which nothing had been done: begins another in
    /// its place.
    pub(crate) async fn begin_anew(&mut self, verb: Verb) -> Result<(), StoreError> {
        if self.state != State::Fresh {
            return Err(lost(verb));
        }
        // The level was that of the transaction which is gone.
        let level = self.isolation.map(|it| format!("SET TRANSACTION ISOLATION LEVEL {it}"));
        let statements =
            [Some("ROLLBACK"), level.as_deref(), Some("START TRANSACTION"), Some(BEGUN)];
        for statement in statements.into_iter().flatten() {
            self.execute(statement, verb).await.map_err(Fault::into_error)?;
        }
        Ok(())
    }

    /// Runs a statement without parameters.
    async fn execute(&mut self, statement: &str, verb: Verb) -> Result<(), Fault> {
        self.expect_open(verb)?;
        let sent = self.transaction.query_drop(statement);
        let done = match timeout(self.call_limit, sent).await {
            Ok(done) => done.map_err(|error| failure::fault(verb, Stage::Inside, error)),
            Err(_) => Err(slow(verb).into()),
        };
        self.note(done)
    }

    /// A claim wrote this revision.
    pub(crate) fn note_revision(&mut self, revision: i64) {
        self.written_revision = revision;
    }

    /// A record that this transaction held or claimed is not as it was left: a deadlock or a
    /// `ROLLBACK` took the transaction back.
    pub(crate) fn expect_standing(
        &mut self,
        fence: &Fence,
        found: Option<&Found>,
        verb: Verb,
    ) -> Result<(), StoreError> {
        let Some(first) = self.first.as_ref().filter(|first| first.fence == *fence) else {
            return Ok(());
        };
        let stands = found.is_some_and(|found| found.revision >= first.revision);
        self.is_proven = stands;
        if stands {
            return Ok(());
        }
        self.state = State::Lost;
        Err(lost(verb))
    }

    fn expect_open(&self, verb: Verb) -> Result<(), Fault> {
        match self.state {
            // A call was cut off, ours or the handler's: the next answer on this connection would
            // be that call's.
            _ if self.transaction.is_disconnected() => Err(cut_off(verb).into()),
            State::Lost => Err(lost(verb).into()),
            _ => Ok(()),
        }
    }

    /// A conflict ends the transaction, whole.
    fn note<T>(&mut self, done: Result<T, Fault>) -> Result<T, Fault> {
        if let (Err(Fault::Conflict(_)), State::Used) = (&done, self.state) {
            self.state = State::Lost;
        }
        done
    }

    async fn begin(shared: &Shared) -> Result<Self, StoreError> {
        let verb = Verb::Begin;
        let lender = &shared.transactions;
        let mut options = TxOpts::default();
        let isolation = shared.settings.isolation.level();
        options.with_isolation_level(isolation);
        let begun = timeout(lender.acquire_limit, lender.pool.start_transaction(options)).await;
        let begun = begun.map_err(|_| session::no_connection(verb))?;
        let transaction = begun.map_err(|error| failure::error(verb, Stage::Connecting, error))?;
        let call_limit = shared.settings.call_limit;
        let state = State::Fresh;
        let mut begun = Self {
            transaction,
            isolation,
            call_limit,
            state,
            first: None,
            written_revision: 0,
            is_proven: false,
        };
        if let Some(set_up) = &lender.set_up {
            session::expect_reset(begun.transaction.opts(), verb)?;
            begun.execute(set_up, verb).await.map_err(Fault::into_error)?;
            begun.check_lent(verb).await?;
        }
        begun.execute(BEGUN, verb).await.map_err(Fault::into_error)?;
        Ok(begun)
    }

    /// On a pool of the caller's: a connection that rewrites bytes on their way is not worked on.
    async fn check_lent(&mut self, verb: Verb) -> Result<(), StoreError> {
        let wrong = |detail| Err(StoreError::new(ErrorKind::WrongSchema, verb, detail));
        let statement = "SELECT @@character_set_client = @@character_set_connection";
        let rows = self.rows(statement, Vec::new(), verb).await.map_err(Fault::into_error)?;
        match crate::row::numbers::<1>(rows.into_iter().next(), verb)? {
            [Some(1)] => Ok(()),
            _ => wrong(
                "character_set_client and character_set_connection differ: parameters would be \
                 rewritten on their way; use SET NAMES",
            ),
        }
    }
}

impl State {
    fn used(self) -> Self {
        match self {
            Self::Fresh | Self::Used => Self::Used,
            Self::Lost => Self::Lost,
        }
    }
}

impl fmt::Debug for MysqlTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlTransaction").field("state", &self.state).finish_non_exhaustive()
    }
}

/// A handler's rows, the completed record and outbox messages in one transaction.
///
/// ```
/// use idem_core::engine::{Execution, Failure};
/// use idem_core::outbox::OutboxMessage;
/// use idem_core::reply::Reply;
/// use idem_mysql::MysqlStore;
/// use idem_mysql::mysql_async::prelude::Queryable;
///
/// async fn create_order(store: MysqlStore, run: Execution) -> Result<Reply, Failure> {
///     let mut tx = run.transaction(&store).await?;
///     tx.connection().exec_drop("INSERT INTO orders (sku) VALUES (?)", ("tea",)).await?;
///     tx.push(&OutboxMessage::new("order.created", "tea")?).await?;
///     Ok(tx.commit(Reply::from("created")).await?.into())
/// }
/// ```
#[async_trait]
impl TransactionalStore for MysqlStore {
    type Connection = Transaction<'static>;
    type Transaction = MysqlTransaction;

    fn connection<'t>(
        &self,
        transaction: &'t mut MysqlTransaction,
    ) -> &'t mut Transaction<'static> {
        transaction.connection()
    }

    async fn begin(&self) -> Result<MysqlTransaction, StoreError> {
        MysqlTransaction::begin(&self.shared).await
    }

    async fn hold_in(
        &self,
        transaction: &mut MysqlTransaction,
        fence: &Fence,
    ) -> Result<(), StoreError> {
        let held = verbs::hold(&self.shared, &mut Via::Transaction(transaction), fence).await;
        transaction.state = transaction.state.used();
        if let Some(revision) = held? {
            transaction.first = Some(FirstWrite { fence: fence.clone(), revision });
        }
        Ok(())
    }

    async fn claim_in(
        &self,
        transaction: &mut MysqlTransaction,
        asked: &Claim<'_>,
    ) -> Result<Claimed, StoreError> {
        let claimed = claim::claim(&self.shared, &mut Via::Transaction(transaction), asked).await;
        transaction.state = transaction.state.used();
        if let Ok(Claimed::Acquired(acquired)) = &claimed {
            let (fence, revision) = (acquired.fence.clone(), transaction.written_revision);
            transaction.first = Some(FirstWrite { fence, revision });
        }
        claimed
    }

    async fn savepoint_in(&self, transaction: &mut MysqlTransaction) -> Result<(), StoreError> {
        transaction.state = transaction.state.used();
        transaction.execute("SAVEPOINT idem_rows", Verb::Claim).await.map_err(Fault::into_error)
    }

    async fn undo_to_savepoint_in(
        &self,
        transaction: &mut MysqlTransaction,
    ) -> Result<(), StoreError> {
        let undone = transaction.execute("ROLLBACK TO SAVEPOINT idem_rows", Verb::Rollback).await;
        undone.map_err(Fault::into_error)
    }

    async fn checkpoint_in(
        &self,
        transaction: &mut MysqlTransaction,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        transaction.state = transaction.state.used();
        let via = &mut Via::Transaction(transaction);
        match verbs::checkpoint(&self.shared, via, fence, recovery, lease).await? {
            (Applied::Now, lease) => Ok(lease),
            (Applied::Already, _) => Err(already(Verb::Checkpoint)),
        }
    }

    async fn complete_in(
        &self,
        transaction: &mut MysqlTransaction,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        transaction.state = transaction.state.used();
        let via = &mut Via::Transaction(transaction);
        match verbs::complete(&self.shared, via, fence, reply).await? {
            Applied::Now => Ok(()),
            Applied::Already => Err(already(Verb::Complete)),
        }
    }

    async fn push_in(
        &self,
        transaction: &mut MysqlTransaction,
        message: &OutboxMessage,
    ) -> Result<(), StoreError> {
        transaction.state = transaction.state.used();
        outbox::push(&self.shared, transaction, message).await
    }

    async fn commit(&self, mut transaction: MysqlTransaction) -> Result<(), StoreError> {
        let verb = Verb::Commit;
        match transaction.execute("RELEASE SAVEPOINT idem_begun", verb).await {
            Ok(()) => {}
            // The handler's rows stand already, since what was written before them does: the
            // reply has to stand with them.
            Err(Fault::NoSavepoint(_)) if transaction.is_proven => {
                tracing::warn!("a handler ended its transaction; the record is committed after it");
            }
            // Dropped here, the driver rolls back what follows the transaction that was begun.
            Err(Fault::NoSavepoint(_)) => return Err(ended(verb)),
            Err(fault) => return Err(fault.into_error()),
        }
        match timeout(self.shared.settings.call_limit, transaction.transaction.commit()).await {
            Ok(committed) => {
                committed.map_err(|error| failure::error(verb, Stage::Committing, error))
            }
            Err(_) => {
                let detail = "the commit was not acknowledged in time";
                Err(StoreError::new(ErrorKind::OutcomeUnknown, verb, detail))
            }
        }
    }

    async fn rollback(&self, transaction: MysqlTransaction) -> Result<(), StoreError> {
        let verb = Verb::Rollback;
        if transaction.transaction.is_disconnected() {
            // Dropped here, its connection is closed, and the server takes everything back.
            return Ok(());
        }
        let undone = timeout(self.shared.settings.call_limit, transaction.transaction.rollback());
        let undone = undone.await.map_err(|_| slow(verb))?;
        undone.map_err(|error| failure::error(verb, Stage::Inside, error))
    }
}
