//! The outbox table: messages that commit with the record (R21), and what a relay does with them.
//!
//! A push stands under the write lock until its transaction is over, so numbers grow in the order
//! of the commits.

mod relaying;
mod rows;
mod statements;

use std::sync::Arc;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::{Outbox, OutboxMessage};
use sqlx::SqliteConnection;

use crate::error;
use crate::store::{Shared, SqliteStore};
use relaying::SqliteOutbox;

impl SqliteStore {
    /// The outbox, for a relay and for operators. Messages get in by
    /// [`push_in`](idem_core::transactional::TransactionalStore::push_in).
    pub fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::new(SqliteOutbox::new(self.shared.clone()))
    }
}

/// Writes a message into the transaction on `connection`.
pub(crate) async fn push(
    shared: &Shared,
    connection: &mut SqliteConnection,
    message: &OutboxMessage,
) -> Result<(), StoreError> {
    let headers = serde_json::to_string(message.headers()).map_err(|error| {
        let detail = "the message's headers cannot be written as JSON";
        StoreError::new(ErrorKind::InvalidInput, Verb::Push, detail).with_source(error)
    })?;
    let pushed = sqlx::query(shared.statements.push.clone())
        .bind(message.id().as_bytes().as_slice())
        .bind(message.topic())
        .bind(message.ordering_key())
        .bind(headers)
        .bind(message.payload().as_ref())
        .bind(shared.clock.now().as_unix_micros())
        .execute(connection)
        .await;
    pushed.map(|_| ()).map_err(|error| {
        if error.as_database_error().is_some_and(|error| error.is_unique_violation()) {
            let detail = "a message with this id is in the outbox already";
            return StoreError::new(ErrorKind::InvalidInput, Verb::Push, detail);
        }
        error::before_commit(Verb::Push, error)
    })
}
