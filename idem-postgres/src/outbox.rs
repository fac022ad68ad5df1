//! Messages that are sent once their transaction has committed (R21), and what a relay does with
//! them.

#[cfg(test)]
mod plans;
mod relaying;
mod rows;
mod statements;
mod work;

use std::sync::Arc;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::{Outbox, OutboxMessage};

use crate::arguments::Arguments;
use crate::failure::Fault;
use crate::row;
use crate::store::{PostgresStore, Shared};
use crate::tx::PostgresTransaction;
use relaying::PostgresOutbox;

impl PostgresStore {
    /// The outbox, for a relay and for operators. Messages get in by
    /// [`push_in`](idem_core::transactional::TransactionalStore::push_in).
    ///
    /// A push locks its ordering key until its transaction is over, so that messages of one key
    /// stand in the order of the commits; a push under the same key waits meanwhile, no longer
    /// than [`lock_wait`](crate::PostgresStoreBuilder::lock_wait). So push last, and under few
    /// keys.
    pub fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::new(PostgresOutbox::new(self.shared.clone()))
    }
}

/// Writes a message, once no other open transaction has pushed under its ordering key.
pub(crate) async fn push(
    shared: &Shared,
    transaction: &mut PostgresTransaction,
    message: &OutboxMessage,
) -> Result<(), StoreError> {
    let verb = Verb::Push;
    let headers = serde_json::to_vec(message.headers()).map_err(|error| {
        let detail = "the message's headers cannot be written as JSON";
        StoreError::new(ErrorKind::InvalidInput, verb, detail).with_source(error)
    })?;
    let arguments = Arguments::of("push", verb)
        .add(message.id().as_bytes().as_slice())
        .add(message.topic().as_bytes())
        .add(message.ordering_key().map(str::as_bytes))
        .add(headers)
        .add(message.payload().as_ref())
        .add(transaction.id().map(str::to_owned));
    let statement = &shared.statements.push;
    let rows = transaction.rows(shared, statement, arguments, verb).await;
    match rows.map_err(Fault::into_error)?.first() {
        Some(row) => row::expect_name(row, "push", verb),
        None => {
            transaction.expect_standing(shared, verb).await?;
            Err(StoreError::new(ErrorKind::WrongSchema, verb, "the message was not written"))
        }
    }
}
