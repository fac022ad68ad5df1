//! Opening: durability, files that are not ours, and schemas.

mod support;

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::{Admin, Filter};
use idem_core::claim::Claimed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::record::Observed;
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_core::transactional::TransactionalStore;
use idem_sqlite::sqlx::{self, Executor, SqlitePool};
use idem_sqlite::{SCHEMA_VERSION, SqliteStore};

use crate::support::{LEASE, Place, Request, point, sealed};

fn refused(result: Result<SqliteStore, StoreError>) -> (ErrorKind, String) {
    let error = result.expect_err("it cannot be opened");
    (error.kind(), error.detail().to_owned())
}

#[tokio::test]
async fn what_was_stored_is_there_after_opening_again() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let (held, done) = (Request::new("held"), Request::new("done"));
    let store = place.open_at(&clock).await;
    let fence = held.acquire(&store).await.fence;
    store.checkpoint(&fence, &point(1), LEASE).await.unwrap();
    let completed = done.acquire(&store).await.fence;
    store.complete(&completed, &sealed("reply")).await.unwrap();
    let before = everything(&store).await;
    store.close().await;

    let error = store.claim(&held.claim()).await.expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    let store = place.open_at(&clock).await;
    assert_eq!(everything(&store).await, before);
    store.complete(&fence, &sealed("later")).await.expect("the fence still holds");
    assert!(matches!(done.again().send(&store).await, Claimed::Completed(_)));
}

async fn everything(store: &SqliteStore) -> Vec<Observed> {
    store.list(&Filter::all(), None, 1_000).await.unwrap().records
}

#[tokio::test]
async fn the_connections_have_the_settings_that_durability_needs() {
    let place = Place::new();
    let store = place.open().await;
    let mut transaction = store.begin().await.unwrap();
    let connection = transaction.connection();
    let synchronous: i64 =
        sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *connection).await.unwrap();
    let journal: String =
        sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *connection).await.unwrap();
    assert_eq!((synchronous, journal.as_str()), (2, "wal"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_that_open_a_new_file_at_once_make_one_schema() {
    for _ in 0..5 {
        let place = Place::new();
        let start = Arc::new(tokio::sync::Barrier::new(8));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (path, start) = (place.path.clone(), Arc::clone(&start));
                tokio::spawn(async move {
                    start.wait().await;
                    let patience = Duration::from_secs(60);
                    SqliteStore::builder().busy_timeout(patience).open(path).await
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().expect("each of them opens");
        }
        let applied: Vec<i64> = sqlx::query_scalar("SELECT version FROM idem_schema")
            .fetch_all(&mut place.sql().await)
            .await
            .unwrap();
        assert_eq!(applied, (1..=SCHEMA_VERSION).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused_and_left_alone() {
    let place = Place::new();
    let text = "This is a letter to my aunt, and not a database. ".repeat(50);
    std::fs::write(&place.path, &text).unwrap();
    let (kind, detail) = refused(SqliteStore::open(&place.path).await);
    assert_eq!(
        (kind, detail.as_str()),
        (ErrorKind::WrongSchema, "the file is not an SQLite database")
    );
    assert_eq!(std::fs::read_to_string(&place.path).unwrap(), text);
}

#[tokio::test]
async fn a_file_that_cannot_be_made_is_refused() {
    let place = Place::new();
    let missing = place.path.join("no such directory").join("store.db");
    let (kind, detail) = refused(SqliteStore::open(&missing).await);
    assert_eq!(kind, ErrorKind::WrongSchema);
    assert_eq!(detail, "the database file cannot be opened or created");
    let here = place.path.parent().unwrap();
    assert_eq!(refused(SqliteStore::open(here).await).0, ErrorKind::WrongSchema, "a directory");
}

#[tokio::test]
async fn a_read_only_database_is_refused() {
    let place = Place::new();
    place.open().await.close().await;
    let url = format!("sqlite:{}?mode=ro", place.path.display());
    let expected = "the database file, or its directory, cannot be written";
    for migrates in [true, false] {
        let opened = SqliteStore::builder().migrates(migrates).connect(&url).await;
        assert_eq!(refused(opened), (ErrorKind::WrongSchema, expected.to_owned()));
    }
}

#[tokio::test]
async fn other_schemas_are_refused_and_left_alone() {
    let place = Place::new();
    place.open().await.close().await;
    let versions = |place: &Place| {
        let path = place.path.clone();
        async move {
            let pool = SqlitePool::connect(&format!("sqlite:{}", path.display())).await.unwrap();
            let versions: Vec<i64> = sqlx::query_scalar("SELECT version FROM idem_schema")
                .fetch_all(&pool)
                .await
                .unwrap();
            versions
        }
    };
    place.sql().await.execute("INSERT INTO idem_schema VALUES (99, 0)").await.unwrap();
    for migrates in [true, false] {
        let opened = SqliteStore::builder().migrates(migrates).open(&place.path).await;
        let (kind, detail) = refused(opened);
        assert_eq!(kind, ErrorKind::WrongSchema);
        assert!(detail.contains("version 99") && detail.contains("newer build"), "{detail}");
    }
    assert_eq!(versions(&place).await, (1..=SCHEMA_VERSION).chain([99]).collect::<Vec<_>>());

    place.sql().await.execute("DELETE FROM idem_schema").await.unwrap();
    let (kind, detail) = refused(SqliteStore::builder().migrates(false).open(&place.path).await);
    assert_eq!(kind, ErrorKind::WrongSchema);
    assert!(detail.contains("version 0") && detail.contains("migrate"), "{detail}");
    let (kind, _) = refused(SqliteStore::open(&place.path).await);
    assert_eq!(kind, ErrorKind::WrongSchema, "its tables are there, but nobody says which");
    assert_eq!(versions(&place).await, [0_i64; 0]);
}

#[tokio::test]
async fn without_migrating_nothing_is_made() {
    let place = Place::new();
    let only_check = || SqliteStore::builder().migrates(false);
    assert_eq!(refused(only_check().open(&place.path).await).0, ErrorKind::WrongSchema);
    assert!(!place.path.exists(), "no file was made");

    place.sql().await.execute("CREATE TABLE theirs (x)").await.unwrap();
    let (kind, detail) = refused(only_check().open(&place.path).await);
    assert_eq!(kind, ErrorKind::WrongSchema);
    assert!(detail.contains("journal mode is delete"), "{detail}");
    place.sql().await.execute("PRAGMA journal_mode = WAL").await.unwrap();
    let (kind, detail) = refused(only_check().open(&place.path).await);
    assert_eq!(kind, ErrorKind::WrongSchema);
    assert!(detail.contains("tables are missing"), "{detail}");
    let tables: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_schema")
        .fetch_all(&mut place.sql().await)
        .await
        .unwrap();
    assert_eq!(tables, ["theirs"]);
    place.open().await.close().await;
    only_check().open(&place.path).await.expect("now it is ready");
}

#[tokio::test]
async fn tables_that_are_not_as_they_were_made_are_refused() {
    for (change, when) in [
        ("DROP TABLE idem_records", "a table is missing"),
        ("ALTER TABLE idem_records RENAME COLUMN reply TO answer", "a column is missing"),
        ("DROP TABLE idem_outbox", "the outbox is missing"),
    ] {
        let place = Place::new();
        let store = place.open().await;
        place.sql().await.execute(change).await.unwrap();
        assert_eq!(
            refused(SqliteStore::open(&place.path).await).0,
            ErrorKind::WrongSchema,
            "{when}"
        );
        if !change.contains("outbox") {
            let request = Request::new("k");
            let error = store.claim(&request.claim()).await.expect_err(when);
            assert_eq!(error.kind(), ErrorKind::WrongSchema, "{when}");
        }
    }
}

#[tokio::test]
async fn a_trigger_that_swallows_a_write_is_noticed() {
    let place = Place::new();
    let store = place.open().await;
    let swallow = "CREATE TRIGGER swallow BEFORE INSERT ON idem_records
         BEGIN SELECT RAISE(IGNORE); END";
    place.sql().await.execute(swallow).await.unwrap();
    let request = Request::new("k");
    let error = store.claim(&request.claim()).await.expect_err("nothing was written");
    assert_eq!(error.kind(), ErrorKind::WrongSchema);
    assert_eq!(store.get(&request.scope, &request.key).await.unwrap(), None);
}
