//! The tables: made at once by many, checked, and of another version.

mod support;

use idem_core::error::ErrorKind;
use idem_core::preflight::{Preflight, Severity};
use idem_core::store::Store;
use idem_mysql::MysqlStore;
use support::{Place, Request, kind_of, number, run};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_that_migrate_at_once_make_the_tables_once() {
    let place = Place::new().await;
    let mut openings = JoinSet::new();
    for _ in 0..8 {
        let url = place.url();
        openings.spawn(async move { MysqlStore::connect(&url).await });
    }
    while let Some(opened) = openings.join_next().await {
        opened.unwrap().unwrap();
    }
    let mut plain = place.plain().await;
    assert_eq!(number(&mut plain, "SELECT COUNT(*) FROM idem_schema").await, 1);
}

#[tokio::test]
async fn tables_that_are_missing_or_of_another_version_are_told() {
    let place = Place::new().await;
    let checking = || MysqlStore::builder().migrates(false);
    assert_eq!(kind_of(checking().connect(&place.url()).await), ErrorKind::WrongSchema);
    let store = place.open().await;
    checking().connect(&place.url()).await.unwrap();
    let mut plain = place.plain().await;
    run(&mut plain, "INSERT INTO idem_schema VALUES (2, 0)").await;
    assert_eq!(kind_of(MysqlStore::connect(&place.url()).await), ErrorKind::WrongSchema);
    assert_eq!(kind_of(checking().connect(&place.url()).await), ErrorKind::WrongSchema);
    let findings = checking().preflight(&place.url()).await.unwrap();
    assert!(findings.iter().any(|f| f.check == "schema" && f.severity == Severity::Problem));
    run(&mut plain, "DROP TABLE idem_records").await;
    assert_eq!(kind_of(store.claim(&Request::new("k").claim()).await), ErrorKind::WrongSchema);
}

#[tokio::test]
async fn two_prefixes_are_two_stores() {
    let place = Place::new().await;
    let first = place.open().await;
    let second = MysqlStore::builder().table_prefix("other").connect(&place.url()).await.unwrap();
    let request = Request::new("k");
    request.acquire(&first).await;
    request.again().acquire(&second).await;
}

#[tokio::test]
async fn a_server_as_it_should_be_has_no_problem() {
    let place = Place::new().await;
    let findings = place.open().await.preflight().await.unwrap();
    assert_eq!(findings.len(), 13);
    for finding in &findings {
        assert!(finding.severity < Severity::Problem, "{finding:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_reached_is_not_applied_and_shows_no_password() {
    let url = "mysql://idem:hunter2@127.0.0.1:1/x";
    let error = MysqlStore::connect(url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    let place = Place::new().await;
    let wrong = place.url().replace("idem:idem@", "idem:hunter2@");
    let error = MysqlStore::connect(&wrong).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongSchema);
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}
