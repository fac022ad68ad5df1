//! Retries, mistakes, a job that fails in the middle, and the orderly end.

use std::fs;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use idem_core::admin::Admin as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::*;

const LEASE: Duration = Duration::from_millis(300);

struct Shop {
    folder: tempfile::TempDir,
    store: SqliteStore,
    engine: Engine,
    router: Router,
}

impl Shop {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path().join("orders.db").to_str().unwrap()).await.unwrap();
        let carrier = carrier(&folder);
        let (engine, router) = app(store.clone(), carrier, LEASE).unwrap();
        Self { folder, store, engine, router }
    }

    async fn send(&self, path: &str, body: &'static str) -> (u16, bool, String) {
        let request = Request::post(path)
            .header("authorization", "Bearer me")
            .header("idempotency-key", "key-1")
            .header("content-type", "application/json")
            .body(Body::from(body))
            .unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let replayed = response.headers().contains_key("idempotent-replayed");
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, replayed, String::from_utf8(body.to_vec()).unwrap())
    }

    /// What the carrier did, without the keys.
    fn done(&self) -> Vec<String> {
        let lines = carrier(&self.folder).done().unwrap();
        lines.iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    async fn count(&self, table: &'static str) -> i64 {
        let path = self.folder.path().join("orders.db");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
        let query = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar(query).fetch_one(&pool).await.unwrap()
    }
}

fn carrier(folder: &tempfile::TempDir) -> Carrier {
    Carrier::new(folder.path().join("carrier/done.txt"), Duration::from_millis(50))
}

/// The carrier is there from now on: until then each call of it fails.
fn carrier_comes_up(shop: &Shop) {
    fs::create_dir(shop.folder.path().join("carrier")).unwrap();
}

#[tokio::test]
async fn duplicates_make_one_order_and_one_message() {
    let shop = Shop::open().await;
    // A mistake is not stored: the corrected request works under the same key.
    assert_eq!(shop.send("/v1/orders", r#"{"sku":7}"#).await.0, 422);
    let first = shop.send("/v1/orders", r#"{"sku":"tea"}"#).await;
    assert_eq!((first.0, first.1), (201, false));
    for _ in 0..10 {
        let again = shop.send("/v1/orders", r#"{ "sku": "tea" }"#).await;
        assert_eq!((again.0, again.1, &again.2), (201, true, &first.2));
    }
    assert_eq!(shop.send("/v1/orders", r#"{"sku":"coffee"}"#).await.0, 422);
    assert_eq!((shop.count("orders").await, shop.count("idem_outbox").await), (1, 1));
}

/// The right form of a resumable operation: what is no shipment takes no key.
#[tokio::test]
async fn a_body_that_is_no_shipment_leaves_the_key_free() {
    let shop = Shop::open().await;
    carrier_comes_up(&shop);
    for body in ["{", r#"{"order":7}"#, "{}"] {
        let status = shop.send("/v1/shipments", body).await.0;
        assert!(matches!(status, 400 | 422), "{body} {status}");
    }
    assert_eq!(shop.count("idem_records").await, 0);
    assert_eq!(shop.send("/v1/shipments", r#"{"order":"7"}"#).await.0, 201);
    assert_eq!(shop.done(), ["parcel-7", "label-parcel-7"]);
}

#[tokio::test]
async fn the_reconciler_finishes_what_failed_and_a_retry_gets_its_answer() {
    let shop = Shop::open().await;
    let failed = shop.send("/v1/shipments", r#"{"order":"7"}"#).await;
    assert_eq!(failed.0, StatusCode::CONFLICT.as_u16(), "{}", failed.2);
    assert!(failed.2.contains("idempotency_outcome_unknown"), "{}", failed.2);
    carrier_comes_up(&shop);
    let reconciler = Reconciler::new(shop.engine.clone());
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while shop.store.stats().await.unwrap().completed == 0 {
        assert!(tokio::time::Instant::now() < until, "nobody finished it");
        reconciler.once().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let retry = shop.send("/v1/shipments", r#"{"order":"7"}"#).await;
    assert_eq!((retry.0, retry.1), (201, true));
    assert_eq!(retry.2, r#"{"label":"label-parcel-7","order":"7"}"#);
    assert_eq!(shop.done(), ["parcel-7", "label-parcel-7"]);
}

#[tokio::test]
async fn at_the_end_a_request_that_runs_is_answered() {
    let shop = Shop::open().await;
    carrier_comes_up(&shop);
    let runtime = loops(&shop.engine, &shop.store, Print);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let end_of = async { ended.await.unwrap() };
    let server = tokio::spawn(serve(listener, shop.router.clone(), runtime, end_of));
    let request = "POST /v1/shipments HTTP/1.1\r\nhost: shop\r\nauthorization: Bearer me\r\n\
                   idempotency-key: key-1\r\ncontent-type: application/json\r\n\
                   content-length: 13\r\n\r\n{\"order\":\"7\"}";
    client.write_all(request.as_bytes()).await.unwrap();
    while shop.done().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    end.send(()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(answer.ends_with(r#""order":"7"}"#), "{answer}");
    let stopped = server.await.unwrap().unwrap();
    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(shop.done(), ["parcel-7", "label-parcel-7"]);
}
