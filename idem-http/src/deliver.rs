//! From what the engine says to the response that the client gets.

use std::time::Duration;

use http::header::HeaderValue;
use http::{Response, StatusCode};
use idem_core::engine::{How, Outcome, RunError};
use idem_core::error::{ErrorKind, StoreError};
use idem_core::reply::Reply;

use crate::capture::Slot;
use crate::collected::Collected;
use crate::guard::Guard;
use crate::header_filter::to_map;
use crate::problem::{Code, Problem};
use crate::reply_body::ReplyBody;
use crate::settings::{LIFETIME_HEADER, STORED_HEADER};

impl Guard {
    /// A problem as a response.
    pub(crate) fn problem<B>(&self, problem: Problem) -> Response<ReplyBody<B>> {
        problem.into_response(&self.settings.problem_base)
    }

    /// An answer as a response: the service's own where this call ran it, and a stored one
    /// otherwise.
    pub(crate) fn outcome<B>(&self, outcome: Outcome, slot: &Slot<B>) -> Response<ReplyBody<B>> {
        let own = outcome.is_executed().then(|| slot.take(&outcome.reply)).flatten();
        let Some(mut response) = own.or_else(|| to_response(&outcome.reply)) else {
            tracing::error!("the stored reply is not an HTTP response");
            return self.problem(Problem::new(Code::RecordCorrupt));
        };
        let headers = response.headers_mut();
        if outcome.how == How::Replayed {
            headers.insert(&self.settings.replayed_header, HeaderValue::from_static("true"));
        }
        if !outcome.stored {
            headers.insert(STORED_HEADER, HeaderValue::from_static("false"));
        }
        // A rejected key is free: what its lifetime will be is not known yet.
        if let Some(lifetime) = outcome.lifetime.filter(|_| outcome.how != How::Rejected) {
            headers.insert(LIFETIME_HEADER, HeaderValue::from(lifetime.as_secs()));
        }
        response
    }

    /// Why there is no answer.
    pub(crate) fn problem_of(&self, error: &RunError) -> Problem {
        let lease = self.operation.lease();
        let again = |code, after| Problem::new(code).retry_after(self.retry_after(after));
        match error {
            RunError::InProgress { retry_after } => again(Code::KeyInUse, *retry_after),
            RunError::Held { .. } => Problem::new(Code::OutcomeHeld),
            RunError::Unknown | RunError::StepsChanged(_) => Problem::new(Code::OutcomeUnknown),
            RunError::RolledBack => again(Code::RolledBack, Duration::ZERO),
            RunError::Mismatch { .. } => Problem::new(Code::KeyReused),
            RunError::ReplyNotKept { status } => {
                Problem::new(Code::ReplyNotKept).original_status(*status)
            }
            RunError::LeaseLost => again(Code::LeaseLost, lease),
            RunError::NotStored => again(Code::ReplyNotStored, lease),
            RunError::Busy => again(Code::Busy, Duration::ZERO),
            RunError::Draining => again(Code::Draining, Duration::ZERO),
            RunError::Corrupt(error) => {
                tracing::error!(error = %error, "a record cannot be read");
                Problem::new(Code::RecordCorrupt)
            }
            RunError::Store(error) => self.problem_of_store(error),
            // Those that are left are mistakes of whoever put the service together.
            error => {
                tracing::error!(error = %error, "the operation cannot run");
                Problem::new(Code::Misconfigured)
            }
        }
    }

    fn problem_of_store(&self, error: &StoreError) -> Problem {
        tracing::error!(error = %error, "the store failed");
        match error.kind() {
            ErrorKind::StoreFull => Problem::new(Code::StoreFull),
            ErrorKind::CorruptRecord => Problem::new(Code::RecordCorrupt),
            ErrorKind::WrongSchema => Problem::new(Code::StoreUnusable),
            ErrorKind::InvalidInput => Problem::new(Code::Misconfigured),
            _ => {
                let after = self.retry_after(Duration::ZERO);
                Problem::new(Code::StoreUnavailable).retry_after(after)
            }
        }
    }
}

/// What is said of an outcome in spans.
pub(crate) fn name_of(how: How) -> &'static str {
    match how {
        How::Executed => "executed",
        How::Rejected => "rejected",
        How::Replayed => "replayed",
        How::Unprotected => "unprotected",
        _ => "answered",
    }
}

/// A reply as a response, byte for byte. `None` when it is not one: it was written by a handler
/// that does not speak HTTP.
fn to_response<B>(reply: &Reply) -> Option<Response<ReplyBody<B>>> {
    let trailers = match reply.trailers() {
        [] => None,
        trailers => Some(to_map(trailers)?),
    };
    let body = Collected::new(reply.body().cloned().unwrap_or_default(), trailers);
    let mut response = Response::new(ReplyBody::collected(body));
    *response.status_mut() = StatusCode::from_u16(reply.status()).ok()?;
    *response.headers_mut() = to_map(reply.headers())?;
    Some(response)
}
