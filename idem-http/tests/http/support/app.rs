//! The axum routers that most tests talk to.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::any;
use bytes::Bytes;
use http::StatusCode;
use idem_core::operation::Operation;
use idem_http::{IdempotencyLayer, Scoped};

use super::Gate;
use super::world::Effects;

/// `/charges` has an effect and answers 201 with its number and the body that it got.
pub(crate) fn charges(layer: IdempotencyLayer<Scoped, Operation>, effects: &Effects) -> Router {
    answering(layer, effects, |number, body| {
        (StatusCode::CREATED, format!("{number} {}", String::from_utf8_lossy(&body)))
    })
}

/// `/charges` has an effect and answers what `answer` makes of its number and the body.
pub(crate) fn answering<F, R>(
    layer: IdempotencyLayer<Scoped, Operation>,
    effects: &Effects,
    answer: F,
) -> Router
where
    F: Fn(u32, Bytes) -> R + Clone + Send + Sync + 'static,
    R: IntoResponse,
{
    let effects = effects.clone();
    let handler = move |body: Bytes| async move { answer(effects.happen(), body).into_response() };
    Router::new().route("/charges", any(handler).layer(layer))
}

/// As [`charges`]; each run waits at the gate before its effect.
pub(crate) fn gated(
    layer: IdempotencyLayer<Scoped, Operation>,
    effects: &Effects,
    gate: &Gate,
) -> Router {
    let (effects, gate) = (effects.clone(), gate.clone());
    let handler = move |body: Bytes| async move {
        gate.pass().await;
        let number = effects.happen();
        (StatusCode::CREATED, format!("{number} {}", String::from_utf8_lossy(&body)))
    };
    Router::new().route("/charges", any(handler).layer(layer))
}
