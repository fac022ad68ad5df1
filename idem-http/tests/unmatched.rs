//! What is logged about a layer that stands around a router's fallback. A binary of its own, since
//! the subscriber is that of the process.

use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use idem_core::engine::Engine;
use idem_core::key::Scope;
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;
use idem_http::{Disposition, IdempotencyLayer, scope};
use tower::ServiceExt as _;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn warnings(&self) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains("a path without a route")).count()
    }
}

fn once() -> IdempotencyLayer<idem_http::Scoped, Operation> {
    let engine = Engine::builder(MemoryStore::new()).namespace("test").unwrap().build().unwrap();
    let operation = Operation::builder("charge").build().unwrap();
    IdempotencyLayer::new(engine)
        .scope(scope::constant(Scope::new("me").unwrap()))
        .operation(&operation)
}

async fn not_found(app: &Router, path: &str, key: &str) {
    let request = Request::post(path).header("idempotency-key", key).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
}

#[tokio::test]
async fn a_404_of_a_path_without_a_route_is_warned_of_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).expect("it is the only one");
    // A handler whose own answer is a 404, on a path that is there.
    let routes = || Router::new().route("/charges", post(|| async { StatusCode::NOT_FOUND }));

    let on_routes = routes().route_layer(once());
    let marked = || async { (StatusCode::NOT_FOUND, Disposition::Release, "nothing here") };
    let with_mark = routes().fallback(marked).layer(once());
    for app in [&on_routes, &with_mark] {
        not_found(app, "/charges", "k1").await;
        not_found(app, "/nothing", "k2").await;
    }
    assert_eq!(log.warnings(), 0);

    let around = routes().layer(once());
    not_found(&around, "/charges", "k1").await;
    assert_eq!(log.warnings(), 0, "the answer of a handler");
    for key in ["k2", "k3"] {
        not_found(&around, "/nothing", key).await;
    }
    assert_eq!(log.warnings(), 1);
}
