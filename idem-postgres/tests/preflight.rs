//! What preflight finds on servers that are set wrongly, and what it says to do.

mod support;

use idem_core::error::ErrorKind;
use idem_core::preflight::{Finding, Preflight, Severity};
use idem_postgres::PostgresStore;
use support::{Place, Request, Server, kind_of, run};

fn of<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("nothing about {check} in {findings:?}"))
}

#[tokio::test]
async fn a_server_as_it_should_be_has_no_findings() {
    for server in [Server::Postgres, Server::Postgres18, Server::PgBouncer] {
        let place = Place::new(server).await;
        let store = place.open().await;
        for finding in store.preflight().await.unwrap() {
            assert_eq!(finding.severity, Severity::Ok, "{server:?}: {finding:?}");
        }
    }
}

#[tokio::test]
async fn each_wrong_setting_is_found_and_comes_with_advice() {
    let settings = [
        ("synchronous_commit = off", "synchronous-commit", Severity::Problem),
        ("default_transaction_read_only = on", "writable", Severity::Problem),
        ("default_transaction_isolation = serializable", "default-isolation", Severity::Warning),
        ("statement_timeout = 500", "statement-timeout", Severity::Warning),
    ];
    for (setting, check, severity) in settings {
        let place = Place::new(Server::Postgres).await;
        place.open().await;
        let set = format!("ALTER DATABASE {} SET {setting}", place.database);
        run(&mut place.plain().await, &set).await;
        let findings = PostgresStore::builder().preflight(&place.url()).await.unwrap();
        let finding = of(&findings, check);
        assert_eq!(finding.severity, severity, "{setting}: {finding:?}");
        assert!(!finding.advice.is_empty(), "{setting}");
    }
}

#[tokio::test]
async fn tables_that_are_missing_or_of_another_build_are_found_without_opening_a_store() {
    let place = Place::new(Server::Postgres).await;
    let findings = PostgresStore::builder().preflight(&place.url()).await.unwrap();
    assert_eq!(of(&findings, "schema").severity, Severity::Problem);
    place.open().await;
    run(&mut place.plain().await, "INSERT INTO idem_schema VALUES (99, 1)").await;
    let findings = PostgresStore::builder().preflight(&place.url()).await.unwrap();
    let found = of(&findings, "schema");
    assert_eq!((found.severity, found.found.as_ref()), (Severity::Problem, "99"), "{found:?}");
}

#[tokio::test]
async fn connections_are_compared_with_the_server_and_with_the_concurrency() {
    let place = Place::new(Server::Postgres).await;
    let look = |builder: idem_postgres::PostgresStoreBuilder| {
        let url = place.url();
        async move { of(&builder.preflight(&url).await.unwrap(), "connections").clone() }
    };
    let builder = PostgresStore::builder;
    let too_many = look(builder().max_connections(5_000)).await;
    assert_eq!(too_many.severity, Severity::Problem, "{too_many:?}");
    let too_few = look(builder().concurrency(64)).await;
    assert_eq!(too_few.severity, Severity::Warning, "{too_few:?}");
    let enough = look(builder().concurrency(10)).await;
    assert_eq!(enough.severity, Severity::Ok, "{enough:?}");
}

#[tokio::test]
async fn a_read_only_server_refuses_claims_as_not_applied() {
    let place = Place::new(Server::Postgres).await;
    place.open().await;
    let set = "default_transaction_read_only = on";
    run(&mut place.plain().await, &format!("ALTER DATABASE {} SET {set}", place.database)).await;
    let store = place.open().await;
    let claimed = idem_core::store::Store::claim(&store, &Request::new("key").claim()).await;
    assert_eq!(kind_of(claimed), ErrorKind::NotApplied);
}

#[tokio::test]
async fn a_server_that_is_not_there_and_a_wrong_user_are_told_apart() {
    let nobody = PostgresStore::connect("postgres://x:hunter2@127.0.0.1:1/x").await;
    let error = nobody.expect_err("nobody listens there");
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    let place = Place::new(Server::Postgres).await;
    let url = place.url().replace("postgres://postgres@", "postgres://nobody_at_all:hunter2@");
    let error = PostgresStore::connect(&url).await.expect_err("the role does not exist");
    assert_eq!(error.kind(), ErrorKind::WrongSchema);
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}
