//! The plan of each statement on a full table: index access only, whether the server plans it for
//! its parameters or once for all.
//!
//! `IDEM_PLAN_RECORDS=1000000 cargo test -p idem-postgres --lib plans -- --nocapture` prints what
//! stands in `docs/postgres-plans.md`.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row, SqlStr};

use crate::sql::{Statements, Tables};

const DAY: &str = "86400000000";
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

#[test]
fn every_statement_finds_its_rows_by_an_index() {
    let records = std::env::var("IDEM_PLAN_RECORDS");
    let records = records.map_or(100_000, |text| text.parse::<u64>().unwrap());
    let seen = on_full_tables(records, async |connection| look(connection).await);
    assert_eq!(seen, Vec::<String>::new(), "plans that read a whole table");
}

/// Runs `test` in a database of its own, whose tables hold so many records.
pub(crate) fn on_full_tables<T>(records: u64, test: impl AsyncFnOnce(&mut PgConnection) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = std::env::var("IDEM_POSTGRES_URL")
            .expect("set IDEM_POSTGRES_URL to a Postgres server; scripts/test starts one");
        let mut server = PgConnection::connect(&url).await.unwrap();
        let database = format!("idem_full_{records}_{:08x}", std::process::id());
        run(&mut server, &format!("CREATE DATABASE {database} TEMPLATE template0")).await;
        let (prefix, _) = url.rsplit_once('/').unwrap();
        let mut connection = PgConnection::connect(&format!("{prefix}/{database}")).await.unwrap();
        for migration in crate::schema::MIGRATIONS {
            run(&mut connection, migration).await;
        }
        fill(&mut connection, records).await;
        let result = test(&mut connection).await;
        run(&mut server, &format!("DROP DATABASE {database} WITH (FORCE)")).await;
        result
    })
}

/// The plans that read a whole table.
async fn look(connection: &mut PgConnection) -> Vec<String> {
    let tables = Tables::new("public", "idem").unwrap();
    let mut bad = Vec::new();
    for (name, statement, arguments) in statements(&Statements::new(&tables)) {
        let text = statement.as_str();
        run(connection, &format!("PREPARE {name} AS {text}")).await;
        for mode in ["force_generic_plan", "force_custom_plan"] {
            run(connection, &format!("SET plan_cache_mode = {mode}")).await;
            // What is written is taken back, so that the next plan finds the same table.
            run(connection, "BEGIN").await;
            let explain = format!("EXPLAIN (ANALYZE, BUFFERS, WAL) EXECUTE {name} ({arguments})");
            let plan = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(explain))).await.unwrap();
            run(connection, "ROLLBACK").await;
            let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
            if mode == "force_generic_plan" {
                println!("### {name}\n\n```text\n{}\n```\n", plan.join("\n"));
            }
            if plan.iter().any(|line| line.contains("Seq Scan on idem_")) {
                bad.push(format!("{name} with {mode}:\n{}", plan.join("\n")));
            }
        }
    }
    bad
}

/// Most are completed; there are some of every other sort.
async fn fill(connection: &mut PgConnection, records: u64) {
    let columns = "scope, key, operation, scheme, digest, attempt, owner, incarnation, \
         created_at, retention, retention_after_completion, marks_begun, locked_until, given_up, \
         completed_at, expires_at, sweep_after, input, reply";
    let completed = format!(
        "INSERT INTO idem_records ({columns}) \
         SELECT ('acct_' || i % 1000)::bytea, sha256(i::text::bytea), 'orders.create', 1, \
           sha256(i::text::bytea), 1, uuid_send(gen_random_uuid()), uuid_send(gen_random_uuid()), \
           c, {DAY}, 0, false, NULL, NULL, c + 1, c + {DAY}, c + {DAY}, NULL, \
           decode(repeat(md5(i::text), 20), 'hex') \
         FROM (SELECT i, {NOW} - i * {DAY} / {records} * 101 / 100 AS c \
           FROM generate_series(1, {records}) i) x"
    );
    let open = format!(
        "INSERT INTO idem_records ({columns}) \
         SELECT ('acct_' || i % 1000)::bytea, sha256(('open' || i)::bytea), 'orders.create', 1, \
           sha256(i::text::bytea), 1, repeat('o', 16)::bytea, repeat('i', 16)::bytea, \
           {NOW} - i * 1000, {DAY}, 0, true, {NOW} + (i % 2) * 60000000 - 1000, false, NULL, \
           NULL, {NOW} + {DAY}, decode(repeat(md5(i::text), 20), 'hex'), NULL \
         FROM generate_series(1, 1000) i"
    );
    let outbox = "INSERT INTO idem_outbox (id, topic, headers, payload, created_at, state, \
         next_attempt_at, sent_at) SELECT uuid_send(gen_random_uuid()), 't', '[]', 'x', 1, \
         CASE WHEN i % 100 = 0 THEN 0 ELSE 1 END, 1, CASE WHEN i % 100 = 0 THEN NULL ELSE 1 END \
         FROM generate_series(1, 100000) i";
    for statement in [completed.as_str(), &open, outbox] {
        run(connection, statement).await;
    }
    run(connection, "VACUUM ANALYZE idem_records").await;
    run(connection, "VACUUM ANALYZE idem_outbox").await;
}

/// Each statement, as often as it has an answer of its own, with parameters that give it.
pub(crate) fn statements(all: &Statements) -> Vec<(&'static str, &SqlStr, String)> {
    // Completed; live; lapsed: of the last two the odd ones run.
    let completed = "'acct_7', sha256('7')";
    let live = "'acct_7', sha256('open7')";
    let lapsed = "'acct_8', sha256('open8')";
    let claim = |identity: &str, owner: &str| {
        format!(
            "'claim', {identity}, {owner}, 'orders.create', 0::smallint, sha256('x'), \
             '{{0}}', ARRAY[sha256('x')], 'input', true, 30000000, {DAY}, 0, 'below', 5, {DAY}, \
             NULL, '1000'"
        )
    };
    let other = "repeat('x', 16)::bytea";
    let own = "repeat('o', 16)::bytea";
    let fence = |name: &str, rest: &str| {
        format!("'{name}', {live}, repeat('i', 16)::bytea, 1, {own}, '1000'{rest}")
    };
    vec![
        ("claim_of_a_new_key", &all.claim, claim("'acct_7', 'new'", other)),
        ("claim_of_a_completed_key", &all.claim, claim(completed, other)),
        ("claim_of_a_live_key", &all.claim, claim(live, other)),
        ("claim_that_takes_over", &all.claim, claim(lapsed, other)),
        ("table_lock", &all.table_lock, "'table_lock'".to_owned()),
        ("renew", &all.renew, fence("renew", ", 60000000")),
        ("checkpoint", &all.checkpoint, fence("checkpoint", ", 60000000, 1, 'point', NULL")),
        ("complete", &all.complete, fence("complete", ", 'reply', NULL")),
        ("hold", &all.hold, fence("hold", "")),
        ("release", &all.release, fence("release", "")),
        ("remove", &all.remove, fence("remove", "")),
        ("get", &all.get, format!("'get', {completed}")),
        ("lapsed", &all.lapsed, "'lapsed', 100, 0, '', ''".to_owned()),
        ("sweep", &all.sweep, "'sweep', 100, '1000'".to_owned()),
        ("list", &all.list, "'list', 'acct_5', '', 100, NULL, NULL".to_owned()),
        ("list_in_scope", &all.list_in_scope, "'list', 'acct_5', '', 100, NULL, NULL".to_owned()),
        ("forget", &all.forget, "'forget', 'acct_5', 100, '1000'".to_owned()),
        ("stats", &all.stats, "'stats'".to_owned()),
        ("standing", &all.standing, "'standing', NULL".to_owned()),
        (
            "push",
            &all.push,
            "'push', repeat('m', 16)::bytea, 't', NULL, '[]', 'x', NULL".to_owned(),
        ),
    ]
}

pub(crate) async fn run(connection: &mut PgConnection, statements: &str) {
    let text = AssertSqlSafe(statements.to_owned());
    let ran = connection.execute(sqlx::raw_sql(text)).await;
    ran.unwrap_or_else(|error| panic!("{statements}: {error}"));
}
