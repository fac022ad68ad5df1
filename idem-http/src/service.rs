//! The service that the layer makes.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::HeaderValue;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use idem_core::engine::{Execution, Failure};
use idem_core::key::{Key, Scope};
use tower_service::Service;
use tracing::Instrument;

use crate::capture::Slot;
use crate::client_uri;
use crate::deliver::name_of;
use crate::guard::{Admission, Guard};
use crate::mark::Disposition;
use crate::problem::Problem;
use crate::reply_body::ReplyBody;
use crate::request_body::RequestBody;
use crate::settings::STORED_HEADER;
use crate::upload;

/// The service behind an [`IdempotencyLayer`](crate::IdempotencyLayer).
///
/// The service inside runs in a task of its own, so that a client that hangs up changes nothing
/// (R12): task-locals of the caller do not reach it; the current span does. Its error means that
/// what it did is not known, and is answered with a problem; only a request that passes untouched
/// gets its error as it is.
pub struct Idempotency<Inner> {
    inner: Inner,
    guard: Arc<Guard>,
}

impl<Inner> Idempotency<Inner> {
    pub(crate) fn new(inner: Inner, guard: Guard) -> Self {
        Self { inner, guard: Arc::new(guard) }
    }
}

impl<Inner: Clone> Clone for Idempotency<Inner> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), guard: Arc::clone(&self.guard) }
    }
}

impl<Inner> fmt::Debug for Idempotency<Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("operation", &self.guard.operation)
            .finish_non_exhaustive()
    }
}

/// The future of [`Idempotency`]'s response.
pub type ResponseFuture<B, E> =
    Pin<Box<dyn Future<Output = Result<Response<ReplyBody<B>>, E>> + Send + 'static>>;

impl<Inner, ReqBody, ResBody> Service<Request<ReqBody>> for Idempotency<Inner>
where
    Inner: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>,
    Inner: Clone + Send + 'static,
    Inner::Error: Into<Box<dyn Error + Send + Sync>>,
    Inner::Future: Send,
    ReqBody: Body<Data = Bytes> + Send + 'static,
    ReqBody::Error: Into<Box<dyn Error + Send + Sync>>,
    ResBody: Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<ReplyBody<ResBody>>;
    type Error = Inner::Error;
    type Future = ResponseFuture<ResBody, Inner::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // The one that was polled to readiness does the work; its clone waits for its turn.
        let waiting = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, waiting);
        let guard = Arc::clone(&self.guard);
        let (parts, body) = request.into_parts();
        match guard.admit(&parts) {
            Admission::Pass => Box::pin(pass(ready, parts, body)),
            Admission::PassUnprotected => {
                tracing::warn!(
                    idem.operation = %guard.operation.name(),
                    "switched off; running WITHOUT PROTECTION against duplicates"
                );
                Box::pin(async move {
                    let mut response = pass(ready, parts, body).await?;
                    let headers = response.headers_mut();
                    headers.insert(STORED_HEADER, HeaderValue::from_static("false"));
                    Ok(response)
                })
            }
            Admission::Refuse(problem) => Box::pin(async move { Ok(refused(&guard, problem)) }),
            Admission::Guard { scope, key } => {
                let span = tracing::info_span!(
                    "idem.request",
                    idem.operation = %guard.operation.name(),
                    idem.key_hash = %guard.engine.key_hasher().hash(&scope, &key),
                    idem.outcome = tracing::field::Empty,
                );
                let running = run(guard, ready, scope, key, Request::from_parts(parts, body));
                Box::pin(async move { Ok(running.await) }.instrument(span))
            }
        }
    }
}

/// The request as it came, to the service as it is.
async fn pass<Inner, ReqBody, ResBody>(
    mut inner: Inner,
    parts: Parts,
    body: ReqBody,
) -> Result<Response<ReplyBody<ResBody>>, Inner::Error>
where
    Inner: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>,
{
    let response = inner.call(Request::from_parts(parts, RequestBody::passed(body))).await?;
    Ok(response.map(ReplyBody::passed))
}

/// A refusal is marked, for the case that another layer outside stores answers.
fn refused<B>(guard: &Guard, problem: Problem) -> Response<ReplyBody<B>> {
    tracing::debug!(
        idem.operation = %guard.operation.name(),
        problem = problem.code().name(),
        "refused before a claim"
    );
    let mut response = guard.problem(problem);
    Disposition::Release.mark(&mut response);
    response
}

async fn run<Inner, ReqBody, ResBody>(
    guard: Arc<Guard>,
    mut inner: Inner,
    scope: Scope,
    key: Key,
    request: Request<ReqBody>,
) -> Response<ReplyBody<ResBody>>
where
    Inner: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>> + Send + 'static,
    Inner::Error: Into<Box<dyn Error + Send + Sync>>,
    Inner::Future: Send,
    ReqBody: Body<Data = Bytes> + Send + 'static,
    ReqBody::Error: Into<Box<dyn Error + Send + Sync>>,
    ResBody: Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let body = match upload::collect(&parts.headers, body, guard.settings.max_body_bytes).await {
        Ok(body) => body,
        Err(error) => return refused(&guard, Problem::new(error.code())),
    };
    let call = guard.call(scope, key, &parts, body.data());
    let slot = Slot::new();
    let handler = {
        let (guard, slot) = (Arc::clone(&guard), slot.clone());
        move |execution: Execution| async move {
            let method = parts.method.clone();
            let is_unmatched = client_uri::is_unmatched(&parts);
            let request = guard.request_for(&execution, parts, body);
            let response = inner.call(request).await.map_err(Failure::unknown)?;
            if is_unmatched && response.status() == StatusCode::NOT_FOUND {
                guard.stands_around_fallback(&response);
            }
            guard.answer_of(&method, response, &slot).await
        }
    };
    match guard.engine.run(&guard.operation, call, handler).await {
        Ok(outcome) => {
            tracing::Span::current().record("idem.outcome", name_of(outcome.how));
            guard.outcome(outcome, &slot)
        }
        Err(error) => {
            let problem = guard.problem_of(&error);
            tracing::Span::current().record("idem.outcome", problem.code().name());
            guard.problem(problem)
        }
    }
}
