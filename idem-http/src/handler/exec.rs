//! The execution that a handler runs in.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http_body_util::{BodyExt, Limited};
use idem_core::engine::{Execution, Failure};
use idem_core::reply::Reply;

use crate::collected::Collected;
use crate::guard::Guard;
use crate::mark::Disposition;
use crate::problem::{Code, Problem};

/// The largest body that [`Exec::reply`] takes into memory: 64 MiB.
pub const MAX_REPLY_IN_MEMORY_BYTES: usize = 64 * 1024 * 1024;

/// The execution that the handler runs in: an extractor for [`Execution`], which it derefs to.
///
/// Where the request is not protected (no key on a route where it is optional, a method that needs
/// none, a [`Switch`](crate::Switch) that is off) there is none, and it answers with a problem.
/// `Option<Exec>` is for handlers that can do without.
#[derive(Clone)]
pub struct Exec {
    execution: Execution,
    guard: Arc<Guard>,
}

impl Exec {
    /// A response as a reply, to be committed with the handler's own rows or handed to another
    /// part of the service. What the layer does not store (hop-by-hop headers, those that are
    /// dropped, its own) is not in it.
    ///
    /// # Errors
    /// A [`Failure`] for the handler to return, when the body breaks off, is over
    /// [`MAX_REPLY_IN_MEMORY_BYTES`], or the status is over 599. A reply that is over the
    /// operation's own limit is no error: it is delivered, and a tombstone is stored.
    ///
    /// # Cancel safety
    /// The response is lost; nothing else changes.
    pub async fn reply(&self, response: impl IntoResponse) -> Result<Reply, Failure> {
        let (head, body) = response.into_response().into_parts();
        let body = Limited::new(body, MAX_REPLY_IN_MEMORY_BYTES);
        let body = body.collect().await.map_err(Failure::unknown)?;
        let trailers = body.trailers().cloned();
        let body = Collected::new(body.to_bytes(), trailers);
        let mut response = Response::from_parts(head, ());
        self.guard.filter.clean(&mut response, Some(body.data().len()));
        self.guard.reply_of(&response, &body)
    }

    /// The execution itself: to pass to parts of the service that know nothing of HTTP.
    pub fn execution(&self) -> &Execution {
        &self.execution
    }
}

impl Deref for Exec {
    type Target = Execution;

    fn deref(&self) -> &Execution {
        &self.execution
    }
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exec").field("attempt", &self.attempt()).finish_non_exhaustive()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Exec {
    type Rejection = NotProtected;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotProtected> {
        find(parts).ok_or(NotProtected)
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for Exec {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Self::Rejection> {
        Ok(find(parts))
    }
}

fn find(parts: &Parts) -> Option<Exec> {
    let execution = parts.extensions.get::<Execution>()?.clone();
    let guard = parts.extensions.get::<Arc<Guard>>()?.clone();
    Some(Exec { execution, guard })
}

/// The handler asks for its execution, and the request is not protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request is not protected by an idempotency layer")]
pub struct NotProtected;

impl IntoResponse for NotProtected {
    fn into_response(self) -> Response {
        let detail = "This request is not protected by an idempotency key, and its handler \
                      needs that. It did not run.";
        let problem = Problem::new(Code::Misconfigured).detail(detail);
        let mut response: Response<axum::body::Body> =
            problem.into_response(crate::problem::DEFAULT_PROBLEM_BASE);
        Disposition::Release.mark(&mut response);
        response
    }
}
