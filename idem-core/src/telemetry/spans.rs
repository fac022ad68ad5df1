//! The spans of an execution. Attribute names are in one name space, dotted, as OpenTelemetry
//! wants them; a key shows as its short keyed hash only (R24).

use tracing::Span;
use tracing::field::Empty;

use crate::log_hash::KeyHash;
use crate::operation::Operation;

/// One call from its admission to its end; the others are inside it.
pub(crate) fn run(operation: &Operation, key: KeyHash) -> Span {
    tracing::info_span!(
        "idem.run",
        idem.operation = %operation.name(),
        idem.key_hash = %key,
        idem.attempt = Empty,
        idem.outcome = Empty,
    )
}

/// One claim, repeats included.
pub(crate) fn claim(operation: &Operation, key: KeyHash) -> Span {
    tracing::info_span!(
        "idem.claim",
        idem.operation = %operation.name(),
        idem.key_hash = %key,
        idem.attempt = Empty,
        idem.outcome = Empty,
    )
}

/// What runs once a lapsed execution was taken over: its handler and its completion.
pub(crate) fn takeover(operation: &Operation, key: KeyHash, attempt: u32) -> Span {
    tracing::info_span!(
        "idem.takeover",
        idem.operation = %operation.name(),
        idem.key_hash = %key,
        idem.attempt = attempt,
    )
}

/// The handler.
pub(crate) fn handler(operation: &Operation, key: KeyHash, attempt: u32) -> Span {
    tracing::info_span!(
        "idem.handler",
        idem.operation = %operation.name(),
        idem.key_hash = %key,
        idem.attempt = attempt,
        idem.outcome = Empty,
    )
}

/// What follows the handler: its reply is stored, its claim freed or its lease given up.
pub(crate) fn complete(operation: &Operation, key: KeyHash, attempt: u32) -> Span {
    tracing::info_span!(
        "idem.complete",
        idem.operation = %operation.name(),
        idem.key_hash = %key,
        idem.attempt = attempt,
    )
}
