//! What every server command shares: bind, announce, serve HTTP/1, drain.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The most connections that are open at once; more wait in the listen queue.
const MAX_CONNECTIONS: usize = 1024;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after the operating system refused a connection (no file descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound address that serves a [`Router`].
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address cannot be bound: in use, not of this machine, or not allowed.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// Nobody can read the first line on standard output.
    #[error("cannot write the address to standard output")]
    Announce(#[source] io::Error),
}

/// The answer that is none: the connection is closed without a byte.
///
/// A handler returns it to look like a server that died after acting.
#[derive(Debug, Clone, Copy)]
pub struct HangUp;

impl Server {
    /// Binds the address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`ListenError::Bind`].
    ///
    /// # Cancel safety
    /// Dropping it leaves nothing bound.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bound.await.map_err(|source| ListenError::Bind { address, source })
    }

    /// The address that is bound, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Prints `listening on http://ADDR` as a line on standard output, at once.
    ///
    /// # Errors
    /// [`ListenError::Announce`] when standard output is closed.
    pub fn announce(&self) -> Result<(), ListenError> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "listening on http://{}", self.address)
            .and_then(|()| stdout.flush())
            .map_err(ListenError::Announce)
    }

    /// Serves until `shutdown` resolves, then lets running requests finish for at most
    /// `drain_limit`. Says whether they all did.
    ///
    /// Connections that have no request running are closed at once.
    ///
    /// # Cancel safety
    /// Dropping it closes the listener; connections that are open are served on.
    pub async fn serve(
        self,
        router: Router,
        shutdown: impl Future<Output = ()>,
        drain_limit: Duration,
    ) -> bool {
        let graceful = GracefulShutdown::new();
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = async {
                let permit = connections.clone().acquire_owned().await;
                (permit, self.listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                () = &mut shutdown => break,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = graceful.watch(connection(stream, router.clone()));
                    tokio::spawn(async move {
                        let _permit = permit;
                        if let Err(error) = connection.await {
                            tracing::debug!(%error, "a connection ended early");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        tokio::time::timeout(drain_limit, graceful.shutdown()).await.is_ok()
    }
}

impl IntoResponse for HangUp {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(self);
        response
    }
}

/// What hyper is told so that it drops the connection instead of writing an answer.
#[derive(Debug, thiserror::Error)]
#[error("hung up without an answer, as told")]
struct HungUp;

fn connection(
    stream: TcpStream,
    router: Router,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error> {
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let response = router.call(request.map(Body::new));
        async move {
            let response = response.await.unwrap_or_else(|never: Infallible| match never {});
            match response.extensions().get::<HangUp>() {
                Some(HangUp) => Err(HungUp),
                None => Ok(response),
            }
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
}
