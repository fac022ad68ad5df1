//! A small service, whole: orders whose row, message and reply are one commit, shipments that go
//! on after a crash without their client, the loops that do so, and an orderly end.
//!
//! ```sh
//! cargo run -p example-sqlite-orders -- orders.db carrier.txt 127.0.0.1:3000
//! curl -i http://127.0.0.1:3000/v1/orders -H 'authorization: Bearer me' \
//!      -H 'idempotency-key: order-1' -H 'content-type: application/json' -d '{"sku":"tea"}'
//! curl -i http://127.0.0.1:3000/v1/shipments -H 'authorization: Bearer me' \
//!      -H 'idempotency-key: ship-1' -H 'content-type: application/json' -d '{"order":"1"}'
//! ```
//!
//! A shipment takes a few seconds. Kill the program in the middle (`kill -9`) and start it again:
//! the reconciler finishes the shipment within the lease, a retry gets its answer, and
//! `carrier.txt` has one parcel and one label.

mod carrier;
mod orders;
mod shipments;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::handler::Handler as _;
use axum::http::header::AUTHORIZATION;
use axum::routing::post;
use idem_core::engine::Engine;
use idem_core::housekeeping::{Reconciler, Runtime, Stopped, Sweeper};
use idem_core::operation::Operation;
use idem_core::relay::{Relay, Sink};
use idem_http::{IdempotencyLayer, scope};
use idem_sqlite::SqliteStore;
use tokio::net::TcpListener;

use crate::carrier::{Carrier, Print};
use crate::orders::create_order;
use crate::shipments::{create_shipment, ship};

/// How long requests and loops may take to end after SIGTERM.
const DRAIN: Duration = Duration::from_secs(30);

/// The set-up: a store, an engine, two operations, a layer for each of their handlers.
fn app(
    store: SqliteStore,
    carrier: Carrier,
    lease: Duration,
) -> Result<(Engine, Router), Box<dyn Error>> {
    let orders = Operation::builder("orders.create").build()?;
    let shipments = shipments::operation().lease(lease).build()?;
    let engine = Engine::builder(store.clone())
        .namespace("shop")?
        .register(&shipments, move |execution| ship(execution, carrier.clone()))
        .build()?;
    let once = IdempotencyLayer::new(engine.clone()).scope(scope::hashed_header(AUTHORIZATION));
    let router = Router::new()
        .route("/v1/orders", post(create_order.layer(once.operation(&orders))))
        .route("/v1/shipments", post(create_shipment.layer(once.operation(&shipments))))
        .with_state(store);
    Ok((engine, router))
}

/// The loops: they resume shipments whose client or process is gone, delete replies whose time is
/// over, and deliver messages.
fn loops(engine: &Engine, store: &SqliteStore, sink: impl Sink) -> Runtime {
    Runtime::builder(engine)
        .chore(Reconciler::new(engine.clone()).interval(Duration::from_secs(5)))
        .chore(Sweeper::of(engine))
        .chore(Relay::new(Arc::new(store.outbox()), sink))
        .start()
}

/// Serves until `end`. Then the loops take nothing new up, the server answers what it has
/// accepted, and what still runs is waited for. What takes longer is resumed by another process.
async fn serve(
    listener: TcpListener,
    router: Router,
    runtime: Runtime,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Stopped> {
    let runtime = Arc::new(runtime);
    let (ended, mut has_ended) = tokio::sync::watch::channel(());
    let winding = Arc::clone(&runtime);
    let server = axum::serve(listener, router).with_graceful_shutdown(async move {
        end.await;
        winding.wind_down();
        let _ = ended.send(());
    });
    tokio::select! {
        served = server => served?,
        // A client that never ends its request does not keep the process.
        () = async { let _ = has_ended.changed().await; tokio::time::sleep(DRAIN).await } => {}
    }
    Ok(runtime.stop(DRAIN).await)
}

async fn open(path: &str) -> Result<SqliteStore, Box<dyn Error>> {
    let store = SqliteStore::open(path).await?;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let pool = sqlx::SqlitePool::connect_with(options).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, sku TEXT NOT NULL)")
        .execute(&pool)
        .await?;
    Ok(store)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "orders.db".into());
    let carrier = args.next().unwrap_or_else(|| "carrier.txt".into());
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3000".into());
    let store = open(&path).await?;
    let carrier = Carrier::new(carrier, Duration::from_secs(2));
    let (engine, router) = app(store.clone(), carrier, Duration::from_secs(10))?;
    let runtime = loops(&engine, &store, Print);
    let mut sigterm = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let end = async move {
        tokio::select! {
            _ = sigterm.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let stopped = serve(listener, router, runtime, end).await?;
    println!("stopped; still running: {}", stopped.executions);
    Ok(())
}

#[cfg(test)]
mod tests;
