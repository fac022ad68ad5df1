//! `GET /healthz`: whether the store can be read, and how the loops are.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use idem_core::housekeeping::{Health, LoopHealth};
use serde_json::{Map, Value, json};

use super::api::Api;
use super::problem::Problem;

/// 503 only when the store cannot be read. A loop that is late, and records that are stuck, are
/// told with 200: to take a server out of rotation does not help against either, and a record that
/// waits for a person would take out every server at once.
pub(super) async fn healthz(State(api): State<Api>) -> Result<Response, Problem> {
    if let Err(error) = api.engine.store().lapsed(None, 1).await {
        tracing::warn!(%error, "the store cannot be read");
        let message = "the store cannot be read";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message));
    }
    let health = api.loops.health();
    let status = match (health.stopping, health.is_good()) {
        (true, _) => "stopping",
        (false, true) => "ok",
        (false, false) => "degraded",
    };
    let loops: Map<String, Value> =
        health.loops.iter().map(|one| (one.name.to_owned(), describe(one))).collect();
    let records = json!({
        "stuck": count(&health, "lapsed-meter", "begun"),
        "held": count(&health, "reconciler", "held"),
        "not_resumable": count(&health, "reconciler", "not_resumable"),
    });
    Ok(Json(json!({ "status": status, "records": records, "loops": loops })).into_response())
}

/// What the last pass of a loop counted; `None` before the first, or where it does not run.
fn count(health: &Health, name: &str, what: &str) -> Option<u64> {
    health.of(name)?.count(what)
}

fn describe(one: &LoopHealth) -> Value {
    let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let counts: Map<String, Value> =
        one.counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    json!({
        "late": one.is_late(),
        "passes": one.passes,
        "failures_in_a_row": one.failures_in_a_row,
        "last_success_ms_ago": one.since_success.map(millis),
        "running_ms": one.running_for.map(millis),
        "last_error": one.last_error,
        "work": one.work,
        "counts": counts,
    })
}
