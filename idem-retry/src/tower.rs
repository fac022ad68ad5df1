//! A tower layer for HTTP clients: hyper, tonic, and whatever is a `Service` of `http::Request`.
//!
//! ```
//! use http_body_util::Full;
//! use hyper_util::client::legacy::Client;
//! use hyper_util::rt::TokioExecutor;
//! use idem_retry::{HttpRetry, IdempotencyKey, Policy, tower::RetryLayer};
//! use tower::{Layer as _, Service as _, ServiceExt as _};
//!
//! # async fn call() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder(TokioExecutor::new()).build_http();
//! // hyper follows no redirects: what it was refused a connection for was surely not done.
//! let retry = HttpRetry::new(Policy::default()).follows_redirects(false);
//! let layer = RetryLayer::new(retry);
//! let mut client = layer.layer(client);
//! // What was stored when order 7 was decided on.
//! let key = IdempotencyKey::new("0e4b9b5e-8d4f-4c3b-9c58-5f6f3a1c2d77")?;
//! let request = http::Request::post("http://bank.example/v1/charges")
//!     .extension(key)
//!     .body(Full::<bytes::Bytes>::from("amount=4200"))?;
//! let response = client.ready().await?.call(request).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A service that follows redirects inside of it makes refused connections ambiguous: put it
//! outside, and say so ([`HttpRetry::follows_redirects`]).
//!
//! Put it outside of what has to see every attempt, and outside of a load balancer, so that a retry
//! may go elsewhere. The attempts' own timeouts are those of the policy.
//!
//! # Bodies
//! Whether a body can be sent again is decided before the first attempt: one that states its size,
//! up to [`DEFAULT_KEPT_BYTES`], is read and kept. Any other is passed on as it comes, and the call
//! has one attempt, whose end says [`Why::OneShot`](crate::Why::OneShot). With
//! [`reads_unsized`](RetryLayer::reads_unsized) bodies that do not state their size are read too;
//! never do that where a client streams and waits for answers in between.
//!
//! # tonic
//! Its requests do not state their size: set [`reads_unsized`](RetryLayer::reads_unsized) for
//! unary calls, and [`grpc`](RetryLayer::grpc) so that a status in the head of the answer is read.
//! A call is keyed by a metadata entry of the key header's name, and unprotected without one, as
//! any POST. Put a [`Traits`] among the extensions of calls that only read: then they may be
//! repeated, and their latency is measured apart from that of the others.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::adapter::{
    BoxError, Failed, HttpRetry, Prepared, Replayable, Report, Said, Seen, cause_of, front_of,
};
use crate::attempt::Attempt;
use crate::class::Class;
use crate::classify::{Fault, HttpRules, MAX_PROBLEM_BYTES, Traits, grpc, problem_type};

/// The largest request body that is kept to be sent again, unless set: 64 KiB.
pub const DEFAULT_KEPT_BYTES: usize = 64 * 1024;

/// Retries what goes through a service.
#[derive(Clone)]
#[must_use]
pub struct RetryLayer {
    settings: Settings,
}

/// A service whose calls are retried. It is made by [`RetryLayer`].
#[derive(Clone)]
pub struct RetryService<S> {
    inner: S,
    settings: Settings,
}

#[derive(Clone)]
struct Settings {
    retry: HttpRetry,
    kept_bytes: usize,
    reads_unsized: bool,
    is_grpc: bool,
    fault_of: Arc<FaultOf>,
}

type FaultOf = dyn Fn(&(dyn std::error::Error + 'static)) -> Fault + Send + Sync;

impl RetryLayer {
    /// With these settings.
    pub fn new(retry: HttpRetry) -> Self {
        Self {
            settings: Settings {
                retry,
                kept_bytes: DEFAULT_KEPT_BYTES,
                reads_unsized: false,
                is_grpc: false,
                fault_of: Arc::new(fault_of),
            },
        }
    }

    /// The largest request body that is kept to be sent again.
    pub fn kept_bytes(mut self, bytes: usize) -> Self {
        self.settings.kept_bytes = bytes;
        self
    }

    /// Reads and keeps bodies that do not state their size too. One that turns out to be larger
    /// than [`kept_bytes`](Self::kept_bytes) is passed on whole and has one attempt.
    pub fn reads_unsized(mut self, reads: bool) -> Self {
        self.settings.reads_unsized = reads;
        self
    }

    /// Reads the gRPC status of an answer that has one in its head: UNAVAILABLE as a 503,
    /// RESOURCE_EXHAUSTED as a 429, `grpc-retry-pushback-ms` as the server's hint. A status after
    /// the messages comes too late: the answer has begun by then.
    pub fn grpc(mut self, is_grpc: bool) -> Self {
        self.settings.is_grpc = is_grpc;
        self
    }

    /// How errors of the service are read: [`fault_of`] unless set.
    pub fn faults(
        mut self,
        fault_of: impl Fn(&(dyn std::error::Error + 'static)) -> Fault + Send + Sync + 'static,
    ) -> Self {
        self.settings.fault_of = Arc::new(fault_of);
        self
    }
}

/// What an error says of the request, where no redirects are followed, by the errors it stems from:
/// only a refused connection is known not to have carried it.
pub fn fault_of(error: &(dyn std::error::Error + 'static)) -> Fault {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let is_refused = error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
        if is_refused {
            return Fault::NotSent;
        }
        cause = error.source();
    }
    Fault::Lost
}

impl<S> Layer<S> for RetryLayer {
    type Service = RetryService<S>;

    fn layer(&self, inner: S) -> RetryService<S> {
        RetryService { inner, settings: self.settings.clone() }
    }
}

impl<S, B, R> Service<Request<B>> for RetryService<S>
where
    S: Service<Request<Replayable<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Into<BoxError>,
{
    /// It has a [`Report`] among its extensions.
    type Response = Response<Replayable<R>>;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failed>> + Send>>;

    /// Always ready: each attempt waits for the service itself, within its timeout.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.settings.clone().send(self.inner.clone(), request))
    }
}

impl Settings {
    async fn send<S, B, R>(
        self,
        service: S,
        request: Request<B>,
    ) -> Result<Response<Replayable<R>>, Failed>
    where
        S: Service<Request<Replayable<B>>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
        R: Body + Send + 'static,
        R::Data: Send,
        R::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        let body = self.keep(body).await.map_err(|error| Failed::unusable(error.into()))?;
        let is_one_shot = !body.is_whole();
        let prepared = self.retry.prepare(
            &parts.method,
            &authority(&parts.uri, &parts.headers),
            &mut parts.headers,
            Said::in_extensions(&parts.extensions),
            is_one_shot,
        );
        let mut body = Some(body);
        let prepared = &prepared;
        let op = move |attempt: Attempt| {
            let mut parts = parts.clone();
            prepared.announce(attempt, &mut parts.headers);
            let request = Request::from_parts(parts, next_body(&mut body));
            let mut service = service.clone();
            async move {
                std::future::poll_fn(|context| service.poll_ready(context))
                    .await
                    .map_err(Into::into)?;
                let response = service.call(request).await.map_err(Into::into)?;
                read(prepared, response).await
            }
        };
        let judge = |rules: &HttpRules, traits: Traits, headers: &HeaderMap| -> Option<Class> {
            if self.is_grpc { grpc(rules, traits, headers) } else { None }
        };
        let fault_of = |error: &BoxError| match (self.fault_of)(&**error) {
            // It may be the error of whatever the body is read from.
            Fault::NotSent if is_one_shot => Fault::Lost,
            fault => fault,
        };
        let outcome = prepared.run(head, judge, fault_of, |error| cause_of(&**error), op).await;
        let (seen, report) = Failed::split(outcome)?;
        let mut response: Response<Replayable<R>> = seen.response;
        response.extensions_mut().insert::<Report>(report);
        Ok(response)
    }

    /// Reads a body that can be kept, and leaves any other as it is.
    async fn keep<B: Body>(&self, body: B) -> Result<Replayable<B>, B::Error> {
        let may_be_kept = match body.size_hint().exact() {
            Some(size) => size <= self.kept_bytes as u64,
            None => self.reads_unsized,
        };
        if may_be_kept {
            front_of(body, self.kept_bytes).await
        } else {
            Ok(Replayable::unread(body))
        }
    }
}

fn next_body<B>(body: &mut Option<Replayable<B>>) -> Replayable<B> {
    let again = body.as_ref().and_then(Replayable::again);
    again.or_else(|| body.take()).expect("a body of one shot has one attempt")
}

fn authority(uri: &Uri, headers: &HeaderMap) -> String {
    let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    match (uri.host(), uri.port_u16()) {
        (Some(host), port) => format!("{host}:{}", port.unwrap_or(default)),
        (None, _) => host.unwrap_or("(unnamed)").to_owned(),
    }
}

fn head<R>(response: &Response<R>) -> (StatusCode, &HeaderMap) {
    (response.status(), response.headers())
}

/// Reads as much of an answer as its meaning needs, and puts it together again.
async fn read<R: Body>(
    prepared: &Prepared,
    response: Response<R>,
) -> Result<Seen<Response<Replayable<R>>>, BoxError>
where
    R::Error: Into<BoxError>,
{
    if !prepared.rules().needs_problem(response.status(), response.headers()) {
        return Ok(Seen { response: response.map(Replayable::unread), problem_type: None });
    }
    let (parts, body) = response.into_parts();
    let body = front_of(body, MAX_PROBLEM_BYTES).await.map_err(Into::into)?;
    let problem_type = problem_type(body.front()).filter(|_| body.is_whole());
    Ok(Seen { response: Response::from_parts(parts, body), problem_type })
}

impl std::fmt::Debug for RetryLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryLayer").field("retry", &self.settings.retry).finish_non_exhaustive()
    }
}

impl<S> std::fmt::Debug for RetryService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryService").field("retry", &self.settings.retry).finish_non_exhaustive()
    }
}
