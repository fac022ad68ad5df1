//! A connection that is lent for one call, and what is done with it when the call is dropped.

use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgPoolOptions, PgRow};
use sqlx::{Connection, Database, Executor, PgConnection, PgPool, Postgres, Row, SqlStr};
use sqlx_core::transaction::TransactionManager;

use crate::failure::{self, Fault, Stage};

type Transactions = <Postgres as Database>::TransactionManager;

/// A connection out of the pool. Unless the call that borrowed it came to its end, it is closed
/// and not given back: a statement may still be running on it, or a transaction be open (R25).
/// The driver alone would lend a connection whose `BEGIN` was cancelled to the next caller, with
/// the transaction still open.
#[derive(Debug)]
pub(crate) struct Session {
    connection: PoolConnection<Postgres>,
    ended: bool,
    /// The server at its other end is not the one to work on, or has forgotten statements that the
    /// driver takes for prepared: every later call on it would fail the same way.
    is_stale: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}

impl Session {
    pub(crate) async fn acquire(pool: &PgPool, verb: Verb) -> Result<Self, StoreError> {
        match pool.acquire().await {
            Ok(connection) => Ok(Self { connection, ended: false, is_stale: false }),
            Err(sqlx::Error::PoolTimedOut) => Err(no_connection(pool, verb).await),
            Err(error) => Err(failure::error(verb, Stage::Connecting, error)),
        }
    }

    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Nothing is open or running: the connection may go back to the pool.
    pub(crate) fn end(mut self) {
        self.ended = !self.is_stale;
    }

    /// Runs one statement that gives rows.
    pub(crate) async fn fetch(
        &mut self,
        statement: &SqlStr,
        arguments: PgArguments,
        persistent: bool,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let query = sqlx::query_with(statement.clone(), arguments).persistent(persistent);
        let rows = query.fetch_all(&mut *self.connection).await;
        self.is_stale |= rows.as_ref().is_err_and(failure::leaves_stale);
        rows
    }

    /// Begins a transaction with these statements, the first of them `BEGIN`.
    pub(crate) async fn begin(&mut self, begin: &SqlStr, verb: Verb) -> Result<(), StoreError> {
        let begun = Transactions::begin(&mut self.connection, Some(begin.clone())).await;
        begun.map_err(|error| failure::error(verb, Stage::Inside, error))
    }

    /// Commits the transaction that [`begin`](Self::begin) began. Where the driver counts none, or
    /// one inside it, its commit would send no `COMMIT` and say that all went well.
    pub(crate) async fn commit(mut self, verb: Verb) -> Result<(), Fault> {
        if Transactions::get_transaction_depth(&self.connection) != 1 {
            let detail = "the transaction was rolled back under its owner, or one that was begun \
                          inside it is still open; nothing is committed";
            return Err(StoreError::new(ErrorKind::NotApplied, verb, detail).into());
        }
        match Transactions::commit(&mut self.connection).await {
            Ok(()) => {
                self.end();
                Ok(())
            }
            Err(error) => Err(failure::fault(verb, Stage::Committing, error)),
        }
    }

    pub(crate) async fn roll_back(mut self, verb: Verb) -> Result<(), StoreError> {
        if Transactions::get_transaction_depth(&self.connection) != 1 {
            return Ok(()); // Dropped here, its connection is closed: that takes everything back.
        }
        match Transactions::rollback(&mut self.connection).await {
            Ok(()) => {
                self.end();
                Ok(())
            }
            Err(error) => Err(failure::error(verb, Stage::Inside, error)),
        }
    }
}

/// How long may be spent on learning why there is no connection.
const CAUSE_LIMIT: Duration = Duration::from_secs(1);

/// Why the pool had no connection in time. It goes on while a server refuses, as one that starts
/// does, and in the end says nothing but that the time is over. Where a store is opened or looked at,
/// one connection outside of it tells the cause; other verbs are not kept waiting for that.
async fn no_connection(pool: &PgPool, verb: Verb) -> StoreError {
    let timed_out = |detail| StoreError::new(ErrorKind::NotApplied, verb, detail);
    if pool.size() >= pool.options().get_max_connections() {
        return timed_out(
            "no connection was to be had in time: all connections of the pool are in use",
        );
    }
    if matches!(verb, Verb::Open | Verb::Migrate | Verb::Preflight) {
        let options = pool.connect_options();
        let direct = tokio::time::timeout(CAUSE_LIMIT, PgConnection::connect_with(&options));
        if let Ok(Err(error)) = direct.await {
            return failure::error(verb, Stage::Connecting, error);
        }
    }
    timed_out("the server gave no connection in time")
}

/// Runs statements without parameters, in one message.
pub(crate) async fn execute(
    connection: &mut PgConnection,
    statements: &SqlStr,
) -> Result<(), sqlx::Error> {
    connection.execute(sqlx::raw_sql(statements.clone())).await.map(|_| ())
}

/// How long a connection may have been idle and be lent without a test.
const TESTED_AFTER: Duration = Duration::from_secs(1);

/// Options for a pool that a store shares with other code: a connection that comes back inside a
/// transaction is closed, and one that has been idle is tested before it is lent.
///
/// With the driver of this release a `begin` that is dropped while it runs gives back a connection
/// with the transaction still open, and whatever the next caller writes there is not committed.
/// The test is one more round trip when a connection comes back.
pub fn guarded(options: PgPoolOptions) -> PgPoolOptions {
    tested(options).after_release(|connection, _| Box::pin(is_outside_transaction(connection)))
}

/// Options for a pool that only this crate lends from: what was just used is lent without a test,
/// which would be a round trip for each call.
pub(crate) fn tested(options: PgPoolOptions) -> PgPoolOptions {
    options.test_before_acquire(false).before_acquire(|connection, meta| {
        Box::pin(async move {
            if meta.idle_for >= TESTED_AFTER {
                connection.ping().await?;
            }
            Ok(true)
        })
    })
}

/// Asks in one simple message, which is a transaction of its own if none is open: only then did
/// the transaction begin with the statement.
pub(crate) async fn is_outside_transaction(
    connection: &mut PgConnection,
) -> Result<bool, sqlx::Error> {
    let statement = "SELECT now() = statement_timestamp()";
    match connection.fetch_one(sqlx::raw_sql(statement)).await {
        Ok(row) => row.try_get(0),
        // A transaction that failed refuses every statement.
        Err(sqlx::Error::Database(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
