//! The two pools of a store: one connection that writes, a few that read.
//!
//! SQLite has one writer at a time, so a process needs one writing connection: claims,
//! heartbeats and handlers' transactions of one process wait for it in a fair queue instead of
//! polling the file's lock against one another. Reading goes on beside it.

use std::time::Duration;

use idem_core::error::{StoreError, Verb};
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{Connection, Sqlite, SqliteConnection, SqlitePool, Transaction};

use crate::error;

/// How many rows of a page are read ahead of the one that is decoded.
const ROWS_AHEAD: usize = 4;

#[derive(Debug, Clone)]
pub(crate) struct Pools {
    /// One connection, for everything that writes.
    pub(crate) writer: SqlitePool,
    /// Connections that cannot write.
    pub(crate) readers: SqlitePool,
}

impl Pools {
    /// Pools that open their connections when they are first used. `template` brings the user's
    /// own hooks for the connection that handlers are lent.
    pub(crate) fn new(
        template: PoolOptions<Sqlite>,
        options: SqliteConnectOptions,
        wait: Duration,
        readers: u32,
    ) -> Self {
        let options = options.busy_timeout(wait).synchronous(SqliteSynchronous::Full);
        let writer = template
            .max_connections(1)
            .min_connections(0)
            .acquire_timeout(wait)
            .test_before_acquire(false)
            .after_release(|connection, _| Box::pin(is_fit(connection)))
            .connect_lazy_with(options.clone());
        let readers = PoolOptions::new()
            .max_connections(readers)
            .acquire_timeout(wait)
            .test_before_acquire(false)
            .connect_lazy_with(options.pragma("query_only", "ON").row_buffer_size(ROWS_AHEAD));
        Self { writer, readers }
    }

    /// Takes the write lock, waiting for it no longer than the bound, so that whatever is read
    /// next stays true until the end of the transaction. Dropping it rolls back.
    pub(crate) async fn begin(
        &self,
        verb: Verb,
    ) -> Result<Transaction<'static, Sqlite>, StoreError> {
        let begun = self.writer.begin_with("BEGIN IMMEDIATE").await;
        begun.map_err(|error| error::before_commit(verb, error))
    }

    pub(crate) async fn close(&self) {
        self.writer.close().await;
        self.readers.close().await;
    }
}

/// Whether a connection can be lent again; otherwise the pool closes it, which rolls back
/// whatever it still holds.
///
/// The driver counts transactions by itself. When SQLite has rolled one back on its own, the
/// driver's ROLLBACK fails and its count stays, and no later transaction could begin on it.
async fn is_fit(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // Locking waits until everything that a dropped future had sent is done.
    let mut handle = connection.lock_handle().await?;
    handle.remove_commit_hook();
    handle.remove_rollback_hook();
    drop(handle);
    Ok(!connection.is_in_transaction())
}
