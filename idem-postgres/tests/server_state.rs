//! Servers that ask for a password, stand by, are full, take no more connections, or go away while
//! the tables are made: each is told as what it is.

mod support;

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::Admin;
use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::preflight::{Preflight, Severity};
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use idem_postgres::sqlx::{Connection, PgConnection};
use idem_postgres::{PostgresStore, PostgresStoreBuilder, SCHEMA_VERSION};
use support::own_server::OwnServer;
use support::{LEASE, Request, kind_of, number, plain, point, run, sealed};
use tokio::task::{JoinSet, spawn_blocking};

async fn own(options: &'static str) -> Arc<OwnServer> {
    Arc::new(spawn_blocking(move || OwnServer::start(options)).await.unwrap())
}

fn quick() -> PostgresStoreBuilder {
    support::quick().acquire_limit(Duration::from_secs(2))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_named_and_shown_nowhere() {
    let server = own("").await;
    run(&mut plain(&server.url).await, "CREATE ROLE shop SUPERUSER LOGIN PASSWORD 'right one'")
        .await;
    server.ask_for_passwords();
    let url = |password: &str| server.url.replace("postgres@", &format!("shop:{password}@"));
    let error = loop {
        // Until the server has read its new rules.
        match PostgresStore::connect(&url("hunter2")).await {
            Ok(store) => store.close().await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WrongSchema, "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    let store = PostgresStore::connect(&url("right%20one")).await.unwrap();
    Request::new("key").acquire(&store).await;
    assert!(!format!("{store:?}").contains("right"), "{store:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_nothing_and_goes_on_once_it_is_promoted() {
    let primary = own("").await;
    let store = quick().connect(&primary.url).await.unwrap();
    let done = Request::new("done");
    let fence = done.acquire(&store).await.fence;
    store.complete(&fence, &sealed("reply")).await.unwrap();
    let open = Request::new("open");
    let held = open.acquire(&store).await.fence;
    let standby = spawn_blocking({
        let primary = primary.clone();
        move || primary.start_standby()
    });
    let standby = standby.await.unwrap();
    for pooled in [false, true] {
        let builder = quick().behind_transaction_pooler(pooled);
        let store = builder.connect(&standby.url).await.unwrap();
        let findings = store.preflight().await.unwrap();
        let writable = findings.iter().find(|finding| finding.check == "writable").unwrap();
        assert_eq!(writable.severity, Severity::Problem);
        let mut tx = store.begin().await.unwrap();
        for (call, refused) in [
            ("hold", store.hold_in(&mut tx, &held).await.err()),
            ("claim", store.claim(&Request::new("new").claim()).await.err()),
            ("renew", store.renew(&held, LEASE).await.err()),
            ("checkpoint", store.checkpoint(&held, &point(1), LEASE).await.err()),
            ("complete", store.complete(&held, &sealed("reply")).await.err()),
            ("release", store.release(&held).await.err()),
            ("sweep", store.sweep(10).await.err()),
        ] {
            let error = refused.unwrap_or_else(|| panic!("{call} was done by a standby"));
            assert_eq!(error.kind(), ErrorKind::NotApplied, "{call}: {error}");
            assert!(error.to_string().contains("read only"), "{call}: {error}");
        }
        store.rollback(tx).await.unwrap();
        let seen = store.get(&open.scope, &open.key).await.unwrap().unwrap();
        assert_eq!(seen.record.fence(), held);
        store.close().await;
    }
    let store = quick().connect(&standby.url).await.unwrap();
    run(&mut plain(&standby.url).await, "SELECT pg_promote()").await;
    store.complete(&held, &sealed("late")).await.unwrap();
    assert!(matches!(done.again().send(&store).await, Claimed::Completed(_)));
    Request::new("new").acquire(&store).await;
}

/// A disk of a test's own takes a mount, which not every machine allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_a_full_store_and_what_is_held_stays_held() {
    let Some(server) = spawn_blocking(|| OwnServer::start_with_small_disk("8m")).await.unwrap()
    else {
        // Only whoever runs the tests decides that this goes unproven on their machine.
        let given_up = std::env::var_os("IDEM_NO_SMALL_DISK").is_some();
        assert!(given_up, "a small disk cannot be mounted; set IDEM_NO_SMALL_DISK=1 to go without");
        return;
    };
    let store = quick().connect(&server.url).await.unwrap();
    let mut admin = plain(&server.url).await;
    run(&mut admin, &format!("CREATE TABLESPACE small LOCATION '{}'", server.small_disk())).await;
    run(&mut admin, "ALTER TABLE idem_records SET TABLESPACE small").await;
    run(&mut admin, "CREATE TABLE filler (x text) TABLESPACE small").await;
    let open = Request::new("open");
    let held = open.acquire(&store).await.fence;
    let done = Request::new("done").acquire(&store).await.fence;
    store.complete(&done, &sealed("reply")).await.unwrap();
    fill(&mut admin).await;

    // More than what is left on the pages that there are.
    let big = sealed(support::incompressible(256 * 1024));
    let mut new = Request::new("new");
    new.input = Some(big.clone());
    assert_eq!(kind_of(store.claim(&new.claim()).await), ErrorKind::StoreFull);
    assert_eq!(kind_of(store.complete(&held, &big).await), ErrorKind::StoreFull);
    assert!(store.get(&new.scope, &new.key).await.unwrap().is_none(), "nothing was written");
    let seen = store.get(&open.scope, &open.key).await.unwrap().unwrap();
    assert_eq!(seen.record.fence(), held);
    assert!(matches!(Request::new("done").send(&store).await, Claimed::Completed(_)));
    let mut tx = store.begin().await.unwrap();
    store.hold_in(&mut tx, &held).await.unwrap();
    assert_eq!(kind_of(store.complete_in(&mut tx, &held, &big).await), ErrorKind::StoreFull);
    store.rollback(tx).await.unwrap();

    run(&mut admin, "DROP TABLE filler; CHECKPOINT").await;
    store.complete(&held, &big).await.unwrap();
    new.acquire(&store).await;
}

async fn fill(connection: &mut PgConnection) {
    use idem_postgres::sqlx;
    let row = "INSERT INTO filler SELECT repeat(md5(i::text), 100) FROM generate_series(1, 10) i";
    for _ in 0..10_000 {
        if let Err(error) = sqlx::raw_sql(row).execute(&mut *connection).await {
            let code = error.as_database_error().and_then(|error| error.code().map(Into::into));
            assert_eq!(code, Some(String::from("53100")), "{error}");
            return;
        }
    }
    panic!("the disk is never full");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_no_connection_left_has_applied_nothing() {
    let server = own("-c max_connections=8 -c superuser_reserved_connections=2").await;
    run(
        &mut plain(&server.url).await,
        "CREATE ROLE shop LOGIN; GRANT ALL ON SCHEMA public TO shop",
    )
    .await;
    let url = server.url.replace("postgres@", "shop@");
    let store = quick().max_connections(4).connect(&url).await.unwrap();
    store.close().await;
    let mut others = Vec::new();
    while let Ok(other) = PgConnection::connect(&url).await {
        others.push(other);
    }
    assert!(others.len() >= 4, "{} connections", others.len());
    let refused = quick().max_connections(4).connect(&url).await;
    assert_eq!(kind_of(refused), ErrorKind::NotApplied);
    for other in others {
        other.close().await.unwrap();
    }
    let store = quick().max_connections(4).connect(&url).await.unwrap();
    Request::new("key").acquire(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tables_are_made_once_though_the_server_is_killed_meanwhile() {
    let server = own("").await;
    let mut interrupted = 0;
    for round in 0..5_u64 {
        run(&mut plain(&server.url).await, "DROP SCHEMA IF EXISTS billing CASCADE").await;
        let mut tasks = JoinSet::new();
        for _ in 0..10 {
            let url = server.url.clone();
            tasks.spawn(async move {
                let mut failed = 0;
                loop {
                    match quick().schema("billing").connect(&url).await {
                        Ok(_) => return failed,
                        Err(error) => assert!(error.kind().is_transient(), "{error}"),
                    }
                    failed += 1;
                    assert!(failed < 200, "the server does not come back");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
        let killing = spawn_blocking({
            let server = server.clone();
            move || {
                std::thread::sleep(Duration::from_millis(round * 15));
                server.kill();
                server.restart("");
            }
        });
        while let Some(failed) = tasks.join_next().await {
            interrupted += failed.unwrap();
        }
        killing.await.unwrap();
        let applied = "SELECT count(*) FROM billing.idem_schema";
        let applied = number(&mut plain(&server.url).await, applied).await;
        assert_eq!(applied, i64::from(SCHEMA_VERSION), "round {round}");
        let store = PostgresStore::builder().schema("billing").migrates(false);
        let store = store.connect(&server.url).await.unwrap();
        assert_eq!(
            store.stats().await.unwrap(),
            idem_core::admin::Stats { outbox_pending: Some(0), ..Default::default() }
        );
    }
    println!("{interrupted} attempts to make the tables failed");
    assert!(interrupted > 0, "no attempt met the kill");
}
