//! Deliveries as a provider makes them.

use axum::body::Body;
use axum::http::Request;
use tower::ServiceExt as _;

use super::*;

const SECRET: &[u8] = b"whsec";
const EVENT: &str = r#"{"id":"evt_1","type":"payment.succeeded","order":"7","amount":1999}"#;

struct Place {
    app: Router,
    path: String,
    _folder: tempfile::TempDir,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("payments.db").to_str().unwrap().to_owned();
        let consumer = Consumer::new(open(&path).await.unwrap(), SECRET).unwrap();
        Self { app: app(consumer), path, _folder: folder }
    }

    async fn deliver(&self, body: &str) -> StatusCode {
        let sent = now().to_string();
        let tag = signature::sign(SECRET, &sent, body.as_bytes());
        self.send(body, &sent, &tag).await
    }

    async fn send(&self, body: &str, sent: &str, tag: &str) -> StatusCode {
        let request = Request::post("/webhooks")
            .header("webhook-time", sent)
            .header("webhook-signature", tag)
            .body(Body::from(body.to_owned()))
            .unwrap();
        self.app.clone().oneshot(request).await.unwrap().status()
    }

    async fn counts(&self) -> (i64, i64) {
        let payments = self.query("SELECT count(*) FROM payments").await;
        (payments, self.query("SELECT count(*) FROM idem_outbox").await)
    }

    async fn query(&self, query: &'static str) -> i64 {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&self.path);
        let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
        sqlx::query_scalar(query).fetch_one(&pool).await.unwrap()
    }
}

#[tokio::test]
async fn an_event_that_comes_again_counts_once() {
    let place = Place::new().await;
    assert_eq!(place.deliver(EVENT).await, StatusCode::OK);
    for tries in 2..10 {
        // The provider's count of tries differs, and says nothing of the event.
        let again = EVENT.replacen('{', &format!("{{\"tries\":{tries},"), 1);
        assert_eq!(place.deliver(&again).await, StatusCode::OK);
    }
    assert_eq!(place.counts().await, (1, 1));
    assert_eq!(place.deliver(&EVENT.replace("evt_1", "evt_2")).await, StatusCode::OK);
    assert_eq!(place.counts().await, (2, 2));
}

#[tokio::test]
async fn of_many_deliveries_at_once_one_counts_and_none_is_acknowledged_without_it() {
    let place = Arc::new(Place::new().await);
    let deliveries: Vec<_> = (0..16)
        .map(|_| {
            let place = Arc::clone(&place);
            tokio::spawn(async move { place.deliver(EVENT).await })
        })
        .collect();
    let mut acknowledged = 0;
    for delivery in deliveries {
        let status = delivery.await.unwrap();
        assert!([StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE].contains(&status), "{status}");
        acknowledged += u32::from(status == StatusCode::OK);
    }
    assert!(acknowledged >= 1);
    assert_eq!(place.counts().await, (1, 1));
}

#[tokio::test]
async fn what_fails_is_not_acknowledged_and_works_when_it_comes_again() {
    let place = Place::new().await;
    let rename = |from: &str, to: &str| format!("ALTER TABLE {from} RENAME TO {to}");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&place.path);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let run = async |query: String| {
        sqlx::query(sqlx::AssertSqlSafe(query)).execute(&pool).await.unwrap();
    };
    run(rename("payments", "elsewhere")).await;
    assert_eq!(place.deliver(EVENT).await, StatusCode::SERVICE_UNAVAILABLE);
    run(rename("elsewhere", "payments")).await;
    assert_eq!(place.counts().await, (0, 0));
    assert_eq!(place.deliver(EVENT).await, StatusCode::OK);
    assert_eq!(place.counts().await, (1, 1));
}

#[tokio::test]
async fn what_is_not_the_providers_or_no_event_changes_nothing() {
    let place = Place::new().await;
    let sent = now().to_string();
    let forged = signature::sign(b"guessed", &sent, EVENT.as_bytes());
    assert_eq!(place.send(EVENT, &sent, &forged).await, StatusCode::UNAUTHORIZED);
    let old = (now() - 3_600).to_string();
    let recorded = signature::sign(SECRET, &old, EVENT.as_bytes());
    assert_eq!(place.send(EVENT, &old, &recorded).await, StatusCode::UNAUTHORIZED);
    assert_eq!(place.deliver("{").await, StatusCode::BAD_REQUEST);
    assert_eq!(place.deliver(&EVENT.replace("evt_1", "")).await, StatusCode::BAD_REQUEST);
    assert_eq!(place.deliver(&EVENT.replace("succeeded", "created")).await, StatusCode::OK);
    let large = EVENT.replace("\"7\"", &format!("\"{}\"", "7".repeat(MAX_EVENT_BYTES)));
    assert_eq!(place.deliver(&large).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(place.counts().await, (0, 0));
}
