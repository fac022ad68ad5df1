//! A webhook that the provider delivers at least once, in any order, and that counts once: the
//! event's id is the key, and the payment's row, the outbox message and the answer are one commit.
//!
//! ```sh
//! WEBHOOK_SECRET=whsec cargo run -p example-webhook-consumer -- payments.db 127.0.0.1:3000
//! time=$(date +%s); body='{"id":"evt_1","type":"payment.succeeded","order":"7","amount":1999}'
//! tag=$(printf '%s.%s' "$time" "$body" | openssl dgst -sha256 -hmac whsec -hex | sed 's/.* //')
//! curl -i http://127.0.0.1:3000/webhooks -H "webhook-time: $time" \
//!      -H "webhook-signature: $tag" -d "$body"
//! ```
//!
//! What the answer tells the provider: 200 is "done, never again", whoever did it; 503 is "again
//! later"; 400 and 401 are "not ours". An event is acknowledged only once its effect stands.

mod signature;

use std::error::Error;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use idem_core::engine::{Call, Committed, Engine, Execution, Failure, RunError};
use idem_core::fingerprint::Fingerprints;
use idem_core::key::{Key, Scope};
use idem_core::operation::{LocalForm, Operation};
use idem_core::outbox::OutboxMessage;
use idem_sqlite::SqliteStore;
use serde::Deserialize;

/// The largest event that is read, in bytes.
const MAX_EVENT_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
struct Event {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    order: String,
    amount: i64,
}

#[derive(Clone)]
struct Consumer {
    engine: Engine,
    store: SqliteStore,
    payments: Operation,
    secret: Arc<[u8]>,
}

impl Consumer {
    fn new(store: SqliteStore, secret: &[u8]) -> Result<Self, Box<dyn Error>> {
        let engine = Engine::builder(store.clone()).one_commit_on(store.clone());
        // Two deliveries of one event may differ, in a counter of tries for one: the id decides.
        let payments = Operation::builder("webhooks.payment.succeeded")
            .without_comparison()
            .local_form(LocalForm::OneCommit)
            .build()?;
        let engine = engine.namespace("shop/webhooks")?.build()?;
        Ok(Self { engine, store, payments, secret: secret.into() })
    }

    async fn take(&self, event: Event) -> StatusCode {
        if event.kind != "payment.succeeded" {
            // A kind that nobody asked for. Refusing it would only bring it back.
            return StatusCode::OK;
        }
        // The provider's ids are unique among its own: a second provider gets another scope.
        let (Ok(scope), Ok(key)) = (Scope::new("provider"), Key::new(&event.id)) else {
            return StatusCode::BAD_REQUEST;
        };
        let call = Call::new(scope, key, Fingerprints::not_compared());
        let store = self.store.clone();
        let work = move |execution| record(execution, store, event);
        match self.engine.run(&self.payments, call, work).await {
            Ok(outcome) => StatusCode::from_u16(outcome.reply.status()).expect("a status"),
            // One that may be under way is not acknowledged: it might still fail.
            Err(RunError::InProgress { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            Err(error) => {
                eprintln!("an event could not be taken: {error}");
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }
}

/// What an event does. The first and the last two lines are what idem asks of it.
async fn record(
    execution: Execution,
    store: SqliteStore,
    event: Event,
) -> Result<Committed, Failure> {
    let mut transaction = execution.transaction(&store).await?;
    sqlx::query("INSERT INTO payments (order_id, amount) VALUES (?, ?)")
        .bind(&event.order)
        .bind(event.amount)
        .execute(transaction.connection())
        .await?;
    transaction.push(&OutboxMessage::new("order.paid", event.order)?).await?;
    transaction.commit("recorded".to_owned()).await
}

async fn webhook(State(consumer): State<Consumer>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (tag, sent) = (text("webhook-signature"), text("webhook-time"));
    // Before the claim: whoever may take keys may block those of others.
    if !signature::is_valid(&consumer.secret, tag, sent, now(), &body) {
        return StatusCode::UNAUTHORIZED;
    }
    match serde_json::from_slice(&body) {
        Ok(event) => consumer.take(event).await,
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

fn app(consumer: Consumer) -> Router {
    let limit = DefaultBodyLimit::max(MAX_EVENT_BYTES);
    Router::new().route("/webhooks", post(webhook)).layer(limit).with_state(consumer)
}

async fn open(path: &str) -> Result<SqliteStore, Box<dyn Error>> {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS payments (order_id TEXT NOT NULL, amount INTEGER)")
        .execute(&pool)
        .await?;
    pool.close().await;
    Ok(SqliteStore::open(path).await?)
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "payments.db".into());
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3000".into());
    let secret = std::env::var("WEBHOOK_SECRET").map_err(|_| "WEBHOOK_SECRET is not set")?;
    let consumer = Consumer::new(open(&path).await?, secret.as_bytes())?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app(consumer)).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
