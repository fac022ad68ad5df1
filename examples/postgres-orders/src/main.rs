//! An order that is created once, however often its request arrives: the claim, the row, the
//! outbox message and the reply are one commit in the service's own database.
//!
//! ```sh
//! cargo run -p example-postgres-orders -- postgres://me@127.0.0.1/shop 127.0.0.1:3000
//! curl -i http://127.0.0.1:3000/v1/orders -H 'authorization: Bearer me' \
//!      -H 'idempotency-key: order-1' -H 'content-type: application/json' -d '{"sku":"tea"}'
//! ```

use std::error::Error;

use axum::extract::State;
use axum::handler::Handler as _;
use axum::http::{StatusCode, header::AUTHORIZATION};
use axum::routing::post;
use axum::{Json, Router};
use idem_core::engine::Engine;
use idem_core::operation::{LocalForm, Operation};
use idem_core::outbox::OutboxMessage;
use idem_http::handler::{Checked, Done, Exec, Fault};
use idem_http::{IdempotencyLayer, scope};
use idem_postgres::{PostgresStore, guarded};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

#[derive(Serialize, Deserialize)]
struct Order {
    sku: String,
}

/// The handler: its first and its last two lines are what idem asks of it. It is the same where
/// the claim is committed first.
async fn create_order(
    exec: Exec,
    State(store): State<PostgresStore>,
    Checked(Json(order)): Checked<Json<Order>>,
) -> Result<Done, Fault> {
    let mut transaction = exec.transaction(&store).await?;
    sqlx::query("INSERT INTO orders (sku) VALUES ($1)")
        .bind(&order.sku)
        .execute(transaction.connection())
        .await?;
    transaction.push(&OutboxMessage::json("order.created", &order)?).await?;
    let reply = exec.reply((StatusCode::CREATED, Json(order))).await?;
    Ok(transaction.commit(reply).await?.into())
}

/// The set-up: a store on the service's own pool, an engine, an operation, a layer.
async fn app(pool: PgPool) -> Result<Router, Box<dyn Error>> {
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, sku text NOT NULL)")
        .execute(&pool)
        .await?;
    let store = PostgresStore::new(pool).await?;
    let engine = Engine::builder(store.clone()).one_commit_on(store.clone());
    let orders = Operation::builder("orders.create").local_form(LocalForm::OneCommit).build()?;
    let once = IdempotencyLayer::new(engine.namespace("shop")?.build()?)
        .scope(scope::hashed_header(AUTHORIZATION))
        .operation(&orders);
    Ok(Router::new().route("/v1/orders", post(create_order.layer(once))).with_state(store))
}

async fn connect(url: &str) -> Result<PgPool, sqlx::Error> {
    guarded(PgPoolOptions::new()).max_connections(20).connect(url).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("the first argument is the URL of the database")?;
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3000".into());
    let app = app(connect(&url).await?).await?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    async fn send(app: &Router, key: &str, body: &'static str) -> (StatusCode, bool, Vec<u8>) {
        let request = Request::post("/v1/orders")
            .header("authorization", "Bearer me")
            .header("idempotency-key", key)
            .header("content-type", "application/json")
            .body(Body::from(body))
            .unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let replayed = response.headers().contains_key("idempotent-replayed");
        let status = response.status();
        (status, replayed, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    /// A database of the test's own, and what its name is.
    async fn database() -> (PgPool, String, String) {
        let server = std::env::var("IDEM_POSTGRES_URL")
            .expect("set IDEM_POSTGRES_URL; `scripts/test examples` starts a server");
        let name = format!("idem_example_{}", std::process::id());
        let admin = PgPool::connect(&server).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&admin).await.unwrap();
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        (admin, url, name)
    }

    async fn count(pool: &PgPool, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement).fetch_one(pool).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn duplicates_make_one_order_and_one_message() {
        let (admin, url, name) = database().await;
        let pool = connect(&url).await.unwrap();
        let app = app(pool.clone()).await.unwrap();
        // A mistake is not stored: the corrected request works under the same key.
        assert_eq!(send(&app, "a", r#"{"sku":7}"#).await.0, StatusCode::UNPROCESSABLE_ENTITY);
        let first = send(&app, "a", r#"{"sku":"tea"}"#).await;
        assert_eq!((first.0, first.1), (StatusCode::CREATED, false));
        for _ in 0..10 {
            let again = send(&app, "a", r#"{ "sku": "tea" }"#).await;
            assert_eq!((again.0, again.1, &again.2), (first.0, true, &first.2));
        }
        assert_eq!(
            send(&app, "a", r#"{"sku":"coffee"}"#).await.0,
            StatusCode::UNPROCESSABLE_ENTITY
        );
        // Many at once: one is done, and each of the others is told so or to come back.
        let many: Vec<_> = (0..12)
            .map(|_| {
                let app = app.clone();
                tokio::spawn(async move { send(&app, "b", r#"{"sku":"milk"}"#).await })
            })
            .collect();
        for one in many {
            let status = one.await.unwrap().0;
            assert!(matches!(status, StatusCode::CREATED | StatusCode::CONFLICT), "{status}");
        }
        assert_eq!(count(&pool, "SELECT count(*) FROM orders").await, 2);
        assert_eq!(count(&pool, "SELECT count(*) FROM idem_outbox").await, 2);
        pool.close().await;
        let drop = sqlx::AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
        sqlx::raw_sql(drop).execute(&admin).await.unwrap();
    }
}
