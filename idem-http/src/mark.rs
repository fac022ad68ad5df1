//! What a service says about its own response.
//!
//! A framework always returns a response, so that a layer cannot tell an answer from a rejection
//! that was found before anything was done (R14). A mark on the response says which it is.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Response, StatusCode};
use idem_core::engine::Failure;
use idem_core::reply::Reply;

use crate::header_filter::to_map;

/// What becomes of a response. An unmarked one is stored; for an unmarked 5xx see
/// [`unmarked_server_errors`](crate::IdempotencyLayer::unmarked_server_errors).
///
/// With axum it is a response part: `(StatusCode::BAD_REQUEST, Disposition::Release, "no")`.
///
/// ```
/// use http::Response;
/// use idem_http::Disposition;
///
/// let mut response = Response::builder().status(503).body("try again").unwrap();
/// Disposition::Release.mark(&mut response);
/// assert_eq!(response.extensions().get(), Some(&Disposition::Release));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// It is the answer to this key from now on, whatever its status.
    Store,
    /// It is delivered as it comes, first byte at once, and not kept: a retry is told so, and
    /// nothing runs again (R17).
    Stream,
    /// Nothing was executed: the key is freed, so that a corrected retry runs. From the second
    /// attempt on, after a recovery point, or once a downstream key or a transaction was asked
    /// for, it is stored all the same (R14); so is one that is too large to keep.
    Release,
    /// What was done is not known. The client gets no answer but that; what follows is the
    /// operation's choice (R15).
    Unknown,
}

impl Disposition {
    /// Marks a response.
    pub fn mark<B>(self, response: &mut Response<B>) {
        response.extensions_mut().insert(self);
    }
}

/// A response that says that the handler has none, and why: for services that are not axum's.
///
/// Without the layer around it, it is an empty 500.
pub fn failed<B: Default>(failure: Failure) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    FailureMark::new(failure).mark(&mut response);
    response
}

/// A response that is this reply as it stands, such as one that was committed with the handler's
/// own rows, or that of a registered handler.
///
/// A reply that is no HTTP response (a header name with a space, say) is an empty 500 here, and
/// is stored as it is all the same.
pub fn replied<B: From<Bytes>>(reply: Reply) -> Response<B> {
    let mut response = to_response(&reply).unwrap_or_else(|| {
        let mut response = Response::new(B::from(Bytes::new()));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    });
    response.extensions_mut().insert(ReplyMark(reply));
    response
}

/// A reply as a response, without its trailers. `None` when it is not one.
fn to_response<B: From<Bytes>>(reply: &Reply) -> Option<Response<B>> {
    let mut response = Response::new(B::from(reply.body().cloned().unwrap_or_default()));
    *response.status_mut() = StatusCode::from_u16(reply.status()).ok()?;
    *response.headers_mut() = to_map(reply.headers())?;
    Some(response)
}

/// The handler has no answer, for this reason.
#[derive(Clone)]
pub(crate) struct FailureMark(Arc<Mutex<Option<Failure>>>);

impl FailureMark {
    pub(crate) fn new(failure: Failure) -> Self {
        Self(Arc::new(Mutex::new(Some(failure))))
    }

    pub(crate) fn mark<B>(self, response: &mut Response<B>) {
        response.extensions_mut().insert(self);
    }

    fn take(&self) -> Failure {
        let failure = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.unwrap_or_else(|| Failure::unknown("the failure was taken before"))
    }
}

/// The response is this reply.
#[derive(Clone)]
pub(crate) struct ReplyMark(Reply);

/// What a response turned out to be.
pub(crate) enum Marked {
    Failed(Failure),
    Reply(Reply),
    Response(Disposition),
}

/// Takes the marks off a response.
pub(crate) fn take<B>(response: &mut Response<B>, unmarked_server_error: Disposition) -> Marked {
    let extensions = response.extensions_mut();
    let disposition = extensions.remove::<Disposition>();
    if let Some(mark) = extensions.remove::<FailureMark>() {
        return Marked::Failed(mark.take());
    }
    if let Some(ReplyMark(reply)) = extensions.remove::<ReplyMark>() {
        return Marked::Reply(reply);
    }
    let unmarked = match response.status().is_server_error() {
        true => unmarked_server_error,
        false => Disposition::Store,
    };
    Marked::Response(disposition.unwrap_or(unmarked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disposition_of(response: &mut Response<Bytes>) -> Disposition {
        match take(response, Disposition::Release) {
            Marked::Response(disposition) => disposition,
            _ => panic!("it carries another mark"),
        }
    }

    #[test]
    fn an_unmarked_response_is_stored_and_an_unmarked_5xx_is_what_the_service_says() {
        for (status, expected) in [
            (200, Disposition::Store),
            (422, Disposition::Store),
            (499, Disposition::Store),
            (500, Disposition::Release),
            (503, Disposition::Release),
        ] {
            let mut response = Response::builder().status(status).body(Bytes::new()).unwrap();
            assert_eq!(disposition_of(&mut response), expected, "{status}");
        }
    }

    #[test]
    fn a_mark_is_taken_off_and_counts_for_any_status() {
        let mut response = Response::builder().status(500).body(Bytes::new()).unwrap();
        Disposition::Store.mark(&mut response);
        assert_eq!(disposition_of(&mut response), Disposition::Store);
        assert!(response.extensions().get::<Disposition>().is_none());
    }

    #[test]
    fn a_failure_comes_through_and_is_a_500_on_its_own() {
        let mut response: Response<Bytes> = failed(Failure::unknown("the gateway hung up"));
        assert_eq!(response.status(), 500);
        let Marked::Failed(failure) = take(&mut response, Disposition::Store) else {
            panic!("it carries another mark")
        };
        assert_eq!(failure.to_string(), "unknown outcome: the gateway hung up");
    }

    #[test]
    fn a_reply_comes_through_as_it_stands() {
        let reply = Reply::new(201).unwrap().with_header("x", "1").with_body("hello");
        let mut response: Response<Bytes> = replied(reply.clone());
        assert_eq!((response.status().as_u16(), &response.body()[..]), (201, &b"hello"[..]));
        let Marked::Reply(marked) = take(&mut response, Disposition::Store) else {
            panic!("it carries another mark")
        };
        assert_eq!(marked, reply);

        let odd = Reply::new(200).unwrap().with_header("no header", "1");
        let mut response: Response<Bytes> = replied(odd.clone());
        assert_eq!(response.status(), 500);
        assert!(matches!(take(&mut response, Disposition::Store), Marked::Reply(r) if r == odd));
    }
}
