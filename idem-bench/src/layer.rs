//! A route of axum, without the layer and with it, on the store in memory.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header::AUTHORIZATION};
use axum::routing::post;
use axum::{Json, Router};
use idem_core::engine::Engine;
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;
use idem_http::{IdempotencyLayer, scope};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::measure::{BoxError, Effort, Row, Subject, measure};

/// The size of an ordinary request, in bytes.
const BODY_BYTES: usize = 1_024;

/// Measures it.
pub(crate) async fn run(effort: Effort) -> Result<Vec<Row>, BoxError> {
    let echo = async |body: Json<Value>| (StatusCode::CREATED, body);
    let plain = Router::new().route("/orders", post(echo));
    let engine = Engine::builder(MemoryStore::new()).namespace("bench")?.build()?;
    let operation = Operation::builder("bench.order").build()?;
    let layer = IdempotencyLayer::new(engine)
        .scope(scope::hashed_header(AUTHORIZATION))
        .operation(&operation);
    let layered = plain.clone().layer(layer);
    send(&layered, "replayed", false).await?;
    let again = layered.clone();
    let subjects = [
        Subject::new("the route alone", move |number| {
            let plain = plain.clone();
            async move { send(&plain, &format!("k{number}"), false).await }
        }),
        Subject::new("with the layer", move |number| {
            let layered = layered.clone();
            async move { send(&layered, &format!("k{number}"), false).await }
        }),
        Subject::new("replayed", move |_| {
            let again = again.clone();
            async move { send(&again, "replayed", true).await }
        }),
    ];
    measure("http", &subjects, effort).await
}

async fn send(router: &Router, key: &str, expects_replay: bool) -> Result<(), BoxError> {
    let body = format!(r#"{{"note":"{}"}}"#, "x".repeat(BODY_BYTES));
    let request = Request::post("/orders")
        .header("authorization", "Bearer bench")
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(Body::from(body))?;
    let response = router.clone().oneshot(request).await?;
    let replayed = response.headers().contains_key("idempotent-replayed");
    let status = response.status();
    to_bytes(response.into_body(), 2 * BODY_BYTES).await?;
    if status == StatusCode::CREATED && replayed == expects_replay {
        return Ok(());
    }
    Err(format!("{status}, replayed: {replayed}").into())
}
