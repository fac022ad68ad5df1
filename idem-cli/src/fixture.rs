//! `idem fixture`: the small app that language-neutral Idempotency-Key conformance vectors run
//! against.
//!
//! | request | answer |
//! |---|---|
//! | `POST /echo` | 201, the same bytes and content type |
//! | `POST /status/{200-599}` | that status, text `status:CODE` |
//! | `POST /slow?ms=N` | after N milliseconds 200, `slept:N` |
//! | `POST /large?bytes=N` | 200, N times `x`, application/octet-stream |
//! | `POST /panic` | the handler panics |
//! | `GET /counter` | `{"count":n}`: how often a handler ran |
//! | `POST /reset` | 204; the counter is 0 again |
//!
//! Every POST but `/reset` is behind the layer, and needs a key; a key on GET is ignored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use idem_core::engine::Engine;
use idem_core::key::Scope;
use idem_core::operation::Operation;
use idem_http::{IdempotencyLayer, scope};
use serde::Deserialize;

use crate::backends::{self, Intent};
use crate::exit::{Exit, Failure};
use crate::listen::Server;
use crate::server_args::ServerArgs;
use crate::shutdown::Shutdown;

/// The longest that `/slow` waits.
const MAX_SLEEP: Duration = Duration::from_secs(60);
/// The most bytes that `/large` sends.
const MAX_LARGE: u64 = 1024 * 1024 * 1024;
/// How many bytes `/large` sends at once.
const CHUNK: u64 = 64 * 1024;
/// How long running requests may take once the end was asked for.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Run the app of the public Idempotency-Key conformance vectors.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs `idem fixture` until it is asked to end.
///
/// # Errors
/// [`Failure`] with [`Exit::Usage`] for a setting that is out of range, and with another code when
/// the store cannot be opened or the address not bound.
pub fn run(args: Args) -> Result<Exit, Failure> {
    args.server.check()?;
    let runtime = tokio::runtime::Runtime::new().map_err(|e| Failure::new(Exit::Setup, e))?;
    runtime.block_on(serve(&args.server))
}

async fn serve(args: &ServerArgs) -> Result<Exit, Failure> {
    let setup = |error| Failure::new(Exit::Setup, error);
    let mut shutdown = Shutdown::listen().map_err(setup)?;
    if args.end_with_stdin {
        shutdown = shutdown.with_stdin_end().map_err(setup)?;
    }
    let hasher = args.key_hasher()?;
    let opened = backends::open(&args.store, Intent::Serve).await?;
    let operation =
        args.operation("fixture").build().map_err(|error| Failure::new(Exit::Usage, error))?;
    let engine = Engine::builder(opened.store)
        .namespace("idem-fixture")
        .map_err(|error| Failure::new(Exit::Setup, error))?
        .key_hasher(hasher)
        .build()
        .map_err(|error| Failure::new(Exit::Setup, error))?;
    let server =
        Server::bind(args.listen).await.map_err(|error| Failure::new(Exit::Setup, error))?;
    server.announce().map_err(|error| Failure::new(Exit::Setup, error))?;
    let router = router(engine.clone(), &operation, args.max_body_bytes());
    let requested = async move {
        shutdown.requested().await;
    };
    server.serve(router, requested, DRAIN_LIMIT).await;
    engine.drain(DRAIN_LIMIT).await;
    Ok(Exit::Success)
}

/// How often a handler ran.
type Count = Arc<AtomicU64>;

fn router(engine: Engine, operation: &Operation, max_body_bytes: usize) -> Router {
    let count = Count::default();
    let layer = IdempotencyLayer::new(engine)
        .scope(scope::constant(Scope::new("fixture").expect("a short scope")))
        .operation(operation)
        .max_body_bytes(max_body_bytes);
    Router::new()
        .route("/echo", post(echo))
        .route("/status/{code}", post(status))
        .route("/slow", post(slow))
        .route("/large", post(large))
        .route("/panic", post(panics))
        .route("/counter", get(counter))
        .layer(layer)
        .route("/reset", post(reset))
        .with_state(count)
}

async fn echo(State(count): State<Count>, headers: HeaderMap, body: Bytes) -> Response {
    count.fetch_add(1, Ordering::SeqCst);
    let mut response = (StatusCode::CREATED, Body::from(body)).into_response();
    let content_type = headers.get(CONTENT_TYPE).cloned();
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

async fn status(State(count): State<Count>, Path(code): Path<u16>) -> Response {
    match StatusCode::from_u16(code) {
        Ok(status) if (200..=599).contains(&code) => {
            count.fetch_add(1, Ordering::SeqCst);
            (status, format!("status:{code}")).into_response()
        }
        _ => (StatusCode::BAD_REQUEST, "a status from 200 to 599").into_response(),
    }
}

#[derive(Deserialize)]
struct Sleep {
    ms: u64,
}

async fn slow(State(count): State<Count>, Query(Sleep { ms }): Query<Sleep>) -> Response {
    let span = Duration::from_millis(ms);
    if span > MAX_SLEEP {
        return (StatusCode::BAD_REQUEST, "at most 60000 ms").into_response();
    }
    count.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(span).await;
    format!("slept:{ms}").into_response()
}

#[derive(Deserialize)]
struct Size {
    bytes: u64,
}

/// Sends its body in chunks: it need not fit in memory, here or in the layer.
async fn large(State(count): State<Count>, Query(Size { bytes }): Query<Size>) -> Response {
    if bytes > MAX_LARGE {
        return (StatusCode::BAD_REQUEST, "at most 1 GiB").into_response();
    }
    count.fetch_add(1, Ordering::SeqCst);
    let chunks = stream::unfold(bytes, |left| async move {
        let size = left.min(CHUNK);
        let chunk = vec![b'x'; usize::try_from(size).unwrap_or_default()];
        (size > 0).then(|| (Ok::<_, std::convert::Infallible>(Bytes::from(chunk)), left - size))
    });
    let headers = [(CONTENT_TYPE, "application/octet-stream")];
    (headers, Body::from_stream(chunks)).into_response()
}

async fn panics(State(count): State<Count>) -> Response {
    count.fetch_add(1, Ordering::SeqCst);
    panic!("asked for by POST /panic");
}

async fn counter(State(count): State<Count>) -> Response {
    axum::Json(serde_json::json!({ "count": count.load(Ordering::SeqCst) })).into_response()
}

async fn reset(State(count): State<Count>) -> StatusCode {
    count.store(0, Ordering::SeqCst);
    StatusCode::NO_CONTENT
}
