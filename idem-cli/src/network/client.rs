//! The client of a card network, as `serve` uses it.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use tokio::net::TcpStream;

use super::charge::{Charge, ChargeRequest, LedgerView};

/// The most bytes of an answer to a charge.
const MAX_REPLY_BYTES: usize = 64 * 1024;
/// The most bytes of a page of the ledger.
const MAX_LEDGER_BYTES: usize = 32 * 1024 * 1024;
/// The most charges in a page of the ledger: with the largest of them it stays in its limit.
pub const LEDGER_PAGE: usize = 2_000;

/// A card network at an `http://` address. Clones share it.
///
/// Each call has a connection of its own, used once and never retried here. So a connection that
/// could not be made proves that nothing was sent, and anything later proves nothing.
#[derive(Debug, Clone)]
pub struct CardNetwork {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
    timeout: Duration,
}

/// A URL that is not the address of a card network. It does not show the URL: it may hold a
/// password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the card network's URL must be http://HOST:PORT and nothing more")]
pub struct NetworkUrlError;

/// Why a charge was not confirmed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A definite no, which the network remembers: this key will be declined for ever.
    #[error("the card network declined the charge")]
    Declined {
        /// The network's name for the decline.
        id: String,
    },
    /// The network found the call itself wrong: its key, its form, or a key that was used for
    /// another payload. This call did nothing.
    #[error("the card network refused the call with status {status}")]
    Refused {
        /// 400, 413 or 422.
        status: u16,
        /// The network's name for the fault.
        code: String,
    },
    /// No connection could be made: nothing was sent, nothing was done.
    #[error("the card network cannot be reached")]
    NotSent(#[source] Box<dyn Error + Send + Sync>),
    /// The call may have been carried out. Only a call with the same key is safe now.
    #[error("the card network did not say what came of the charge")]
    Unknown(#[source] UnknownOutcome),
}

/// Why the outcome of a call is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownOutcome {
    /// The connection ended before the answer did.
    #[error("the connection was lost")]
    ConnectionLost(#[source] Box<dyn Error + Send + Sync>),
    /// The answer was a failure of the network, or none that it is known to give.
    #[error("it answered with status {0}")]
    Status(u16),
    /// No answer within the timeout.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The answer is too long, not the JSON that it must be, or about another charge.
    #[error("its answer cannot be read")]
    Unreadable,
}

impl CardNetwork {
    /// A client of the network at `url`, such as `http://127.0.0.1:4000`. `timeout` is for a
    /// whole call; half of it is for the connection. Nothing is sent yet.
    ///
    /// # Errors
    /// [`NetworkUrlError`] for anything but plain HTTP, a host and a port.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, NetworkUrlError> {
        let base = base(url).ok_or(NetworkUrlError)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(timeout / 2));
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .retry_canceled_requests(false)
            .build(connector);
        Ok(Self { client, base, timeout })
    }

    /// Where it is: `http://HOST:PORT`.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Connects, sends nothing, and hangs up: whether a call could be sent now.
    ///
    /// # Errors
    /// [`NetworkError::NotSent`] when no connection can be made.
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub async fn reach(&self) -> Result<(), NetworkError> {
        let connect = async {
            let authority = self.base.trim_start_matches("http://");
            let has_port = Uri::try_from(authority).is_ok_and(|uri| uri.port().is_some());
            match has_port {
                true => TcpStream::connect(authority).await,
                false => TcpStream::connect(format!("{authority}:80")).await,
            }
        };
        let limit = self.timeout / 2;
        let connected = tokio::time::timeout(limit, connect).await;
        match connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())) {
            Ok(_) => Ok(()),
            Err(error) => Err(NetworkError::NotSent(error.into())),
        }
    }

    /// Asks for a charge under a downstream key. The same key and request can be sent any number
    /// of times; the network charges once.
    ///
    /// # Errors
    /// [`NetworkError`] says whether the call is known to have done nothing.
    ///
    /// # Cancel safety
    /// Dropping it leaves the outcome unknown, as [`NetworkError::Unknown`] does.
    pub async fn charge(&self, request: &ChargeRequest, key: &str) -> Result<Charge, NetworkError> {
        let refused = |code: &str| NetworkError::Refused { status: 400, code: code.into() };
        let key = HeaderValue::from_str(key).map_err(|_| refused("invalid_key"))?;
        let body = serde_json::to_vec(request).map_err(|_| refused("invalid_request"))?;
        let mut call = self.request(Method::POST, "/charges", body);
        call.headers_mut().insert("idempotency-key", key);
        call.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));

        let (status, reply) = self.send(call, MAX_REPLY_BYTES).await?;
        if status == StatusCode::OK {
            let charge: Charge = read(&reply)?;
            return if charge.request == *request { Ok(charge) } else { Err(UNREADABLE) };
        }
        Err(failure(status, &reply))
    }

    /// Reads the ledger: what it holds for `caller`, or for everybody; from the charge after the
    /// first `after` on. Changes nothing, so [`NetworkError::Unknown`] is harmless here.
    ///
    /// # Errors
    /// [`NetworkError`].
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub async fn ledger(
        &self,
        caller: Option<&str>,
        after: usize,
    ) -> Result<LedgerView, NetworkError> {
        let mut path = format!("/ledger?limit={LEDGER_PAGE}&after={after}");
        if let Some(caller) = caller {
            path.push_str("&caller=");
            path.extend(caller.bytes().map(percent_encoded));
        }
        let call = self.request(Method::GET, &path, Vec::new());
        match self.send(call, MAX_LEDGER_BYTES).await? {
            (StatusCode::OK, reply) => read(&reply),
            (status, reply) => Err(failure(status, &reply)),
        }
    }

    fn request(&self, method: Method, path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .body(Full::from(body))
            .expect("a checked base and an escaped path")
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
        max_reply_bytes: usize,
    ) -> Result<(StatusCode, Bytes), NetworkError> {
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| {
                if error.is_connect() {
                    NetworkError::NotSent(error.into())
                } else {
                    NetworkError::Unknown(UnknownOutcome::ConnectionLost(error.into()))
                }
            })?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, max_reply_bytes).collect().await.map_err(|error| {
                NetworkError::Unknown(if error.is::<LengthLimitError>() {
                    UnknownOutcome::Unreadable
                } else {
                    UnknownOutcome::ConnectionLost(error)
                })
            })?;
            Ok((head.status, body.to_bytes()))
        };
        tokio::time::timeout(self.timeout, exchange)
            .await
            .unwrap_or(Err(NetworkError::Unknown(UnknownOutcome::TimedOut(self.timeout))))
    }
}

const UNREADABLE: NetworkError = NetworkError::Unknown(UnknownOutcome::Unreadable);

#[derive(Deserialize)]
struct ErrorReply {
    error: ErrorMember,
}

#[derive(Deserialize)]
struct ErrorMember {
    code: String,
    decline: Option<String>,
}

fn read<T: for<'a> Deserialize<'a>>(reply: &[u8]) -> Result<T, NetworkError> {
    serde_json::from_slice(reply).map_err(|_| UNREADABLE)
}

/// Only a no in the network's own form is definite; anybody can answer with a 4xx.
fn failure(status: StatusCode, reply: &[u8]) -> NetworkError {
    let error = serde_json::from_slice::<ErrorReply>(reply).ok().map(|reply| reply.error);
    match (status.as_u16(), error) {
        (402, Some(ErrorMember { decline: Some(id), .. })) => NetworkError::Declined { id },
        (status @ (400 | 413 | 422), Some(ErrorMember { code, .. })) => {
            NetworkError::Refused { status, code }
        }
        (status, _) => NetworkError::Unknown(UnknownOutcome::Status(status)),
    }
}

/// `http://HOST:PORT` without a path, a query or a user.
fn base(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let authority = uri.authority()?;
    let plain = uri.scheme_str() == Some("http")
        && !authority.as_str().contains('@')
        && matches!(uri.path(), "" | "/")
        && uri.query().is_none();
    plain.then(|| format!("http://{authority}"))
}

fn percent_encoded(byte: u8) -> String {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
