//! The layer and its settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::HeaderName;
use http::request::Parts;
use idem_core::engine::Engine;
use idem_core::key::Scope;
use idem_core::operation::Operation;
use tower_layer::Layer;

use crate::guard::Guard;
use crate::key_header::KeySyntax;
use crate::mark::Disposition;
use crate::scope::ScopeError;
use crate::service::Idempotency;
use crate::settings::Settings;
use crate::switch::Switch;

/// Runs each request once per key, and answers its retries with the first answer.
///
/// It is a [`tower_layer::Layer`] once it knows whose keys it sees ([`scope`](Self::scope)) and
/// what it protects ([`operation`](Self::operation)); until then the compiler refuses it. One with
/// a scope and no operation is a template: `operation` can be called on it for each route.
///
/// # Where it stands in axum
/// On a handler, `post(create_order.layer(once))`, or on the routes of a router,
/// `Router::route_layer(once)`. **Not `Router::layer`**: axum runs the router's fallback inside of
/// it, so that the 404 of a path without a route is stored like any answer. A deploy that brings
/// the route later does not bring back the keys: they are answered with the stored 404 until their
/// retention is over. The layer cannot tell a fallback from a service in `nest_service`, and an
/// answer that is perhaps the service's own is not dropped; it logs a warning, once.
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::{BodyExt, Full};
/// use idem_core::engine::Engine;
/// use idem_core::memory::MemoryStore;
/// use idem_core::operation::Operation;
/// use idem_http::{IdempotencyLayer, RequestBody, scope};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder(MemoryStore::new()).namespace("shop")?.build()?;
/// let charge = Operation::builder("charges.create").build()?;
/// let layer = IdempotencyLayer::new(engine)
///     .scope(scope::hashed_header(http::header::AUTHORIZATION))
///     .operation(&charge);
///
/// let service = layer.layer(service_fn(|request: Request<RequestBody<Full<_>>>| async move {
///     let body = request.into_body().collect().await?.to_bytes();
///     Ok::<_, std::convert::Infallible>(Response::new(Full::new(body)))
/// }));
/// for replayed in [false, true] {
///     let request = Request::post("/v1/charges")
///         .header("authorization", "Bearer sk_test_1")
///         .header("idempotency-key", "order-7")
///         .body(Full::from("100 eur"))?;
///     let response = service.clone().oneshot(request).await?;
///     assert_eq!(response.headers().contains_key("idempotent-replayed"), replayed);
///     assert_eq!(response.into_body().collect().await?.to_bytes(), "100 eur");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct IdempotencyLayer<S = NoScope, O = NoOperation> {
    engine: Engine,
    scope: S,
    operation: O,
    settings: Settings,
}

/// The layer does not know yet whose keys it sees.
///
/// ```compile_fail,E0277
/// use idem_core::engine::Engine;
/// use idem_core::memory::MemoryStore;
/// use idem_core::operation::Operation;
/// use idem_http::IdempotencyLayer;
///
/// let engine = Engine::builder(MemoryStore::new()).namespace("shop").unwrap().build().unwrap();
/// let charge = Operation::builder("charges.create").build().unwrap();
/// fn is_a_layer<S, L: tower::Layer<S>>(_: L, _: S) {}
/// is_a_layer(IdempotencyLayer::new(engine).operation(&charge), ());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct NoScope;

/// The layer does not know yet what it protects.
#[derive(Debug, Clone, Copy)]
pub struct NoOperation;

/// The layer knows whose keys it sees.
#[derive(Clone)]
pub struct Scoped(pub(crate) Arc<dyn ScopeOf>);

/// Reads the scope of a request from its head.
pub(crate) trait ScopeOf: Send + Sync {
    fn scope_of(&self, parts: &Parts) -> Result<Scope, ScopeError>;
}

impl<F> ScopeOf for F
where
    F: Fn(&Parts) -> Result<Scope, ScopeError> + Send + Sync,
{
    fn scope_of(&self, parts: &Parts) -> Result<Scope, ScopeError> {
        self(parts)
    }
}

impl IdempotencyLayer {
    /// A layer on this engine.
    pub fn new(engine: Engine) -> Self {
        Self { engine, scope: NoScope, operation: NoOperation, settings: Settings::default() }
    }
}

impl<S: Clone, O: Clone> IdempotencyLayer<S, O> {
    /// Says whose keys they are: usually one of the extractors in [`scope`](crate::scope).
    pub fn scope<F>(&self, scope_of: F) -> IdempotencyLayer<Scoped, O>
    where
        F: Fn(&Parts) -> Result<Scope, ScopeError> + Send + Sync + 'static,
    {
        IdempotencyLayer {
            engine: self.engine.clone(),
            scope: Scoped(Arc::new(scope_of)),
            operation: self.operation.clone(),
            settings: self.settings.clone(),
        }
    }

    /// Says what is protected. Duplicates wait, leases, retention and the largest reply that is
    /// kept are the operation's.
    pub fn operation(&self, operation: &Operation) -> IdempotencyLayer<S, Operation> {
        IdempotencyLayer {
            engine: self.engine.clone(),
            scope: self.scope.clone(),
            operation: operation.clone(),
            settings: self.settings.clone(),
        }
    }

    /// The methods whose requests are protected; POST and PATCH by default. Requests of any other
    /// pass untouched, with a key or without.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|settings| settings.methods = methods.into_iter().collect())
    }

    /// Lets requests without a key pass, unprotected: each one runs. A key that is sent and is not
    /// one is still refused.
    pub fn optional_key(self) -> Self {
        self.with(|settings| settings.key_required = false)
    }

    /// Accepts only quoted keys, as the IETF draft has them. Payment SDKs send bare ones.
    pub fn strict(self) -> Self {
        self.with(|settings| settings.key_syntax = KeySyntax::QuotedOnly)
    }

    /// The name of the header that carries the key; `Idempotency-Key` by default.
    pub fn key_header(self, name: HeaderName) -> Self {
        self.with(|settings| settings.key_header = name)
    }

    /// The name of the header that marks a replay; `Idempotent-Replayed` by default.
    pub fn replayed_header(self, name: HeaderName) -> Self {
        self.with(|settings| settings.replayed_header = name)
    }

    /// The largest request body, in bytes; 1 MiB by default. It is read into memory before
    /// anything is claimed; a larger one is answered 413.
    pub fn max_body_bytes(self, bytes: usize) -> Self {
        self.with(|settings| settings.max_body_bytes = bytes)
    }

    /// Headers that tell requests under one key apart besides method, path, query, content type
    /// and body (R22). Not one that changes between attempts: SDKs count theirs in headers.
    pub fn fingerprint_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|settings| settings.fingerprint_headers = names.into_iter().collect())
    }

    /// Headers of a request that are stored with its body where the operation keeps inputs, so
    /// that an attempt without the client has them; `Content-Type` by default. What is stored is
    /// readable in the store unless it is sealed: think before adding a credential.
    pub fn stored_request_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|settings| settings.stored_request_headers = names.into_iter().collect())
    }

    /// Headers of a response that the first answer has and a replay has not: `Set-Cookie`, say.
    /// None by default.
    pub fn drop_response_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|settings| settings.dropped_response_headers = names.into_iter().collect())
    }

    /// What becomes of a 5xx that carries no mark: stored by default, like any answer (R14).
    pub fn unmarked_server_errors(self, disposition: Disposition) -> Self {
        self.with(|settings| settings.unmarked_server_errors = disposition)
    }

    /// How long the body of a response is waited for, so that it can be stored; 10 s by default.
    /// One that takes longer is streamed to the client from there on and is not kept.
    pub fn stream_after(self, limit: Duration) -> Self {
        self.with(|settings| settings.stream_after = limit)
    }

    /// The longest Retry-After; 1 s by default. It is never longer than the operation's lease. A
    /// longer one saves requests, and makes clients wait for an answer that stands already.
    pub fn retry_hint(self, longest: Duration) -> Self {
        self.with(|settings| settings.retry_hint = longest)
    }

    /// What the `type` of each problem document starts with; `urn:idem:problem:` by default. Where
    /// the service documents them, `https://docs.example.com/problems/`, say.
    pub fn problem_base(self, base: impl Into<String>) -> Self {
        self.with(|settings| settings.problem_base = base.into())
    }

    /// A switch that turns the protection off while the service runs.
    pub fn switch(self, switch: &Switch) -> Self {
        self.with(|settings| settings.switch = switch.clone())
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }
}

impl IdempotencyLayer<Scoped, Operation> {
    pub(crate) fn guard(&self) -> Guard {
        Guard::new(
            self.engine.clone(),
            Arc::clone(&self.scope.0),
            self.operation.clone(),
            self.settings.clone(),
        )
    }
}

impl<S> IdempotencyLayer<S, Operation> {
    /// What the layer protects.
    pub(crate) fn protected(&self) -> (&Operation, &Settings) {
        (&self.operation, &self.settings)
    }
}

impl<Inner> Layer<Inner> for IdempotencyLayer<Scoped, Operation> {
    type Service = Idempotency<Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        Idempotency::new(inner, self.guard())
    }
}

impl<S, O> fmt::Debug for IdempotencyLayer<S, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer").field("settings", &self.settings).finish_non_exhaustive()
    }
}
