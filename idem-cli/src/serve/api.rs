//! The API over HTTP: one route behind the idempotency layer, and what may be read freely.

use std::error::Error;
use std::sync::Arc;

use axum::extract::State;
use axum::handler::Handler as _;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use http::request::Parts;
use idem_core::engine::Engine;
use idem_core::housekeeping::Runtime;
use idem_core::key::Scope;
use idem_core::operation::Operation;
use idem_http::IdempotencyLayer;
use idem_http::handler::{Done, Exec, Fault};
use idem_http::scope::ScopeError;
use serde_json::Value;

use super::caller::Caller;
use super::charge;
use super::health::healthz;
use super::listing;
use super::metrics::MetricsPage;
use super::openapi;
use super::problem::Problem;
use crate::network::CardNetwork;

/// What the handlers share.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) engine: Engine,
    pub(super) network: CardNetwork,
    pub(super) loops: Arc<Runtime>,
    document: Arc<Value>,
}

/// What may be seen of the server itself.
pub(super) struct Seen {
    pub(super) loops: Arc<Runtime>,
    pub(super) metrics: MetricsPage,
}

/// The routes of the API.
///
/// # Errors
/// When the API cannot be described: two of its operations have one name, say.
pub(super) fn router(
    engine: Engine,
    network: CardNetwork,
    charge: &Operation,
    max_body_bytes: usize,
    seen: Seen,
) -> Result<Router, Box<dyn Error + Send + Sync>> {
    let idempotency = IdempotencyLayer::new(engine.clone())
        .operation(charge)
        .scope(scope)
        .max_body_bytes(max_body_bytes);
    let document = Arc::new(openapi::document(&idempotency, charge)?);
    let router = Router::new()
        .route("/v1/charges", post(create.layer(idempotency)).get(listing::list))
        .route("/v1/charges/{id}", get(listing::retrieve))
        .route("/healthz", get(healthz))
        .route("/metrics", get(async move || seen.metrics.render()))
        .route("/openapi.json", get(async |State(api): State<Api>| Json((*api.document).clone())))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "not_found", "no such resource"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "not here")
        });
    Ok(router.with_state(Api { engine, network, loops: seen.loops, document }))
}

/// Checks the request, then carries the charge out as a reconciler would. What the check finds
/// costs no key: a corrected request may use it.
async fn create(exec: Exec) -> Result<Done, Fault> {
    charge::check(&exec).map_err(Fault::reject)?;
    Ok(exec.registered().await?.into())
}

fn scope(request: &Parts) -> Result<Scope, ScopeError> {
    Caller::of(&request.headers).map(|caller| caller.scope()).ok_or_else(ScopeError::missing)
}
