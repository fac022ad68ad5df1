//! The API's own errors: RFC 9457, with the `error` member that payment SDKs look for.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use idem_core::reply::Reply;
use serde_json::{Map, Value, json};

/// The content type of every error.
const PROBLEM_JSON: &str = "application/problem+json";

/// An error that the API answers with. It never holds a key, a token or a value of a body (R24).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    param: Option<Cow<'static, str>>,
    members: Map<String, Value>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None, members: Map::new() }
    }

    /// Names the parameter that is wrong.
    pub(super) fn about(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Adds a member to `error`.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// The status that it is sent with.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Its stable name, such as `parameter_missing`.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The same as a reply that can be stored.
    pub(super) fn to_reply(&self) -> Reply {
        Reply::empty()
            .with_status(self.status.as_u16())
            .expect("a problem's status is from 400 to 599")
            .with_header("content-type", PROBLEM_JSON)
            .with_body(self.body())
    }

    /// What sort of error it is, in the words of the payment SDKs.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            402 => "card_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        }
    }

    fn body(&self) -> Bytes {
        let mut error = self.members.clone();
        error.insert("type".into(), self.kind().into());
        error.insert("code".into(), self.code.into());
        error.insert("message".into(), self.message.as_str().into());
        if let Some(param) = &self.param {
            error.insert("param".into(), param.as_ref().into());
        }
        let body = json!({
            "type": format!("urn:idem:payments:{}", self.code.replace('_', "-")),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.message,
            "error": error,
        });
        Bytes::from(body.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body();
        let mut response = (self.status, body).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_both_a_problem_document_and_what_an_sdk_reads() {
        let problem =
            Problem::new(StatusCode::BAD_REQUEST, "parameter_missing", "amount is missing")
                .about("amount");
        let reply = problem.to_reply();
        assert_eq!(reply.status(), 400);
        assert_eq!(
            reply.decode_json::<Value>().unwrap(),
            json!({
                "type": "urn:idem:payments:parameter-missing",
                "title": "Bad Request",
                "status": 400,
                "detail": "amount is missing",
                "error": {
                    "type": "invalid_request_error",
                    "code": "parameter_missing",
                    "message": "amount is missing",
                    "param": "amount",
                },
            })
        );
    }

    #[test]
    fn the_response_and_the_stored_reply_are_the_same_bytes() {
        let problem = Problem::new(StatusCode::PAYMENT_REQUIRED, "card_declined", "no")
            .with("decline", "dc_1");
        let response = problem.clone().into_response();
        assert_eq!(response.status(), 402);
        assert_eq!(response.headers()[CONTENT_TYPE], PROBLEM_JSON);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(axum::body::to_bytes(response.into_body(), 4_096)).unwrap();
        assert_eq!(&body, problem.to_reply().body().unwrap());
    }
}
