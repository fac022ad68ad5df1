//! Settings, URLs and the user's own pool.

mod support;

use std::sync::Arc;
use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError};
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use idem_sqlite::SqliteStore;
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use idem_sqlite::sqlx::{self, Executor};

use crate::support::{Place, Request, sealed};

fn refused(result: Result<SqliteStore, StoreError>) -> (ErrorKind, String) {
    let error = result.expect_err("it cannot be opened");
    (error.kind(), error.detail().to_owned())
}

/// The file becomes read-only while the store is open, as after a remount: the verb says so.
#[tokio::test]
async fn a_connection_that_may_not_write_says_so() {
    let place = Place::new();
    place.open().await.close().await;
    let options = SqliteConnectOptions::new().filename(&place.path);
    // The hook runs after the checks of opening when the connection is opened a second time.
    let opened = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = Arc::clone(&opened);
    let pool = SqlitePoolOptions::new()
        .max_lifetime(Duration::from_millis(1))
        .after_connect(move |connection, _| {
            let number = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Box::pin(async move {
                if number > 0 {
                    connection.execute("PRAGMA query_only = ON").await?;
                }
                Ok(())
            })
        })
        .connect_lazy_with(options);
    let store = SqliteStore::new(pool).await.unwrap();
    let request = Request::new("k");
    let error = loop {
        tokio::time::sleep(Duration::from_millis(2)).await;
        match store.claim(&request.claim()).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WrongSchema);
    assert!(error.detail().contains("cannot be written"), "{error}");
}

#[tokio::test]
async fn settings_out_of_bounds_are_refused_before_a_file_is_made() {
    let place = Place::new();
    let builders = [
        SqliteStore::builder().table_prefix("no spaces please"),
        SqliteStore::builder().busy_timeout(Duration::ZERO),
        SqliteStore::builder().busy_timeout(Duration::from_secs(61)),
        SqliteStore::builder().busy_timeout(Duration::MAX),
        SqliteStore::builder().readers(0),
        SqliteStore::builder().readers(65),
    ];
    for builder in builders {
        let error = builder.clone().open(&place.path).await.expect_err("out of bounds");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{builder:?}");
    }
    for url in ["", "store.db", "postgres://host/db", "sqlite:a?mode=wat", "sqlite:a?x=secret"] {
        let error = SqliteStore::connect(url).await.expect_err("not a URL of ours");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
        let told = format!("{error} {error:?}");
        assert!(!told.contains("secret") && !told.contains("wat"), "{told}");
    }
    assert!(!place.path.exists());
}

#[tokio::test]
async fn a_database_in_memory_is_refused() {
    for url in ["sqlite::memory:", "sqlite:x?mode=memory"] {
        let (kind, detail) = refused(SqliteStore::connect(url).await);
        assert_eq!(kind, ErrorKind::WrongSchema, "{url}");
        assert!(detail.contains("journal mode is memory"), "{detail}");
    }
    assert_eq!(refused(SqliteStore::open(":memory:").await).0, ErrorKind::WrongSchema);
}

#[tokio::test]
async fn a_url_names_a_file() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path.display());
    let store = SqliteStore::connect(&url).await.unwrap();
    Request::new("k").acquire(&store).await;
    assert!(place.path.exists());
    let missing = format!("sqlite:{}-2?mode=rw", place.path.display());
    assert_eq!(refused(SqliteStore::connect(&missing).await).0, ErrorKind::WrongSchema);
}

/// The user's pool may be small and all in use: the store has connections of its own, as durable
/// as ever, and with the user's hooks.
#[tokio::test]
async fn a_users_pool_is_a_pattern_and_never_starved() {
    let place = Place::new();
    let options = SqliteConnectOptions::new().filename(&place.path).create_if_missing(true);
    let options = options.synchronous(SqliteSynchronous::Off);
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute("CREATE TEMP TABLE mine (x INTEGER)").await.map(|_| ())
            })
        })
        .connect_with(options)
        .await
        .unwrap();
    let _all_of_it = pool.acquire().await.unwrap();
    let store = SqliteStore::new(pool.clone()).await.unwrap();
    let fence = Request::new("k").acquire(&store).await.fence;
    let mut transaction = store.begin().await.unwrap();
    let connection = transaction.connection();
    connection.execute("INSERT INTO mine VALUES (1)").await.expect("the hook ran here too");
    let synchronous: i64 =
        sqlx::query_scalar("PRAGMA synchronous").fetch_one(connection).await.unwrap();
    assert_eq!(synchronous, 2);
    drop(transaction);
    store.complete(&fence, &sealed("reply")).await.unwrap();
}

#[tokio::test]
async fn a_hook_that_gives_up_durability_is_refused() {
    let place = Place::new();
    let options = SqliteConnectOptions::new().filename(&place.path).create_if_missing(true);
    let pool = SqlitePoolOptions::new()
        .after_connect(|connection, _| {
            Box::pin(
                async move { connection.execute("PRAGMA synchronous = NORMAL").await.map(|_| ()) },
            )
        })
        .connect_lazy_with(options);
    let (kind, detail) = refused(SqliteStore::new(pool).await);
    assert_eq!(kind, ErrorKind::WrongSchema);
    assert!(detail.contains("synchronous"), "{detail}");
}

#[tokio::test]
async fn two_prefixes_in_one_file_are_two_stores() {
    let place = Place::new();
    let one = place.open_with(SqliteStore::builder().table_prefix("one")).await;
    let two = place.open_with(SqliteStore::builder().table_prefix("two")).await;
    let request = Request::new("k");
    request.acquire(&one).await;
    assert_eq!(two.get(&request.scope, &request.key).await.unwrap(), None);
    request.acquire(&two).await;
}

#[tokio::test]
async fn nothing_secret_is_shown() {
    let place = Place::new();
    let store = place.open().await;
    let request = Request::opaque("scope-secret", b"key-secret");
    let fence = request.acquire(&store).await.fence;
    place.sql().await.execute("DROP TABLE idem_records").await.unwrap();
    let errors = [
        store.claim(&request.claim()).await.expect_err("no table"),
        store.complete(&fence, &sealed("reply-secret")).await.expect_err("no table"),
    ];
    for error in errors {
        let told = format!("{error} {error:?}");
        assert!(!told.contains("secret"), "{told}");
    }
    let shown = format!("{store:?} {:?}", SqliteStore::builder());
    assert!(!shown.contains(place.path.to_str().unwrap()), "{shown}");
}
