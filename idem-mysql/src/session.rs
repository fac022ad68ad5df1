//! A connection that is lent for one call, and what is set on it.
//!
//! Dropping a call is safe with this driver: it marks a connection before it sends and clears the
//! mark after the answer, so that one on which a statement may still run is closed and not lent
//! again, and the server takes back what was not committed (R25).

use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Pool, Row, Value};
use tokio::time::timeout;

use crate::failure::{self, Fault, Stage};

/// What a statement that gives no rows has done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// How many rows were written, as the server counts them.
    pub(crate) rows: u64,
    /// What the statement passed to `LAST_INSERT_ID`.
    pub(crate) handed_back: Option<u64>,
}

/// A pool, and whether other code uses it too.
#[derive(Debug, Clone)]
pub(crate) struct Lender {
    pub(crate) pool: Pool,
    /// What is set on each connection when it is lent. A pool of the store's own sets it once,
    /// when it connects.
    pub(crate) set_up: Option<String>,
    pub(crate) acquire_limit: Duration,
}

/// The settings of a connection on which verbs run.
///
/// Each statement commits by itself. A duplicate reads what is committed, and nothing of what is
/// not. Bytes are bytes, whatever the server's character sets are. A value that does not fit is an
/// error, not a shorter value.
pub(crate) fn verb_settings(lock_wait: Duration) -> String {
    format!(
        "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {}, \
         SESSION sql_mode = 'STRICT_ALL_TABLES', SESSION completion_type = 0, \
         SESSION character_set_client = binary, SESSION character_set_connection = binary, \
         SESSION character_set_results = binary; \
         SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        seconds(lock_wait)
    )
}

/// The settings of a connection on which a handler's transaction runs. Its character sets, its
/// time zone and its `sql_mode` stay as they are: the queries are the handler's.
///
/// Without autocommit, statements that follow a deadlock, which ends a transaction without a
/// word, are not committed one by one.
pub(crate) fn transaction_settings(lock_wait: Duration, idle: Duration) -> String {
    format!(
        "SET SESSION autocommit = 0, SESSION innodb_lock_wait_timeout = {}, \
         SESSION completion_type = 0, SESSION wait_timeout = {}",
        seconds(lock_wait),
        seconds(idle)
    )
}

/// Whole seconds, rounded up: the server counts these waits in no smaller unit.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

impl Lender {
    pub(crate) async fn lend(&self, verb: Verb) -> Result<Conn, StoreError> {
        let lent = timeout(self.acquire_limit, async {
            let mut connection = self.pool.get_conn().await?;
            if let Some(set_up) = &self.set_up {
                if let Err(error) = expect_reset(connection.opts(), verb) {
                    return Ok(Err(error));
                }
                connection.query_drop(set_up.as_str()).await?;
            }
            Ok(Ok(connection))
        });
        match lent.await {
            Ok(Ok(lent)) => lent,
            Ok(Err(error)) => Err(failure::error(verb, Stage::Connecting, error)),
            Err(_) => Err(no_connection(verb)),
        }
    }
}

/// A pool of the caller's that does not reset its connections would give them to others with what
/// is set here: without autocommit, for one.
pub(crate) fn expect_reset(opts: &Opts, verb: Verb) -> Result<(), StoreError> {
    if opts.pool_opts().reset_connection() {
        return Ok(());
    }
    let detail = "the pool does not reset its connections: leave `reset_connection` on";
    Err(StoreError::new(ErrorKind::WrongSchema, verb, detail))
}

pub(crate) fn no_connection(verb: Verb) -> StoreError {
    StoreError::new(ErrorKind::NotApplied, verb, "no connection was to be had in time")
}

/// Runs a statement that gives rows.
pub(crate) async fn rows(
    connection: &mut impl Queryable,
    statement: &str,
    parameters: Vec<Value>,
    verb: Verb,
    stage: Stage,
) -> Result<Vec<Row>, Fault> {
    let rows = connection.exec(statement, parameters).await;
    rows.map_err(|error| failure::fault(verb, stage, error))
}

/// Runs a statement that gives none.
pub(crate) async fn run(
    connection: &mut impl Queryable,
    statement: &str,
    parameters: Vec<Value>,
    verb: Verb,
    stage: Stage,
) -> Result<Done, Fault> {
    let failed = |error| failure::fault(verb, stage, error);
    let answer = connection.exec_iter(statement, parameters).await.map_err(failed)?;
    let done = Done { rows: answer.affected_rows(), handed_back: answer.last_insert_id() };
    answer.drop_result().await.map_err(failed)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_whole_seconds_and_never_none() {
        assert_eq!(seconds(Duration::from_millis(1)), 1);
        assert_eq!(seconds(Duration::from_secs(1)), 1);
        assert_eq!(seconds(Duration::from_millis(1_001)), 2);
    }
}
