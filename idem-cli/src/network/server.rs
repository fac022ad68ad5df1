//! The card network over HTTP.

use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use super::call::Network;
use super::charge::ChargeRequest;
use super::control::Change;
use super::ledger::Verdict;
use super::problem::Problem;
use crate::listen::HangUp;

/// The most bytes of a request's body.
const MAX_BODY_BYTES: usize = 16 * 1024;
/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The most charges or calls in one answer.
const MAX_PAGE: usize = 100_000;

pub(super) fn router(network: Network) -> Router {
    Router::new()
        .route("/charges", post(charge))
        .route("/ledger", get(ledger))
        .route("/ledger/calls", get(calls))
        .route("/control", get(control).post(change))
        .route("/healthz", get(healthz))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "not_found", "no such resource"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "not here")
        })
        .with_state(network)
}

/// Which part of the ledger is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    caller: Option<String>,
    /// How many of the first ones to leave out.
    #[serde(default)]
    after: usize,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct CallView {
    number: usize,
    key: String,
    caller: String,
    at_ms: u64,
}

async fn charge(
    State(network): State<Network>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = downstream_key(&headers)?;
    let request: ChargeRequest = read_json(body).await?;
    request.check().map_err(|fault| Problem::invalid(fault.to_string()))?;
    let outcome = network.call(key, request).await?;
    if outcome.drop_answer {
        return Ok(HangUp.into_response());
    }
    network.control.hold().await;
    match outcome.verdict {
        Verdict::Charged(charge) => Ok(Json(charge).into_response()),
        Verdict::Declined(id) => Err(Problem::declined(id)),
        Verdict::Mismatch => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "key_reused",
            "this key was used for another payload",
        )),
    }
}

async fn ledger(
    State(network): State<Network>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Result<Response, Problem> {
    let filter = Filter::from_query(filter)?;
    let view = network
        .with_ledger(move |ledger| {
            ledger.view(filter.caller.as_deref(), filter.after, filter.page())
        })
        .await?;
    Ok(Json(view).into_response())
}

async fn calls(
    State(network): State<Network>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Result<Response, Problem> {
    let filter = Filter::from_query(filter)?;
    let (total, data) = network
        .with_ledger(move |ledger| {
            let wanted = |caller: &str| filter.caller.as_deref().is_none_or(|name| name == caller);
            let calls = ledger.calls().iter().enumerate().filter(|(_, call)| wanted(&call.caller));
            let total = calls.clone().count();
            let view = calls.skip(filter.after).take(filter.page()).map(|(index, call)| CallView {
                number: index + 1,
                key: call.key.to_string(),
                caller: call.caller.to_string(),
                at_ms: call.at_ms,
            });
            let data: Vec<_> = view.collect();
            let has_more = filter.after.saturating_add(data.len()) < total;
            ((total, has_more), data)
        })
        .await?;
    let (calls, has_more) = total;
    Ok(Json(json!({ "calls": calls, "has_more": has_more, "data": data })).into_response())
}

async fn control(State(network): State<Network>) -> Response {
    Json(network.control.state()).into_response()
}

async fn change(State(network): State<Network>, body: Body) -> Result<Response, Problem> {
    let change: Change = read_json(body).await?;
    let state = network.control.change(change).map_err(|e| Problem::invalid(e.to_string()))?;
    Ok(Json(state).into_response())
}

async fn healthz(State(network): State<Network>) -> Result<Response, Problem> {
    if network.with_ledger(|ledger| ledger.is_writable()).await? {
        Ok(Json(json!({ "status": "ok" })).into_response())
    } else {
        Err(Problem::unavailable("the ledger cannot be written"))
    }
}

/// The key: one header, in the form that a downstream key has. A caller that passes on its own
/// client's key by mistake is told so.
fn downstream_key(headers: &HeaderMap) -> Result<String, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let key = match (values.next(), values.next()) {
        (Some(key), None) => key.as_bytes(),
        (None, _) => return Err(Problem::key("Idempotency-Key is missing")),
        (Some(_), Some(_)) => return Err(Problem::key("Idempotency-Key is there twice")),
    };
    let is_uuid = key.len() == 36
        && key.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    match str::from_utf8(key) {
        Ok(key) if is_uuid => Ok(key.to_owned()),
        _ => Err(Problem::key("Idempotency-Key must be a UUID of 36 characters")),
    }
}

async fn read_json<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let body = read_body(body).await?;
    serde_json::from_slice(&body).map_err(|error| {
        // The error's own text may quote the body.
        let (line, column) = (error.line(), error.column());
        Problem::invalid(format!("the body is not what it must be: line {line} column {column}"))
    })
}

async fn read_body(body: Body) -> Result<Bytes, Problem> {
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("the body has more than {MAX_BODY_BYTES} bytes"),
        )),
        Ok(Err(_)) => Err(Problem::invalid("the body ended early")),
        Err(_) => {
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", "the body took too long"))
        }
    }
}

impl Filter {
    fn from_query(query: Result<Query<Self>, QueryRejection>) -> Result<Self, Problem> {
        let Query(filter) = query.map_err(|_| Problem::invalid("the query cannot be read"))?;
        Ok(filter)
    }

    fn page(&self) -> usize {
        self.limit.unwrap_or(MAX_PAGE).min(MAX_PAGE)
    }
}
