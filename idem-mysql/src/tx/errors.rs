//! Why a transaction ends without its commit.

use idem_core::error::{ErrorKind, StoreError, Verb};

pub(super) fn slow(verb: Verb) -> StoreError {
    let detail = "the server did not answer in time; nothing of the transaction is committed";
    StoreError::new(ErrorKind::NotApplied, verb, detail)
}

pub(super) fn cut_off(verb: Verb) -> StoreError {
    let detail = "a call in the transaction was cut off; nothing of it is committed";
    StoreError::new(ErrorKind::NotApplied, verb, detail)
}

pub(super) fn lost(verb: Verb) -> StoreError {
    let detail = "the transaction was rolled back, by a deadlock or a statement of the handler's; \
                  nothing of it is committed";
    StoreError::new(ErrorKind::NotApplied, verb, detail)
}

/// Rolled back by a deadlock that the handler passed over, or committed by a statement of its.
pub(super) fn ended(verb: Verb) -> StoreError {
    let detail = "the transaction was ended before its commit, by a deadlock or a statement that \
                  commits by itself";
    StoreError::new(ErrorKind::OutcomeUnknown, verb, detail)
}

pub(super) fn already(verb: Verb) -> StoreError {
    let detail = "this was committed before, so the transaction must roll back";
    StoreError::new(ErrorKind::AlreadyApplied, verb, detail)
}
