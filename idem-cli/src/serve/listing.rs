//! What the ledger holds for a caller, as the API shows it.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::api::Api;
use super::caller::Caller;
use super::problem::Problem;
use super::reply::ChargeView;
use crate::network::{CardNetwork, Charge, LEDGER_PAGE, LedgerView, NetworkError};

/// The most charges in one part of the list.
pub(super) const MAX_LIMIT: usize = LEDGER_PAGE;

/// Which part of the list is asked for. Other parameters are passed over: payment SDKs have many.
#[derive(Debug, Deserialize)]
pub(super) struct Part {
    limit: Option<usize>,
    starting_after: Option<String>,
}

/// `GET /v1/charges`: the caller's charges in the order in which they were made.
pub(super) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    part: Result<Query<Part>, QueryRejection>,
) -> Result<Response, Problem> {
    let caller = authenticated(&headers)?;
    let Query(part) = part.map_err(|_| {
        Problem::new(StatusCode::BAD_REQUEST, "query_invalid", "the query cannot be read")
    })?;
    if part.limit.is_some_and(|limit| !(1..=MAX_LIMIT).contains(&limit)) {
        let message = format!("limit must be 1 to {MAX_LIMIT}");
        let problem = Problem::new(StatusCode::BAD_REQUEST, "parameter_invalid", message);
        return Err(problem.about("limit"));
    }
    let after = match &part.starting_after {
        Some(id) => find(&api.network, &caller, id).await?.position + 1,
        None => 0,
    };
    let LedgerView { mut data, mut has_more, .. } = page(&api.network, &caller, after).await?;
    if let Some(limit) = part.limit {
        has_more |= data.len() > limit;
        data.truncate(limit);
    }
    let data: Vec<_> = data.iter().map(|entry| ChargeView::from(&entry.charge)).collect();
    let list =
        json!({ "object": "list", "url": "/v1/charges", "has_more": has_more, "data": data });
    Ok(Json(list).into_response())
}

/// `GET /v1/charges/{id}`: one of the caller's charges.
pub(super) async fn retrieve(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let caller = authenticated(&headers)?;
    let found = find(&api.network, &caller, &id).await?;
    Ok(Json(ChargeView::from(&found.charge)).into_response())
}

fn authenticated(headers: &HeaderMap) -> Result<Caller, Problem> {
    Caller::of(headers).ok_or_else(|| {
        let message = "send a token: Authorization: Bearer sk_test_1";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
    })
}

struct Found {
    position: usize,
    charge: Charge,
}

async fn find(network: &CardNetwork, caller: &Caller, id: &str) -> Result<Found, Problem> {
    let mut before = 0;
    loop {
        let view = page(network, caller, before).await?;
        let count = view.data.len();
        for (index, entry) in view.data.into_iter().enumerate() {
            if entry.charge.id == id {
                return Ok(Found { position: before + index, charge: entry.charge });
            }
        }
        if !view.has_more || count == 0 {
            let message = "there is no such charge";
            return Err(Problem::new(StatusCode::NOT_FOUND, "resource_missing", message));
        }
        before += count;
    }
}

async fn page(network: &CardNetwork, caller: &Caller, after: usize) -> Result<LedgerView, Problem> {
    network.ledger(Some(caller.name()), after).await.map_err(|error: NetworkError| {
        tracing::warn!(error = &error as &dyn std::error::Error, "the ledger was not read");
        let message = "the card network's ledger cannot be read now";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "network_unavailable", message)
    })
}
