//! What a client is told when there is no answer to give: RFC 9457 documents.
//!
//! Each has a stable `type`, and an `error` member (`type`, `code`, `message`) besides, because
//! widely used payment SDKs take a body without `error` for success.

mod code;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use idem_core::reply::Reply;
use serde::Serialize;

use crate::header_filter::to_field;

pub use self::code::Code;

/// The content type of every problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// What every `type` starts with unless a base of the service's own is set.
pub const DEFAULT_PROBLEM_BASE: &str = "urn:idem:problem:";

/// One problem, ready to be shown.
///
/// It never holds a key, a body or an error's text: only what this crate says about them.
///
/// ```
/// use std::time::Duration;
/// use idem_http::problem::{Code, DEFAULT_PROBLEM_BASE, Problem};
///
/// let problem = Problem::new(Code::KeyInUse).retry_after(Duration::from_millis(1_200));
/// let document: serde_json::Value =
///     serde_json::from_slice(&problem.to_json(DEFAULT_PROBLEM_BASE))?;
/// assert_eq!(document["type"], "urn:idem:problem:key-in-use");
/// assert_eq!(document["status"], 409);
/// assert_eq!(document["error"]["code"], "idempotency_key_in_use");
/// assert_eq!(problem.retry_after_seconds(), Some(2));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    detail: Cow<'static, str>,
    retry_after_seconds: Option<u64>,
    original_status: Option<u16>,
    challenge: Option<HeaderValue>,
}

impl Problem {
    /// The problem of this code, with the status and the sentence that belong to it.
    pub fn new(code: Code) -> Self {
        Self {
            code,
            status: code.status(),
            detail: Cow::Borrowed(code.detail()),
            retry_after_seconds: None,
            original_status: None,
            challenge: None,
        }
    }

    /// Says more exactly what is wrong.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Answers with another status than the code's own.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Says when to come again: in whole seconds, rounded up, and at least 1
    /// (RFC 9110, section 10.2.3).
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        self.retry_after_seconds = Some(seconds.max(1));
        self
    }

    /// Says which status the reply had that is not kept.
    #[must_use]
    pub fn original_status(mut self, status: u16) -> Self {
        self.original_status = Some(status);
        self
    }

    /// Says how to authenticate (RFC 9110, section 11.6.1).
    #[must_use]
    pub fn challenge(mut self, challenge: HeaderValue) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The seconds of its Retry-After, if it has one.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_seconds
    }

    /// The document, with `base` before the code's name as its `type`.
    pub fn to_json(&self, base: &str) -> Bytes {
        let code = self.code.error_code();
        let document = Document {
            kind: format!("{base}{}", self.code.name()),
            title: self.code.title(),
            status: self.status.as_u16(),
            detail: &self.detail,
            original_status: self.original_status,
            error: ErrorMember { kind: self.code.error_type(), code: &code, message: &self.detail },
        };
        // Strings and numbers only: it cannot fail.
        serde_json::to_vec(&document).unwrap_or_default().into()
    }

    /// What is stored as the reply of an execution that ended without one, where its operation
    /// wants that: a 500 that says that nothing runs again.
    pub fn server_error() -> Self {
        let detail = "The request was executed and ended without an answer. What it did is not \
                      known, and it does not run again under this idempotency key.";
        Self::new(Code::HandlerFailed).detail(detail)
    }

    /// The problem as a reply to store: for
    /// [`EngineBuilder::server_error`](idem_core::engine::EngineBuilder::server_error), where a
    /// reconciler resumes what a client of the layer began. `base` is that of the layer. A status
    /// that no reply can have, over 599, becomes 500.
    pub fn into_reply(self, base: &str) -> Reply {
        let response: Response<Bytes> = self.into_response(base);
        Reply::new(response.status().as_u16())
            .or_else(|_| Reply::new(500))
            .expect("500 is a status")
            .with_headers(response.headers().iter().map(to_field))
            .with_body(response.into_body())
    }

    /// The response, for any body that bytes make.
    pub fn into_response<B: From<Bytes>>(self, base: &str) -> Response<B> {
        let mut response = Response::new(B::from(self.to_json(base)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_status: Option<u16>,
    error: ErrorMember<'a>,
}

#[derive(Serialize)]
struct ErrorMember<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    code: &'a str,
    message: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(problem: &Problem) -> serde_json::Value {
        serde_json::from_slice(&problem.to_json(DEFAULT_PROBLEM_BASE)).unwrap()
    }

    #[test]
    fn every_code_makes_a_document_with_all_members() {
        for code in Code::ALL {
            let document = json(&Problem::new(*code));
            assert_eq!(document["type"], format!("urn:idem:problem:{}", code.name()));
            assert_eq!(document["status"], code.status().as_u16());
            assert!(!document["title"].as_str().unwrap().is_empty());
            assert!(!document["detail"].as_str().unwrap().is_empty());
            assert_eq!(document["error"]["message"], document["detail"]);
            assert_eq!(document["error"]["code"], code.error_code());
            assert_eq!(document["error"]["type"], code.error_type());
            assert_eq!(document.as_object().unwrap().len(), 5, "{document}");
        }
    }

    #[test]
    fn names_and_codes_are_unique_and_well_formed() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
        for name in names {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        }
    }

    #[test]
    fn retry_after_is_whole_seconds_rounded_up_and_at_least_one() {
        for (millis, seconds) in [(0, 1), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (30_000, 30)] {
            let problem = Problem::new(Code::KeyInUse).retry_after(Duration::from_millis(millis));
            assert_eq!(problem.retry_after_seconds(), Some(seconds), "{millis} ms");
            let response: Response<Bytes> = problem.into_response("");
            assert_eq!(response.headers()[RETRY_AFTER], seconds.to_string());
        }
    }

    #[test]
    fn the_response_carries_status_type_and_challenge() {
        let problem = Problem::new(Code::ScopeMissing)
            .challenge(HeaderValue::from_static("Bearer"))
            .detail("who are you");
        let response: Response<Bytes> = problem.into_response("https://docs.example/p/");
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
        let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(document["type"], "https://docs.example/p/scope-missing");
        assert_eq!(document["detail"], "who are you");
    }
}
