//! What an operator is told about a database.

mod support;

use idem_core::preflight::{Finding, Preflight, Severity};
use idem_sqlite::SqliteStore;
use idem_sqlite::sqlx::Executor;

use crate::support::Place;

fn found<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    findings.iter().find(|finding| finding.check == check).expect("it was looked at")
}

#[tokio::test]
async fn a_store_that_is_open_is_as_it_should_be() {
    let place = Place::new();
    let store = place.open().await;
    let findings = store.preflight().await.unwrap();
    let checks: Vec<&str> = findings.iter().map(|finding| finding.check.as_ref()).collect();
    let expected = [
        "sqlite-version",
        "journal-mode",
        "synchronous",
        "schema",
        "writable",
        "room",
        "local-disk",
    ];
    assert_eq!(checks, expected);
    for finding in &findings {
        // The test's own directory may be anywhere.
        if finding.check != "local-disk" {
            assert_eq!(finding.severity, Severity::Ok, "{finding:?}");
        }
    }
    assert_eq!(found(&findings, "schema").found, idem_sqlite::SCHEMA_VERSION.to_string());
    assert_eq!(found(&findings, "journal-mode").found, "wal");
}

#[tokio::test]
async fn little_room_is_a_warning() {
    let place = Place::new();
    let store = place.open_with(SqliteStore::builder().max_pages(500)).await;
    let findings = store.preflight().await.unwrap();
    let room = found(&findings, "room");
    assert_eq!(room.severity, Severity::Warning);
    assert!(room.found.contains("limit of 500") && room.advice.contains("Sweep"), "{room:?}");
}

#[tokio::test]
async fn a_database_that_no_store_can_be_opened_on_can_be_looked_at() {
    let place = Place::new();
    place.sql().await.execute("CREATE TABLE theirs (x)").await.unwrap();
    let url = format!("sqlite:{}", place.path.display());
    let findings = SqliteStore::builder().preflight(&url).await.unwrap();
    for (check, seen) in [("journal-mode", "delete"), ("schema", "none")] {
        let finding = found(&findings, check);
        assert_eq!((finding.severity, finding.found.as_ref()), (Severity::Problem, seen));
        assert!(!finding.advice.is_empty());
    }
    assert_eq!(found(&findings, "writable").severity, Severity::Ok);

    let read_only = SqliteStore::builder().preflight(&format!("{url}?mode=ro")).await.unwrap();
    assert_eq!(found(&read_only, "writable").severity, Severity::Problem);

    place.open().await.close().await;
    place.sql().await.execute("INSERT INTO idem_schema VALUES (99, 0)").await.unwrap();
    let findings = SqliteStore::builder().preflight(&url).await.unwrap();
    let schema = found(&findings, "schema");
    assert_eq!((schema.severity, schema.found.as_ref()), (Severity::Problem, "99"));

    let missing = SqliteStore::builder().preflight(&format!("{url}-none")).await;
    missing.expect_err("no file is made to look at");
    assert!(!place.path.with_extension("db-none").exists());
}

#[tokio::test]
async fn looking_leaves_nothing_behind() {
    let place = Place::new();
    let store = place.open().await;
    let tables = || async {
        let names = idem_sqlite::sqlx::query_scalar("SELECT name FROM sqlite_schema ORDER BY name");
        let names: Vec<String> = names.fetch_all(&mut place.sql().await).await.unwrap();
        names
    };
    let before = tables().await;
    store.preflight().await.unwrap();
    assert_eq!(tables().await, before);
}
