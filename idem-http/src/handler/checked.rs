//! Extractors whose rejections free the key.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;

use crate::mark::Disposition;

/// An extractor whose rejection is known to come before execution: the key is freed, so that a
/// corrected retry runs (R14). Without it the rejection (a 400, a 422) is stored like any answer,
/// since a layer cannot tell it from the handler's own.
///
/// ```
/// use axum::{Json, Router, routing::post};
/// use idem_http::handler::Checked;
///
/// async fn charge(Checked(Json(amount)): Checked<Json<u64>>) -> String {
///     format!("charged {amount}")
/// }
/// let router: Router = Router::new().route("/charges", post(charge));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked<E>(pub E);

impl<S, E> FromRequest<S> for Checked<E>
where
    S: Send + Sync,
    E: FromRequest<S>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        E::from_request(request, state).await.map(Self).map_err(released)
    }
}

impl<S, E> FromRequestParts<S> for Checked<E>
where
    S: Send + Sync,
    E: FromRequestParts<S>,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        E::from_request_parts(parts, state).await.map(Self).map_err(released)
    }
}

fn released(rejection: impl IntoResponse) -> Response {
    let mut response = rejection.into_response();
    Disposition::Release.mark(&mut response);
    response
}
