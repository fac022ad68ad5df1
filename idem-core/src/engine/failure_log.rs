//! What the log says of a handler that ended without a reply.

use crate::engine::execution::Execution;
use crate::engine::failure::{Failure, FailureKind};
use crate::error::StoreError;

/// The longest text of an error, in bytes.
const MOST_SHOWN: usize = 1_000;

/// How it failed, and no more: the text of a handler's error may hold the input or a stored
/// result (R24).
pub(super) fn how(failure: &Failure, is_rolled_back: bool) -> &'static str {
    match &failure.kind {
        FailureKind::Rejected(_) => "rejected",
        FailureKind::LeaseLost => "lease lost",
        FailureKind::WindowOver => "older than the downstream remembers keys",
        FailureKind::StepsChanged(_) => "steps changed",
        FailureKind::RolledBack(_) => "rolled back",
        FailureKind::Unknown(source) => match source.downcast_ref::<StoreError>() {
            Some(error) => error.kind().name(),
            None if is_rolled_back => "rolled back",
            None => "unknown outcome",
        },
    }
}

/// The text of the handler's error, where the service wants it in its log.
pub(super) fn text(execution: &Execution, failure: &Failure) -> Option<String> {
    if !execution.inner.engine.shared.shows_handler_errors {
        return None;
    }
    let (FailureKind::Unknown(source) | FailureKind::RolledBack(source)) = &failure.kind else {
        return None;
    };
    let mut text = source.to_string();
    let mut behind = source.source();
    while let Some(source) = behind.filter(|_| text.len() < MOST_SHOWN) {
        text.push_str(": ");
        text.push_str(&source.to_string());
        behind = source.source();
    }
    text.truncate(text.floor_char_boundary(MOST_SHOWN));
    Some(text)
}
