//! The answers of a card network that are no success.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;

use super::call::CallError;

/// Every answer that is not a success: `{"error":{"type":…,"code":…,"message":…}}`.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    decline: Option<String>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), decline: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub(super) fn key(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_key", message)
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    pub(super) fn declined(id: String) -> Self {
        let message = "the card was declined";
        Self {
            decline: Some(id),
            ..Self::new(StatusCode::PAYMENT_REQUIRED, "card_declined", message)
        }
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::PAYMENT_REQUIRED => "card_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut error = json!({
            "type": self.kind(), "code": self.code, "message": self.message,
        });
        if let Some(id) = self.decline {
            error["decline"] = id.into();
        }
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
            }
            CallError::Ledger(ledger) => {
                tracing::error!(error = &ledger as &dyn std::error::Error, "a call was not done");
                Self::unavailable(ledger.to_string())
            }
            CallError::Ending => Self::unavailable(error.to_string()),
        }
    }
}
