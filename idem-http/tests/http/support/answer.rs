//! Requests to a service in this process, and what came back.

use axum::body::Body;
use bytes::Bytes;
use http::header::HeaderMap;
use http::{Request, Response, StatusCode, request};
use http_body_util::BodyExt;
use idem_http::ReplyBody;
use serde_json::Value;
use tower::{Service, ServiceExt};

/// A whole response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) async fn of<B>(response: Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body");
        let trailers = body.trailers().cloned();
        Self { status: head.status, headers: head.headers, body: body.to_bytes(), trailers }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// Status and the problem's `error.code`, less its prefix.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let document = self.json();
        assert_eq!(document["status"], self.status.as_u16());
        assert_eq!(document["error"]["message"], document["detail"]);
        assert!(document["error"]["type"].is_string() && document["title"].is_string());
        let code = document["error"]["code"].as_str().unwrap();
        let code = code.strip_prefix("idempotency_").unwrap().replace('_', "-");
        assert_eq!(document["type"], format!("urn:idem:problem:{code}"));
        (self.status.as_u16(), code)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    #[track_caller]
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.header("retry-after").map(|seconds| seconds.parse().expect("whole seconds"))
    }

    /// The same answer without what says how it came about.
    pub(crate) fn without_marks(&self) -> Self {
        let mut answer = self.clone();
        for name in ["idempotent-replayed", "idempotency-key-lifetime", "idempotency-stored"] {
            answer.headers.remove(name);
        }
        answer
    }
}

/// A POST by the caller `alice` under this key.
pub(crate) fn post(path: &str, key: &str) -> request::Builder {
    Request::post(path).header("authorization", "Bearer alice").header("idempotency-key", key)
}

/// Sends a request to a clone of a service.
pub(crate) async fn send<S, B>(service: &S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
    S::Error: std::fmt::Debug,
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    Answer::of(service.clone().oneshot(request).await.expect("a response")).await
}

/// The empty body of the layer compiles as what a timeout layer outside needs.
#[test]
fn the_body_of_a_reply_has_a_default() {
    fn takes_default<B: Default + http_body::Body>(_: B) {}
    takes_default(ReplyBody::<Body>::default());
}
