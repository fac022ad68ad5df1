//! What the caller of an execution is told whose lease was lost (R9).

use crate::engine::caller::{Caller, RunResult};
use crate::engine::execution::Execution;
use crate::engine::lease::bounded;
use crate::engine::outcome::{How, Outcome, RunError};
use crate::error::Verb;
use crate::operation::LocalForm;
use crate::record::{Fence, Record, State};
use crate::reply::StoredReply;

/// Another execution took over: its reply is the answer, if it has one.
pub(super) async fn lost(execution: &Execution, fence: &Fence, caller: &mut Caller) {
    caller.tell(find_winner(execution, fence).await.unwrap_or(Err(RunError::LeaseLost)));
}

/// What the record says, while it is in the life of this execution; in another one its reply may
/// be an answer to another request.
pub(super) async fn find_winner(execution: &Execution, fence: &Fence) -> Option<RunResult> {
    let inner = &execution.inner;
    let reading = inner.engine.store().get(&fence.scope, &fence.key);
    let found = match bounded(Verb::Get, execution.answer_limit(), reading).await {
        Ok(found) => found.filter(|found| answers(&found.record, execution, fence))?,
        Err(_) => return Some(Err(RunError::LeaseLost)),
    };
    let State::Completed { reply, expires_at, .. } = &found.record.state else {
        return Some(Err(RunError::LeaseLost));
    };
    let longest = inner.operation.max_run_time();
    let lifetime = expires_at.map(|at| at.since(found.now).saturating_sub(longest));
    Some(match inner.engine.codec().decode_reply(reply, &fence.scope, &fence.key) {
        Ok(StoredReply::Full(reply)) => Ok(Outcome {
            reply,
            how: How::Replayed,
            stored: true,
            attempt: found.record.attempt,
            lifetime,
        }),
        Ok(StoredReply::Tombstone(tombstone)) => {
            Err(RunError::ReplyNotKept { status: tombstone.status() })
        }
        Err(error) => Err(RunError::Corrupt(error)),
    })
}

/// Whether a record's reply answers the request of this execution.
fn answers(record: &Record, execution: &Execution, fence: &Fence) -> bool {
    let inner = &execution.inner;
    // In the one-commit form the life of an execution that lost was never committed.
    let same_request = inner.operation.local_form() == LocalForm::OneCommit
        && record.operation == *inner.operation.name()
        && record.fingerprint == inner.fingerprint;
    record.incarnation == fence.incarnation || same_request
}
