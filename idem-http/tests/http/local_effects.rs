//! Handlers whose rows commit with their reply (R19), on a real store.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::handler::Handler;
use axum::routing::post as on_post;
use axum::{Json, Router};
use http::{Request, StatusCode};
use idem_core::engine::Engine;
use idem_core::operation::{LocalForm, Operation};
use idem_http::handler::{Checked, Done, Exec, Fault};
use idem_sqlite::{SqliteStore, sqlx};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::support::world::{Effects, layer_on};
use crate::support::{Answer, post, send};

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    sku: String,
}

/// The handler of the crate's documentation.
async fn create_order(
    exec: Exec,
    State(store): State<SqliteStore>,
    Checked(Json(order)): Checked<Json<Order>>,
) -> Result<Done, Fault> {
    let mut transaction = exec.transaction(&store).await?;
    let insert = sqlx::query("INSERT INTO orders (sku) VALUES (?)").bind(&order.sku);
    insert.execute(transaction.connection()).await?;
    let reply = exec.reply((StatusCode::CREATED, Json(order))).await?;
    Ok(transaction.commit(reply).await?.into())
}

struct Shop {
    store: SqliteStore,
    pool: sqlx::SqlitePool,
    engine: Engine,
    operation: Operation,
    _directory: TempDir,
}

const FORMS: [LocalForm; 2] = [LocalForm::ClaimFirst, LocalForm::OneCommit];

impl Shop {
    async fn open(form: LocalForm) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shop.db");
        let store = SqliteStore::open(&path).await.unwrap();
        let pool = sqlx::SqlitePool::connect(&format!("sqlite:{}", path.display())).await.unwrap();
        let table = "CREATE TABLE orders (sku TEXT NOT NULL) STRICT";
        sqlx::query(table).execute(&pool).await.unwrap();
        let engine = Engine::builder(store.clone())
            .one_commit_on(store.clone())
            .namespace("shop")
            .unwrap()
            .build()
            .unwrap();
        let operation = Operation::builder("orders.create")
            .local_form(form)
            .transaction_limit(Duration::from_secs(5))
            .build()
            .unwrap();
        Self { store, pool, engine, operation, _directory: directory }
    }

    fn app<H, T>(&self, handler: H) -> Router
    where
        H: Handler<T, SqliteStore>,
        T: 'static,
    {
        let layer = layer_on(&self.engine, &self.operation);
        let router = Router::new().route("/orders", on_post(handler.layer(layer)));
        router.with_state(self.store.clone())
    }

    async fn rows(&self) -> i64 {
        sqlx::query_scalar("SELECT COUNT(*) FROM orders").fetch_one(&self.pool).await.unwrap()
    }
}

fn order(key: &str, body: &'static str) -> Request<Body> {
    post("/orders", key).header("content-type", "application/json").body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn rows_and_reply_commit_together_and_the_retry_replays() {
    for form in FORMS {
        let shop = Shop::open(form).await;
        let app = shop.app(create_order);
        let first = send(&app, order("k", r#"{"sku": "book"}"#)).await;
        assert_eq!((first.status.as_u16(), &first.body[..]), (201, &br#"{"sku":"book"}"#[..]));
        assert_eq!(first.header("content-type"), Some("application/json"));
        let again = send(&app, order("k", r#"{ "sku":"book" }"#)).await;
        assert!(again.is_replay());
        assert_eq!(again.without_marks(), first.without_marks());
        assert_eq!(shop.rows().await, 1);
    }
}

#[tokio::test]
async fn fifty_copies_at_once_write_one_row() {
    for form in FORMS {
        let shop = Shop::open(form).await;
        let app = shop.app(create_order);
        let copies: Vec<_> = (0..50)
            .map(|_| {
                let app = app.clone();
                tokio::spawn(async move { send(&app, order("k", r#"{"sku":"book"}"#)).await })
            })
            .collect();
        for copy in copies {
            let answer = copy.await.unwrap();
            match answer.status.as_u16() {
                201 => assert_eq!(&answer.body[..], br#"{"sku":"book"}"#),
                _ => assert_eq!(answer.problem(), (409, "key-in-use".into())),
            }
        }
        assert!(send(&app, order("k", r#"{"sku":"book"}"#)).await.is_replay());
        assert_eq!(shop.rows().await, 1);
    }
}

#[tokio::test]
async fn a_rejected_order_writes_nothing_and_frees_the_key() {
    for form in FORMS {
        let shop = Shop::open(form).await;
        let app = shop.app(create_order);
        assert_eq!(send(&app, order("k", r#"{"sku": 7}"#)).await.status, 422);
        assert_eq!(shop.rows().await, 0);
        assert_eq!(send(&app, order("k", r#"{"sku":"book"}"#)).await.status, 201, "{form:?}");
        assert_eq!(shop.rows().await, 1);
    }
}

/// Returns more than is kept, without a commit.
async fn says_too_much(_: Exec) -> String {
    "x".repeat(2_000_000)
}

#[tokio::test]
async fn an_answer_that_is_too_large_to_keep_is_never_replayed_as_another() {
    for form in FORMS {
        let shop = Shop::open(form).await;
        let app = shop.app(says_too_much);
        assert_eq!(send(&app, order("k", "{}")).await.body.len(), 2_000_000);
        let again = send(&app, order("k", "{}")).await;
        assert_eq!(again.problem(), (410, "reply-not-kept".into()), "{form:?}");
        assert_eq!(again.json()["original_status"], 200);
    }
}

/// Inserts, and fails before the commit where it is told to.
async fn inserts(exec: Exec, store: SqliteStore, fails: bool) -> Result<Done, Fault> {
    let mut transaction = exec.transaction(&store).await?;
    let connection = transaction.connection();
    sqlx::query("INSERT INTO orders VALUES ('a')").execute(&mut *connection).await?;
    if fails {
        sqlx::query("INSERT INTO no_such_table VALUES (1)").execute(connection).await?;
    }
    let reply = exec.reply("done").await?;
    Ok(transaction.commit(reply).await?.into())
}

#[tokio::test]
async fn an_error_before_the_commit_changes_nothing_and_a_retry_may_come_at_once() {
    for form in FORMS {
        let shop = Shop::open(form).await;
        let runs = Effects::default();
        let app = shop.app(move |exec: Exec, State(store): State<SqliteStore>| {
            inserts(exec, store, runs.happen() == 1)
        });
        let first = send(&app, order("k", "{}")).await;
        assert_eq!((first.problem(), first.retry_after()), ((503, "rolled-back".into()), Some(1)));
        assert_eq!(shop.rows().await, 0);
        // The lease was given up, or nothing was claimed.
        assert_eq!(send(&app, order("k", "{}")).await.body, "done", "{form:?}");
        assert_eq!(shop.rows().await, 1);
    }
}

/// Returns an answer and never commits.
async fn forgets_to_commit(exec: Exec, State(store): State<SqliteStore>) -> Result<String, Fault> {
    let mut transaction = exec.transaction(&store).await?;
    sqlx::query("INSERT INTO orders VALUES ('a')").execute(transaction.connection()).await?;
    drop(transaction);
    Ok("out of stock".into())
}

/// Commits one answer and returns another.
async fn says_something_else(
    exec: Exec,
    State(store): State<SqliteStore>,
) -> Result<String, Fault> {
    let mut transaction = exec.transaction(&store).await?;
    sqlx::query("INSERT INTO orders VALUES ('a')").execute(transaction.connection()).await?;
    let reply = exec.reply((StatusCode::CREATED, "committed")).await?;
    transaction.commit(reply).await?;
    Ok("something else".into())
}

async fn first_and_replay<H, T>(form: LocalForm, handler: H) -> (Answer, Answer, i64)
where
    H: Handler<T, SqliteStore>,
    T: 'static,
{
    let shop = Shop::open(form).await;
    let app = shop.app(handler);
    let first = send(&app, order("k", "{}")).await;
    let again = send(&app, order("k", "{}")).await;
    assert!(!first.is_replay() && again.is_replay());
    (first.without_marks(), again.without_marks(), shop.rows().await)
}

#[tokio::test]
async fn an_answer_without_a_commit_is_stored_alone_and_its_rows_go() {
    for form in FORMS {
        let (first, again, rows) = first_and_replay(form, forgets_to_commit).await;
        assert_eq!((&first.body[..], rows), (&b"out of stock"[..], 0));
        assert_eq!(first, again);
    }
}

#[tokio::test]
async fn the_committed_answer_is_the_one_that_stands() {
    for form in FORMS {
        let (first, again, rows) = first_and_replay(form, says_something_else).await;
        assert_eq!((first.status.as_u16(), &first.body[..], rows), (201, &b"committed"[..], 1));
        assert_eq!(first, again);
    }
}

/// Commits, and then panics.
async fn panics_after_the_commit(exec: Exec, State(store): State<SqliteStore>) -> StatusCode {
    let mut transaction = exec.transaction(&store).await.unwrap();
    let insert = sqlx::query("INSERT INTO orders VALUES ('a')");
    insert.execute(transaction.connection()).await.unwrap();
    transaction.commit("committed").await.unwrap();
    panic!("the handler panics on purpose")
}

#[tokio::test]
async fn a_panic_after_the_commit_does_not_take_the_answer_back() {
    let (first, again, rows) =
        first_and_replay(LocalForm::ClaimFirst, panics_after_the_commit).await;
    assert_eq!((first.status.as_u16(), &first.body[..], rows), (200, &b"committed"[..], 1));
    assert_eq!(first, again);
}
