//! An order that is created once, however often its request arrives: the row, the outbox message
//! and the reply commit together, or none of them does.
//!
//! ```sh
//! cargo run -p example-sqlite-orders -- orders.db 127.0.0.1:3000
//! curl -i http://127.0.0.1:3000/v1/orders -H 'authorization: Bearer me' \
//!      -H 'idempotency-key: order-1' -H 'content-type: application/json' -d '{"sku":"tea"}'
//! ```

use std::error::Error;

use axum::extract::State;
use axum::http::{StatusCode, header::AUTHORIZATION};
use axum::routing::post;
use axum::{Json, Router};
use idem_core::engine::Engine;
use idem_core::operation::Operation;
use idem_core::outbox::OutboxMessage;
use idem_http::handler::{Checked, Done, Exec, Fault};
use idem_http::{IdempotencyLayer, scope};
use idem_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    sku: String,
}

/// The handler: its first and its last two lines are what idem asks of it.
async fn create_order(
    exec: Exec,
    State(store): State<SqliteStore>,
    Checked(Json(order)): Checked<Json<Order>>,
) -> Result<Done, Fault> {
    let mut transaction = exec.transaction(&store).await?;
    sqlx::query("INSERT INTO orders (sku) VALUES (?)")
        .bind(&order.sku)
        .execute(transaction.connection())
        .await?;
    transaction.push(&OutboxMessage::json("order.created", &order)?).await?;
    let reply = exec.reply((StatusCode::CREATED, Json(order))).await?;
    Ok(transaction.commit(reply).await?.into())
}

/// The set-up: a store, an engine, an operation, a layer.
fn app(store: SqliteStore) -> Result<Router, Box<dyn Error>> {
    let engine = Engine::builder(store.clone()).namespace("shop")?.build()?;
    let orders = Operation::builder("orders.create").build()?;
    let once =
        IdempotencyLayer::new(engine).scope(scope::hashed_header(AUTHORIZATION)).operation(&orders);
    Ok(Router::new().route("/v1/orders", post(create_order)).layer(once).with_state(store))
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
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3000".into());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app(open(&path).await?)?).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    async fn send(app: &Router, body: &'static str) -> (StatusCode, bool, Vec<u8>) {
        let request = Request::post("/v1/orders")
            .header("authorization", "Bearer me")
            .header("idempotency-key", "order-1")
            .header("content-type", "application/json")
            .body(Body::from(body))
            .unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let replayed = response.headers().contains_key("idempotent-replayed");
        let status = response.status();
        (status, replayed, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    async fn count(path: &str, table: &'static str) -> i64 {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
        let query = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar(query).fetch_one(&pool).await.unwrap()
    }

    #[tokio::test]
    async fn duplicates_make_one_order_and_one_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("orders.db");
        let path = path.to_str().unwrap();
        let app = app(open(path).await.unwrap()).unwrap();
        // A mistake is not stored: the corrected request works under the same key.
        assert_eq!(send(&app, r#"{"sku":7}"#).await.0, StatusCode::UNPROCESSABLE_ENTITY);
        let first = send(&app, r#"{"sku":"tea"}"#).await;
        assert_eq!((first.0, first.1), (StatusCode::CREATED, false));
        for _ in 0..10 {
            let again = send(&app, r#"{ "sku": "tea" }"#).await;
            assert_eq!((again.0, again.1, &again.2), (first.0, true, &first.2));
        }
        assert_eq!(send(&app, r#"{"sku":"coffee"}"#).await.0, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!((count(path, "orders").await, count(path, "idem_outbox").await), (1, 1));
    }
}
