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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// The most connections that are open at once; more wait in the listen queue.
const MAX_CONNECTIONS: usize = 1024;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after the operating system refused a connection (no file descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long connections are still taken once the end was asked for.
const LAST_CALL: Duration = Duration::from_millis(20);

/// How long the first bytes of a request may take on a connection when the end was asked for.
const FIRST_BYTES: Duration = Duration::from_millis(100);

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
    /// Connections are taken for a moment more, so that a client who has connected is answered; those
    /// that have no request running are closed then.
    ///
    /// # Cancel safety
    /// Dropping it closes the listener; connections that are open are served on.
    pub async fn serve(
        self,
        router: Router,
        shutdown: impl Future<Output = ()>,
        drain_limit: Duration,
    ) -> bool {
        let mut open = Open::new(router);
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = async {
                let permit = open.permit().await;
                (permit, self.listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                () = &mut shutdown => break,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok((stream, _)) => open.serve(stream, permit),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        let drained = async {
            // Whoever has connected by now may have sent a request.
            let _ = timeout(LAST_CALL, open.serve_all(&self.listener)).await;
            drop(self.listener);
            open.close().await;
        };
        timeout(drain_limit, drained).await.is_ok()
    }
}

/// The connections that are open.
struct Open {
    router: Router,
    graceful: GracefulShutdown,
    free: Arc<Semaphore>,
}

impl Open {
    fn new(router: Router) -> Self {
        let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Self { router, graceful: GracefulShutdown::new(), free }
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    fn serve(&mut self, stream: TcpStream, permit: Option<OwnedSemaphorePermit>) {
        let connection = self.graceful.watch(connection(stream, self.router.clone()));
        tokio::spawn(async move {
            let _permit = permit;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }

    /// Serves every connection that can be had.
    async fn serve_all(&mut self, listener: &TcpListener) {
        loop {
            let permit = self.permit().await;
            match listener.accept().await {
                Ok((stream, _)) => self.serve(stream, permit),
                Err(_) => return,
            }
        }
    }

    /// Lets requests that run be answered, and closes what is idle.
    async fn close(self) {
        if self.free.available_permits() < MAX_CONNECTIONS {
            // A connection of which nothing was read is closed at once: what was sent on it is
            // read first.
            sleep(FIRST_BYTES).await;
        }
        self.graceful.shutdown().await;
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
