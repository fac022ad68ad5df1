//! A hyper server over real sockets, and a client that can hang up anywhere.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use idem_core::operation::Operation;
use idem_http::{IdempotencyLayer, RequestBody, Scoped};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tower::{Layer, Service, service_fn};

use super::gate::PATIENCE;
use super::world::Effects;
use super::{Answer, Gate};

/// What stands behind the layer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A tower service over hyper's own body.
    Plain,
    /// An axum router.
    Axum,
}

pub(crate) const KINDS: [Kind; 2] = [Kind::Plain, Kind::Axum];

/// The handler of the server: waits at the gate, has its effect, and answers with a body of
/// `reply_bytes`.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) gate: Gate,
    pub(crate) effects: Effects,
    pub(crate) reply_bytes: usize,
}

impl Work {
    async fn run(self, body: Bytes) -> Response<Full<Bytes>> {
        self.gate.pass().await;
        let number = self.effects.happen();
        let mut reply = format!("{number} {}", String::from_utf8_lossy(&body)).into_bytes();
        reply.resize(reply.len().max(self.reply_bytes), b'x');
        let response = Response::builder()
            .status(StatusCode::CREATED)
            .header("location", format!("/charges/{number}"))
            .header("set-cookie", "a=1; expires=Thu, 01 Jan 2026 00:00:00 GMT")
            .header("set-cookie", "b=2");
        response.body(Full::from(reply)).unwrap()
    }
}

/// A server on loopback. It ends with the test's runtime.
pub(crate) struct Server {
    address: SocketAddr,
    ended: mpsc::UnboundedReceiver<()>,
}

impl Server {
    pub(crate) async fn start(
        kind: Kind,
        layer: IdempotencyLayer<Scoped, Operation>,
        work: Work,
    ) -> Self {
        match kind {
            Kind::Axum => {
                let handler = move |body: Bytes| work.clone().run(body);
                Self::serve(Router::new().route("/charges", post(handler)).layer(layer)).await
            }
            Kind::Plain => {
                let service = service_fn(move |request: Request<RequestBody<Incoming>>| {
                    let work = work.clone();
                    async move {
                        let body = request.into_body().collect().await.expect("it is in memory");
                        Ok::<_, Infallible>(work.run(body.to_bytes()).await)
                    }
                });
                Self::serve(layer.layer(service)).await
            }
        }
    }

    pub(crate) async fn serve<S, B>(service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ends, ended) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(service.clone());
                let ends = ends.clone();
                tokio::spawn(async move {
                    let io = TokioIo::new(stream);
                    // A client that hangs up is an error here, and what these tests are about.
                    let _ = http1::Builder::new().serve_connection(io, service).await;
                    let _ = ends.send(());
                });
            }
        });
        Self { address, ended }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Waits until the server has dropped one more connection, and all that it did for it.
    pub(crate) async fn connection_ended(&mut self) {
        timeout(PATIENCE, self.ended.recv()).await.expect("a connection ends").unwrap();
    }

    /// One request on a connection of its own.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Answer {
        parse(&self.exchange_bytes(request).await)
    }

    /// As [`exchange`](Self::exchange), with every byte of what came back.
    pub(crate) async fn exchange_bytes(&mut self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        let mut response = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut response)).await.expect("an answer").unwrap();
        self.connection_ended().await;
        response
    }
}

/// A whole request with this body; its connection is closed after the answer.
pub(crate) fn request(key: &str, body: &str) -> Vec<u8> {
    let bytes = body.len();
    format!(
        "POST /charges HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer alice\r\nidempotency-key: {key}\r\n\
         content-length: {bytes}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn parse(response: &[u8]) -> Answer {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    let head = std::str::from_utf8(&response[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    let body = Bytes::copy_from_slice(&response[end + 4..]);
    // Of one connection and one moment.
    for name in ["connection", "date"] {
        headers.remove(name);
    }
    Answer { status, headers, body, trailers: None }
}
