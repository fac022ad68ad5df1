//! Delivers by POST.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use idem_core::async_trait;
use idem_core::outbox::OutboxMessage;
use idem_core::relay::{Sink, SinkError};
use idem_retry::classify::{Fault, HttpRules};
use idem_retry::{ATTEMPT_HEADER, Announced, KEY_HEADER, MAX_ATTEMPTS, one_layer};

use crate::answer;

/// The most bytes of an answer that are read, so that the connection can be used again.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How long is waited for them.
const READ_LIMIT: Duration = Duration::from_secs(1);
/// How long a connection may take to be made, unless the connector is the caller's.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

const TOPIC: HeaderName = HeaderName::from_static("idem-topic");
const ORDERING_KEY: HeaderName = HeaderName::from_static("idem-ordering-key");

/// Delivers each message by a POST to one URL.
///
/// The body is the payload. The message's id goes as `Idempotency-Key`, a quoted string
/// (draft-ietf-httpapi-idempotency-key-header): the same on every attempt, so that a receiver with
/// idem's layer runs each message once. Topic and ordering key go as `Idem-Topic` and
/// `Idem-Ordering-Key`, and the message's own headers as headers; one that HTTP does not take, or
/// that the sink sets itself, makes the message poison.
///
/// # What an answer means
/// Any 2xx: the receiver has the message for good. Everything else is read by the rules of
/// [`idem_retry::classify`], for a request with a key; a 500 is retried. Of what those rules find
/// final, this is poison, and goes to the dead letters at once:
///
/// - 400, 410, 413, 414, 415, 422 and 431, which refuse this very message;
/// - a failure that the receiver has stored under the message's id, and so would repeat;
/// - a failure that it says not to retry (`x-should-retry: false`), or after which it keeps the
///   id no longer (`Idempotency-Key-Lifetime: 0`).
///
/// All the rest is tried again: also 401, 403, 404, other 4xx, 501 and redirects, which are not
/// followed. A relay outlives a wrong credential and a deployment that comes late. No try comes
/// earlier than `Retry-After` says, in seconds or as a date, which is compared with the answer's
/// own `Date`.
///
/// # One layer of retries
/// The relay's limit on a delivery bounds the call in time, and its waits are the only retries. So
/// each attempt is announced to the receiver with [`ATTEMPT_HEADER`], as one of at most
/// [`MAX_ATTEMPTS`] since a sink does not know its relay's number, and calls by `idem-retry` that
/// a connector makes run once. No budget applies: `docs/decisions/0010-no-budget-for-relays.md`
/// says why.
///
/// ```
/// use std::sync::Arc;
/// use idem_core::outbox::MemoryOutbox;
/// use idem_core::relay::Relay;
/// use idem_relay::HttpSink;
///
/// let sink = HttpSink::new("http://127.0.0.1:8080/events")?
///     .with_header("authorization", "Bearer secret")?;
/// let relay = Relay::new(Arc::new(MemoryOutbox::new()), sink);
/// # Ok::<_, idem_relay::HttpSinkError>(())
/// ```
#[derive(Clone)]
pub struct HttpSink<C = HttpConnector> {
    client: Client<C, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    rules: HttpRules,
}

/// Why a sink cannot be made. It shows neither the URL nor a header's value: they may hold a
/// password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpSinkError {
    /// The URL is not one of HTTP, has no host, holds a name or a password, or is one of HTTPS
    /// without a connector for it.
    #[error(
        "the URL must be http://HOST[:PORT]/PATH, with credentials in a header; https:// needs a \
         connector of its own"
    )]
    Url,
    /// The header cannot be sent, or is one that the sink sets itself.
    #[error("the header cannot be sent")]
    Header,
}

impl HttpSink {
    /// A sink at an `http://` URL. Nothing is sent yet.
    ///
    /// # Errors
    /// [`HttpSinkError::Url`].
    pub fn new(url: &str) -> Result<Self, HttpSinkError> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_LIMIT));
        let sink = Self::with_connector(url, connector)?;
        if sink.uri.scheme_str() == Some("http") { Ok(sink) } else { Err(HttpSinkError::Url) }
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> HttpSink<C> {
    /// A sink whose connections are made by the caller's connector: for HTTPS, a proxy, or a
    /// socket of another sort.
    ///
    /// # Errors
    /// [`HttpSinkError::Url`].
    pub fn with_connector(url: &str, connector: C) -> Result<Self, HttpSinkError> {
        let uri: Uri = url.parse().map_err(|_| HttpSinkError::Url)?;
        // A name and a password in it would not be sent: `with_header` takes a credential.
        let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.host().is_none() || has_user {
            return Err(HttpSinkError::Url);
        }
        let client =
            Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build(connector);
        let rules = HttpRules::new().retry_500(true);
        Ok(Self { client, uri, headers: HeaderMap::new(), rules })
    }

    /// How answers are read: as those of a server of `idem-http` with its default names, unless
    /// set.
    #[must_use]
    pub fn rules(mut self, rules: HttpRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sends a header with every message, such as a credential.
    ///
    /// # Errors
    /// [`HttpSinkError::Header`].
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, HttpSinkError> {
        let (name, mut value) = header(name, value).ok_or(HttpSinkError::Header)?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    fn request(
        &self,
        message: &OutboxMessage,
        attempt: Announced,
    ) -> Result<Request<Full<Bytes>>, SinkError> {
        let unsendable = |what: &str| SinkError::poison(format!("HTTP does not take its {what}"));
        let text = |value: &str, what: &str| {
            HeaderValue::from_bytes(value.as_bytes()).map_err(|_| unsendable(what))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in message.headers() {
            let (name, value) = header(name, value).ok_or_else(|| unsendable("headers"))?;
            headers.append(name, value);
        }
        if !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        }
        headers.insert(KEY_HEADER, text(&format!("\"{}\"", message.id()), "id")?);
        headers.insert(TOPIC, text(message.topic(), "topic")?);
        if let Some(key) = message.ordering_key() {
            headers.insert(ORDERING_KEY, text(key, "ordering key")?);
        }
        attempt.announce(&mut headers);
        // Those of the sink count more than those of a message.
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        let mut request = Request::new(Full::new(message.payload().clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<(), SinkError> {
        let answer = self.client.request(request).await.map_err(|error| {
            let fault = if error.is_connect() { Fault::NotSent } else { Fault::Lost };
            answer::absent(&self.rules, fault).with_source(error)
        })?;
        let (parts, body) = answer.into_parts();
        // The status has been said: what follows, or does not, changes nothing.
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect();
        let _ = tokio::time::timeout(READ_LIMIT, body).await;
        answer::read(&self.rules, parts.status, &parts.headers)
    }
}

#[async_trait]
impl<C: Connect + Clone + Send + Sync + 'static> Sink for HttpSink<C> {
    async fn deliver(&self, message: &OutboxMessage, attempt: u32) -> Result<(), SinkError> {
        let max = MAX_ATTEMPTS;
        let announced = Announced { attempt: attempt.clamp(1, max), max };
        let request = self.request(message, announced)?;
        one_layer::inside(announced, self.send(request)).await
    }
}

impl<C> fmt::Debug for HttpSink<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSink").field("host", &self.uri.host()).finish_non_exhaustive()
    }
}

/// A header that the sink does not set itself, and that does not frame the message.
fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
    let framing = ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];
    let own = [KEY_HEADER, TOPIC, ORDERING_KEY, ATTEMPT_HEADER, CONTENT_LENGTH, HOST];
    let taken = own.contains(&name) || framing.contains(&name.as_str());
    (!taken).then_some((name, value))
}
