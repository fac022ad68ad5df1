//! Messages that are sent once their transaction has committed (R21), and what a relay does with
//! them.

mod jobs;
mod relaying;
mod rows;
mod work;

use std::sync::Arc;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::{Outbox, OutboxMessage};

use crate::failure::Fault;
use crate::store::{MysqlStore, Shared};
use crate::tx::MysqlTransaction;
use relaying::MysqlOutbox;

impl MysqlStore {
    /// The outbox, for a relay and for operators. Messages get in by
    /// [`push_in`](idem_core::transactional::TransactionalStore::push_in).
    ///
    /// A push locks its ordering key until its transaction is over, so that messages of one key
    /// stand in the order of the commits; a push under the same key waits meanwhile, no longer
    /// than [`lock_wait`](crate::MysqlStoreBuilder::lock_wait). So push last, and under few keys.
    pub fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::new(MysqlOutbox { shared: self.shared.clone() })
    }
}

/// Writes a message. Its number is given before the commit; the row of its ordering key, held
/// until the transaction is over, makes numbers of one key grow in the order of the commits.
pub(crate) async fn push(
    shared: &Shared,
    transaction: &mut MysqlTransaction,
    message: &OutboxMessage,
) -> Result<(), StoreError> {
    let verb = Verb::Push;
    let statements = &shared.statements.outbox;
    let headers = serde_json::to_vec(message.headers()).map_err(|error| {
        let detail = "the message's headers cannot be written as JSON";
        StoreError::new(ErrorKind::InvalidInput, verb, detail).with_source(error)
    })?;
    let ordering_key = message.ordering_key().map(str::as_bytes);
    if let Some(key) = ordering_key {
        let held = transaction.run(&statements.hold_key, vec![key.into()], verb).await;
        held.map_err(Fault::into_error)?;
    }
    let values = vec![
        message.id().as_bytes().as_slice().into(),
        message.topic().as_bytes().into(),
        ordering_key.into(),
        headers.into(),
        message.payload().as_ref().into(),
    ];
    match transaction.run(&statements.push, values, verb).await {
        Ok(_) => Ok(()),
        Err(Fault::Duplicate(_)) => {
            let detail = "a message with this id is in the outbox already";
            Err(StoreError::new(ErrorKind::InvalidInput, verb, detail))
        }
        Err(fault) => Err(fault.into_error()),
    }
}
