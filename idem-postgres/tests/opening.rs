//! A store that cannot be opened says why.

mod support;

use std::error::Error;
use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError};
use idem_postgres::sqlx::postgres::PgPoolOptions;
use idem_postgres::{PostgresStore, PostgresStoreBuilder};

use support::{Place, Server};

/// Where nobody listens.
fn closed() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("postgres://u:hunter2@{}/x", listener.local_addr().unwrap())
}

fn impatient() -> PostgresStoreBuilder {
    PostgresStore::builder().acquire_limit(Duration::from_millis(200))
}

/// The error and what lies behind it, as `idem` prints them.
fn told(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    assert!(!format!("{text} {error:?}").contains("hunter2"), "{error:?}");
    text
}

#[tokio::test]
async fn a_refused_connection_is_named() {
    let url = closed();
    let errors = [
        impatient().connect(&url).await.unwrap_err(),
        impatient().migrates(false).connect(&url).await.unwrap_err(),
        impatient().preflight(&url).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::NotApplied);
        let text = told(&error);
        assert!(text.contains(": the server could not be reached (not-applied): "), "{text}");
        assert!(text.contains("Connection refused"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_called_busy() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://u:hunter2@{}/x", silent.local_addr().unwrap());
    let error = impatient().connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    let text = told(&error);
    assert!(text.contains("the server gave no connection in time"), "{text}");
}

#[tokio::test]
async fn a_pool_without_a_free_connection_is_named() {
    let place = Place::new(Server::Postgres).await;
    let options = PgPoolOptions::new().max_connections(1);
    let options = options.acquire_timeout(Duration::from_millis(200));
    let pool = options.connect(&place.url()).await.unwrap();
    let held = pool.acquire().await.unwrap();
    let error = PostgresStore::builder().on_pool(pool.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    let text = told(&error);
    assert!(text.contains("all connections of the pool are in use"), "{text}");
    drop(held);
    PostgresStore::builder().on_pool(pool).await.unwrap();
}

#[tokio::test]
async fn a_missing_database_is_not_called_a_wrong_schema_only() {
    let place = Place::new(Server::Postgres).await;
    let url = place.url().replace(&place.database, "idem_no_such_database");
    let text = told(&impatient().connect(&url).await.unwrap_err());
    assert!(text.contains("the database does not exist (wrong schema or setting)"), "{text}");
}
