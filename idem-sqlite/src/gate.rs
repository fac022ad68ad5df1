//! What keeps a lent transaction from being committed behind the store's back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::SqliteConnection;

/// Stands at the commit of one lent transaction, on hooks of its connection.
///
/// After some errors (disk full, I/O, a conflict clause that says ROLLBACK) SQLite takes the whole
/// transaction back by itself, and the connection is then in autocommit mode: if a handler
/// ignores such an error, each of its later statements would commit alone, without the record.
/// So nothing commits before the store opens the gate, which it does not once a rollback was seen.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: AtomicBool,
    passed: AtomicBool,
    rolled_back: AtomicBool,
}

impl Gate {
    /// A gate on this connection. The pool takes the hooks away again.
    pub(crate) async fn on(connection: &mut SqliteConnection) -> Result<Arc<Self>, sqlx::Error> {
        let gate = Arc::new(Self::default());
        let (at_commit, at_rollback) = (Arc::clone(&gate), Arc::clone(&gate));
        let mut handle = connection.lock_handle().await?;
        handle.set_commit_hook(move || at_commit.lets_pass());
        handle.set_rollback_hook(move || at_rollback.rolled_back.store(true, Ordering::SeqCst));
        Ok(gate)
    }

    /// From now on a COMMIT goes through. Not to be called once a rollback was seen.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }

    /// Whether a COMMIT went through the gate. It may still have failed behind it.
    pub(crate) fn was_passed(&self) -> bool {
        self.passed.load(Ordering::SeqCst)
    }

    /// Whether the transaction was taken back, by SQLite or by the handler's own statement.
    pub(crate) fn was_rolled_back(&self) -> bool {
        self.rolled_back.load(Ordering::SeqCst)
    }

    fn lets_pass(&self) -> bool {
        let passes = self.open.load(Ordering::SeqCst);
        self.passed.fetch_or(passes, Ordering::SeqCst);
        passes
    }
}
