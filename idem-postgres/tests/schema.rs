//! Migrations, by the store and by hand, and tables that are not those of this build.

mod support;

use std::process::Command;

use idem_core::error::ErrorKind;
use idem_core::outbox::{LeaseMessages, MessageState, OutboxMessage};
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use idem_postgres::sqlx::{self, PgConnection, Row};
use idem_postgres::{PostgresStore, SCHEMA_VERSION};
use support::{Place, Request, Server, kind_of, number, run, sealed};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_stores_migrate_at_once() {
    for server in [Server::Postgres, Server::Postgres18, Server::PgBouncer] {
        let place = Place::new(server).await;
        let mut tasks = JoinSet::new();
        for _ in 0..10 {
            let url = place.url();
            tasks.spawn(async move {
                let builder = PostgresStore::builder().schema("billing").table_prefix("retry");
                let pooled = server == Server::PgBouncer;
                builder.behind_transaction_pooler(pooled).connect(&url).await
            });
        }
        while let Some(opened) = tasks.join_next().await {
            opened.unwrap().unwrap_or_else(|error| panic!("{server:?}: {error}"));
        }
        let applied = "SELECT count(*) FROM billing.retry_schema";
        let applied = number(&mut place.plain().await, applied).await;
        assert_eq!(applied, i64::from(SCHEMA_VERSION));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_sets_of_tables_are_made_at_once_in_a_schema_that_is_not_there_yet() {
    for round in 0..10 {
        let place = Place::new(Server::Postgres).await;
        let mut tasks = JoinSet::new();
        for prefix in ["one", "two", "three"] {
            let builder = PostgresStore::builder().schema("billing").table_prefix(prefix);
            let url = place.url();
            tasks.spawn(async move { builder.connect(&url).await });
        }
        while let Some(opened) = tasks.join_next().await {
            opened.unwrap().unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}

#[tokio::test]
async fn a_store_works_in_a_schema_and_under_a_prefix_of_the_users_choice() {
    let place = Place::new(Server::Postgres).await;
    let builder = || PostgresStore::builder().schema("user").table_prefix("select");
    let chosen = place.open_with(builder()).await;
    let default = place.open().await;
    let request = Request::new("key");
    let fence = request.acquire(&chosen).await.fence;
    chosen.complete(&fence, &sealed("reply")).await.unwrap();
    assert!(default.get(&request.scope, &request.key).await.unwrap().is_none());
    let there = "SELECT count(*) FROM \"user\".select_records";
    assert_eq!(number(&mut place.plain().await, there).await, 1);
}

#[tokio::test]
async fn the_files_for_those_who_migrate_by_hand_give_the_same_schema() {
    for server in [Server::Postgres, Server::Postgres18] {
        let (by_hand, by_store) = (Place::new(server).await, Place::new(server).await);
        let files = [
            concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0001.sql"),
            concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0002.sql"),
        ];
        let psql = Command::new("psql")
            .args(["-q", "-v", "ON_ERROR_STOP=1", "--single-transaction"])
            .args(files.iter().flat_map(|file| ["-f", file]))
            .arg(by_hand.url())
            .output()
            .expect("psql runs");
        assert!(psql.status.success(), "{}", String::from_utf8_lossy(&psql.stderr));
        by_store.open().await;
        let expected = catalog(&mut by_store.plain().await).await;
        assert!(expected.len() > 40, "{} lines", expected.len());
        assert_eq!(catalog(&mut by_hand.plain().await).await, expected, "{server:?}");
        // And a store that may not migrate works on it.
        let store = by_hand.open_with(PostgresStore::builder().migrates(false)).await;
        Request::new("key").acquire(&store).await;
    }
}

#[tokio::test]
async fn messages_that_wait_in_tables_of_version_1_are_sent_after_the_migration() {
    let place = Place::new(Server::Postgres).await;
    let mut plain = place.plain().await;
    run(&mut plain, include_str!("../migrations/0001.sql")).await;
    let old = "INSERT INTO idem_outbox (id, topic, headers, payload, created_at, next_attempt_at) \
         VALUES (repeat('i', 16)::bytea, 'old', '[]', 'x', 1, 1)";
    run(&mut plain, old).await;
    let outbox = place.open().await.outbox();
    let batch = outbox.lease(&LeaseMessages::new(support::LEASE, 10)).await.unwrap();
    assert_eq!(batch.messages.len(), 1);
    assert_eq!(batch.messages[0].message.topic(), "old");
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_a_dead_letter_and_blocks_its_own_key_alone() {
    let place = Place::new(Server::Postgres).await;
    let store = place.open().await;
    let mut tx = store.begin().await.unwrap();
    for (topic, key) in [("first", "a"), ("damaged", "b"), ("behind", "b"), ("other", "c")] {
        let message = OutboxMessage::new(topic, "x").unwrap().ordered_by(key).unwrap();
        store.push_in(&mut tx, &message).await.unwrap();
    }
    store.commit(tx).await.unwrap();
    let damage = "UPDATE idem_outbox SET headers = '[[' WHERE topic = 'damaged'";
    run(&mut place.plain().await, damage).await;
    let outbox = store.outbox();
    let lease = async || {
        let batch = outbox.lease(&LeaseMessages::new(support::LEASE, 10)).await.unwrap();
        let topics = batch.messages.iter().map(|leased| leased.message.topic().to_owned());
        topics.collect::<Vec<_>>()
    };
    assert_eq!(lease().await, ["first"], "up to it");
    assert_eq!(lease().await, ["other"]);
    let dead = outbox.list(MessageState::Dead, None, 10).await.unwrap().entries;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].message.topic(), "damaged");
    assert_eq!(outbox.discard(&[dead[0].message.id()]).await.unwrap(), 1);
    assert_eq!(lease().await, ["behind"]);
}

#[tokio::test]
async fn tables_of_another_version_are_a_typed_error() {
    let place = Place::new(Server::Postgres).await;
    let connect = |migrates| {
        let builder = PostgresStore::builder().migrates(migrates);
        async { kind_of(builder.connect(&place.url()).await) }
    };
    assert_eq!(connect(false).await, ErrorKind::WrongSchema, "there are none");
    place.open().await;
    run(&mut place.plain().await, "INSERT INTO idem_schema VALUES (99, 0)").await;
    assert_eq!(connect(false).await, ErrorKind::WrongSchema, "newer");
    assert_eq!(connect(true).await, ErrorKind::WrongSchema, "newer, and not touched");
    let older = "DELETE FROM idem_schema; INSERT INTO idem_schema VALUES (0, 0)";
    run(&mut place.plain().await, older).await;
    assert_eq!(connect(false).await, ErrorKind::WrongSchema, "older");
}

#[tokio::test]
async fn tables_that_go_away_under_a_store_are_a_typed_error() {
    let place = Place::new(Server::Postgres).await;
    let store = place.open().await;
    let fence = Request::new("key").acquire(&store).await.fence;
    run(&mut place.plain().await, "DROP TABLE idem_records").await;
    let claimed = store.claim(&Request::new("key").claim()).await;
    assert_eq!(kind_of(claimed), ErrorKind::WrongSchema);
    let completed = store.complete(&fence, &sealed("reply")).await;
    assert_eq!(kind_of(completed), ErrorKind::WrongSchema);
}

#[tokio::test]
async fn a_role_that_only_reads_and_writes_rows_is_enough() {
    let place = Place::new(Server::Postgres).await;
    place.open().await;
    let role = format!("{}_role", place.database);
    let grants = format!(
        "CREATE ROLE {role} LOGIN; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}; \
         REVOKE CREATE ON SCHEMA public FROM PUBLIC"
    );
    run(&mut place.plain().await, &grants).await;
    let url = place.url().replace("postgres://postgres@", &format!("postgres://{role}@"));
    let store = PostgresStore::connect(&url).await.unwrap();
    let fence = Request::new("key").acquire(&store).await.fence;
    store.complete(&fence, &sealed("reply")).await.unwrap();
    store.close().await;
    let elsewhere = PostgresStore::builder().schema("elsewhere").connect(&url).await;
    assert_eq!(kind_of(elsewhere), ErrorKind::WrongSchema);
    let drop = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    run(&mut place.plain().await, &drop).await;
}

#[tokio::test]
async fn what_cannot_be_read_as_a_record_fails_closed() {
    let place = Place::new(Server::Postgres).await;
    let store = place.open().await;
    // The table's own constraints keep this out; here somebody took them away.
    let constraints = "SELECT string_agg(format('ALTER TABLE idem_records DROP CONSTRAINT %I', \
         conname), '; ') FROM pg_constraint WHERE conrelid = 'idem_records'::regclass \
         AND contype = 'c'";
    let mut plain = place.plain().await;
    let drop: String = sqlx::query_scalar(constraints).fetch_one(&mut plain).await.unwrap();
    run(&mut plain, &drop).await;
    for (number, damage) in [
        "owner = ''",
        "scheme = 300",
        "attempt = 0",
        "operation = '\\xff'",
        "operation = ''",
        "recovery_number = 1",
        "recovery = 'x'",
        "expires_at = 1",
        "locked_until = NULL",
        "given_up = NULL",
        "retention = -1",
        "retention = NULL",
        "completed_at = 1",
        "completed_at = 1, reply = 'r'",
        "digest = 'x'",
    ]
    .iter()
    .enumerate()
    {
        let request = Request::new(format!("key {number}"));
        let fence = request.acquire(&store).await.fence;
        let update = format!("UPDATE idem_records SET {damage} WHERE key = 'key {number}'");
        run(&mut plain, &update).await;
        let kind = kind_of(store.get(&request.scope, &request.key).await);
        assert_eq!(kind, ErrorKind::CorruptRecord, "get: {damage}");
        let owners = [request.again(), request.clone()];
        for request in owners {
            let kind = kind_of(store.claim(&request.claim()).await);
            assert_eq!(kind, ErrorKind::CorruptRecord, "claim: {damage}");
        }
        if damage.contains("xff") {
            continue; // That it is no text is seen when it is read, which here is after the write.
        }
        for kind in [
            kind_of(store.renew(&fence, support::LEASE).await),
            kind_of(store.checkpoint(&fence, &support::point(1), support::LEASE).await),
            kind_of(store.release(&fence).await),
            kind_of(store.complete(&fence, &sealed("reply")).await),
        ] {
            assert_eq!(kind, ErrorKind::CorruptRecord, "{damage}");
        }
    }
}

/// The tables of idem as the catalog has them, without what differs between two databases.
async fn catalog(connection: &mut PgConnection) -> Vec<String> {
    let columns = "SELECT format('%s.%s %s %s null=%s default=%s identity=%s', c.relname, \
         a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, \
         pg_get_expr(d.adbin, d.adrelid), a.attidentity) \
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 \
         LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum \
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'";
    let indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'";
    let constraints = "SELECT format('%s %s %s', conrelid::regclass, conname, \
         pg_get_constraintdef(oid)) FROM pg_constraint \
         WHERE connamespace = 'public'::regnamespace";
    let options = "SELECT format('%s %s %s', relname, relkind, reloptions) FROM pg_class \
         WHERE relnamespace = 'public'::regnamespace";
    let versions = "SELECT format('version %s', version) FROM idem_schema";
    let mut lines = Vec::new();
    for statement in [columns, indexes, constraints, options, versions] {
        let rows = sqlx::query(statement).fetch_all(&mut *connection).await.unwrap();
        lines.extend(rows.iter().map(|row| row.get::<String, _>(0)));
    }
    lines.sort();
    lines
}
