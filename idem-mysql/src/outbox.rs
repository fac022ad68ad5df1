//! Messages that are sent once their transaction has committed (R21).

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::OutboxMessage;

use crate::failure::Fault;
use crate::store::Shared;
use crate::tx::MysqlTransaction;

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
