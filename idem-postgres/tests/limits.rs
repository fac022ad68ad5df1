//! Limits that a server, a role or the store itself sets, and addresses that lead nowhere.

mod support;

use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::preflight::Severity;
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use idem_postgres::sqlx::{self, PgConnection};
use idem_postgres::{MAX_PAYLOAD_BYTES, PostgresStore, PostgresTransaction};
use support::{LEASE, Place, Request, Server, kind_of, number, point, run, sealed};

/// A database in which every session has this setting.
async fn with(server: Server, setting: &str) -> Place {
    let place = Place::new(server).await;
    place.open().await.close().await;
    let set = format!(
        "CREATE TABLE orders (sku text NOT NULL); ALTER DATABASE {} SET {setting}",
        place.database
    );
    run(&mut place.plain().await, &set).await;
    place
}

async fn order(store: &PostgresStore, tx: &mut PostgresTransaction) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO orders VALUES ('tea')").persistent(false);
    insert.execute(store.connection(tx)).await.map(|_| ())
}

/// Waits until no other session of the database is in a transaction.
async fn until_no_transaction(connection: &mut PgConnection) {
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND pid <> pg_backend_pid() AND xact_start IS NOT NULL";
    for _ in 0..2_000 {
        if number(connection, open).await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the transaction is never ended");
}

#[tokio::test]
async fn a_statement_that_the_server_cuts_short_is_not_applied() {
    for server in [Server::Postgres, Server::PgBouncer] {
        let place = with(server, "statement_timeout = '700ms'").await;
        let store = place.open().await;
        let request = Request::new("key");
        let fence = request.acquire(&store).await.fence;
        let mut holder = place.plain().await;
        run(&mut holder, "BEGIN; SET LOCAL statement_timeout = 0").await;
        run(&mut holder, "SELECT * FROM idem_records FOR UPDATE").await;
        assert_eq!(kind_of(store.renew(&fence, LEASE).await), ErrorKind::NotApplied);
        assert_eq!(kind_of(store.complete(&fence, &sealed("r")).await), ErrorKind::NotApplied);
        run(&mut holder, "ROLLBACK").await;
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
}

#[tokio::test]
async fn a_claim_that_waits_for_the_whole_table_is_not_told_in_progress() {
    for server in [Server::Postgres, Server::PgBouncer] {
        let place = with(server, "work_mem = '4MB'").await;
        let builder = support::quick().call_limit(Duration::from_secs(1));
        let store = place.open_with(builder).await;
        // A server takes a table's lock before it reads the bound that a lone statement brings.
        let kind = match server {
            Server::PgBouncer => ErrorKind::NotApplied,
            _ => ErrorKind::OutcomeUnknown,
        };
        let live = Request::new("live");
        live.acquire(&store).await;
        let mut holder = place.plain().await;
        for mode in ["SHARE", "ACCESS EXCLUSIVE"] {
            run(&mut holder, &format!("BEGIN; LOCK TABLE idem_records IN {mode} MODE")).await;
            let new = Request::new(format!("new under {mode}"));
            let refused = store.claim(&new.claim()).await;
            assert_eq!(kind_of(refused), kind, "{server:?} {mode}");
            let mut tx = store.begin().await.unwrap();
            let refused = store.claim_in(&mut tx, &new.claim()).await;
            assert_eq!(kind_of(refused), ErrorKind::NotApplied, "{server:?} {mode}");
            order(&store, &mut tx).await.unwrap();
            store.commit(tx).await.unwrap();
            if mode == "SHARE" {
                assert!(store.get(&live.scope, &live.key).await.unwrap().is_some());
            }
            run(&mut holder, "ROLLBACK").await;
            new.acquire(&store).await;
        }
        assert_eq!(number(&mut holder, "SELECT count(*) FROM orders").await, 2, "{server:?}");
    }
}

#[tokio::test]
async fn a_limit_on_statements_does_not_stop_a_migration_that_waits_for_another() {
    let place = Place::new(Server::Postgres).await;
    let set = format!("ALTER DATABASE {} SET statement_timeout = '1s'", place.database);
    let mut other = place.plain().await;
    run(&mut other, &set).await;
    run(&mut other, "BEGIN; SELECT pg_advisory_xact_lock(hashtext('idem migrate public'))").await;
    let opening = tokio::spawn({
        let url = place.url();
        async move { PostgresStore::connect(&url).await }
    });
    support::until_somebody_waits(&mut place.plain().await).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    run(&mut other, "ROLLBACK").await;
    let store = opening.await.unwrap().unwrap();
    Request::new("key").acquire(&store).await;
}

#[tokio::test]
async fn a_transaction_has_the_stores_limit_on_idleness_and_not_the_servers() {
    for server in [Server::Postgres, Server::PgBouncer] {
        let place = with(server, "idle_in_transaction_session_timeout = '50ms'").await;
        let store = place.open().await;
        let fence = Request::new("key").acquire(&store).await.fence;
        let mut tx = store.begin().await.unwrap();
        store.hold_in(&mut tx, &fence).await.unwrap();
        order(&store, &mut tx).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
        store.commit(tx).await.unwrap();
    }
}

#[tokio::test]
async fn a_transaction_that_the_server_ended_has_done_nothing() {
    let idle = |server| (server, "work_mem = '4MB'", Duration::from_secs(1));
    let whole = (Server::Postgres18, "transaction_timeout = '1s'", Duration::from_secs(60));
    for (server, setting, idle) in [idle(Server::Postgres), idle(Server::PgBouncer), whole] {
        let place = with(server, setting).await;
        let builder = PostgresStore::builder().idle_transaction_limit(idle).max_transactions(1);
        let store = place.open_with(builder).await;
        let mut plain = place.plain().await;
        let fence = Request::new("key").acquire(&store).await.fence;
        for completes in [true, false] {
            let mut tx = store.begin().await.unwrap();
            store.hold_in(&mut tx, &fence).await.unwrap();
            order(&store, &mut tx).await.unwrap();
            if completes {
                store.complete_in(&mut tx, &fence, &sealed("lost")).await.unwrap();
            }
            until_no_transaction(&mut plain).await;
            let ended = match completes {
                true => store.commit(tx).await.map_err(|error| error.kind()),
                false => {
                    store.complete_in(&mut tx, &fence, &sealed("lost")).await.map_err(|e| e.kind())
                }
            };
            let kind = ended.expect_err("there is nothing to commit");
            let told =
                kind == ErrorKind::NotApplied || kind == ErrorKind::OutcomeUnknown && completes;
            assert!(told, "{server:?}: {kind:?}");
        }
        // The next caller gets a whole connection.
        let mut tx = store.begin().await.unwrap();
        store.hold_in(&mut tx, &fence).await.unwrap();
        store.rollback(tx).await.unwrap();
        assert_eq!(number(&mut plain, "SELECT count(*) FROM orders").await, 0, "{server:?}");
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
}

#[tokio::test]
async fn a_session_that_the_server_ended_for_idleness_is_replaced() {
    let place = with(Server::Postgres, "idle_session_timeout = '1s'").await;
    let store = place.open_with(PostgresStore::builder().max_connections(1)).await;
    let ended = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND pid <> pg_backend_pid()";
    for round in 0..3 {
        let request = Request::new(format!("key {round}"));
        let claimed = loop {
            match store.claim(&request.claim()).await {
                Ok(claimed) => break claimed,
                Err(error) => assert!(error.kind().is_transient(), "{error}"),
            }
        };
        assert!(matches!(claimed, Claimed::Acquired(_)), "seen {claimed:?}");
        let mut plain = place.plain().await;
        run(&mut plain, "SET idle_session_timeout = 0").await;
        while number(&mut plain, ended).await > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn limits_on_whole_transactions_are_found() {
    let place = with(Server::Postgres18, "transaction_timeout = '900ms'").await;
    let findings = PostgresStore::builder().preflight(&place.url()).await.unwrap();
    let found = findings.iter().find(|finding| finding.check == "transaction-timeout").unwrap();
    assert_eq!(found.severity, Severity::Warning, "{found:?}");
    assert!(found.advice.contains("transaction_timeout"), "{found:?}");
}

#[tokio::test]
async fn what_is_too_long_is_refused_before_it_is_sent() {
    let place = with(Server::Postgres, "work_mem = '4MB'").await;
    // A slow machine may take its time for the longest.
    let builder = PostgresStore::builder().call_limit(Duration::from_secs(120));
    let store = place.open_with(builder).await;
    let long = sealed(vec![0; MAX_PAYLOAD_BYTES + 1]);
    let mut request = Request::new("key");
    request.input = Some(long.clone());
    assert_eq!(kind_of(store.claim(&request.claim()).await), ErrorKind::InvalidInput);
    request.input = None;
    let fence = request.acquire(&store).await.fence;
    let mut recovery = point(1);
    recovery.payload = long.clone();
    let moved = store.checkpoint(&fence, &recovery, LEASE).await;
    assert_eq!(kind_of(moved), ErrorKind::InvalidInput);
    assert_eq!(kind_of(store.complete(&fence, &long).await), ErrorKind::InvalidInput);
    let longest = sealed(vec![7; MAX_PAYLOAD_BYTES]);
    store.complete(&fence, &longest).await.unwrap();
    match request.again().send(&store).await {
        Claimed::Completed(replay) => assert!(replay.reply == longest),
        other => panic!("seen {other:?}"),
    }
}

#[tokio::test]
async fn addresses_that_lead_nowhere_are_told_apart() {
    let place = Place::new(Server::Postgres).await;
    // Somebody listens, and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap();
    let no_database = place.url().replace(&place.database, "idem_no_such_database");
    for (url, kind) in [
        ("postgres://h:p:q/x", ErrorKind::InvalidInput),
        ("postgres://h:99999/x", ErrorKind::InvalidInput),
        ("postgres://hunter2@h/x?sslmode=sometimes", ErrorKind::InvalidInput),
        ("redis://h/x", ErrorKind::InvalidInput),
        ("postgres", ErrorKind::InvalidInput),
        (&format!("{}?sslmode=require", place.url()), ErrorKind::WrongSchema),
        (&no_database, ErrorKind::WrongSchema),
        (&format!("postgres://x:hunter2@{silent}/x"), ErrorKind::NotApplied),
        ("postgres://x:hunter2@no-such-host.invalid/x", ErrorKind::NotApplied),
    ] {
        let builder = PostgresStore::builder().acquire_limit(Duration::from_millis(500));
        let error = builder.connect(url).await.expect_err(url);
        assert_eq!(error.kind(), kind, "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}
