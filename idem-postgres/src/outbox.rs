//! Messages that are sent once their transaction has committed (R21).

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::OutboxMessage;

use crate::arguments::Arguments;
use crate::failure::Fault;
use crate::row;
use crate::store::Shared;
use crate::tx::PostgresTransaction;

/// Writes a message; a relay sees it once the transaction, and every earlier one, is over.
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
        .add(message.payload().as_ref());
    let statement = &shared.statements.push;
    let rows = transaction.rows(shared, statement, arguments, verb).await;
    match rows.map_err(Fault::into_error)?.first() {
        Some(row) => row::expect_name(row, "push", verb),
        None => Err(StoreError::new(ErrorKind::WrongSchema, verb, "the message was not written")),
    }
}
