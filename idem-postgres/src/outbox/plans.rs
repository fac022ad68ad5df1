//! The plan of a lease where many messages wait: it reads what it takes and what is held back, with
//! what queues behind that, and not what merely waits.
//!
//! `IDEM_PLAN_MESSAGES=1000000 cargo test -p idem-postgres --lib outbox::plans -- --nocapture`
//! prints what stands in `docs/postgres-plans-1000000.md`.

use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};

use super::statements::OutboxStatements;
use crate::plans::{on_full_tables, run};
use crate::sql::Tables;

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

#[test]
fn a_lease_does_not_read_what_merely_waits() {
    let messages = std::env::var("IDEM_PLAN_MESSAGES");
    let messages = messages.map_or(50_000, |text| text.parse::<u64>().unwrap());
    on_full_tables(0, async |connection| {
        let outbox = OutboxStatements::new(&Tables::new("public", "idem").unwrap(), "BEGIN");
        run(connection, &format!("PREPARE lease AS {}", outbox.lease.as_str())).await;
        for (name, keys, failed, held) in [
            ("no key", 0, 0, 0),
            ("1,000 keys", 1_000, 0, 0),
            ("1,000 keys, 500 held back", 1_000, 500, 500),
            ("10 keys, all held back", 10, 10, messages),
            ("a key each, all held back", messages, messages, messages),
        ] {
            fill(connection, messages, keys, failed).await;
            for mode in ["force_generic_plan", "force_custom_plan"] {
                run(connection, &format!("SET plan_cache_mode = {mode}")).await;
                let plan = explain(connection, outbox.begin_lease.as_str()).await;
                if mode == "force_generic_plan" {
                    println!("### lease, {name}\n\n```text\n{}\n```\n", plan.join("\n"));
                }
                let read = rows_read(&plan);
                assert!(read < 10_000 + held, "{name}, {mode}: {read}\n{}", plan.join("\n"));
                // Compared one by one they would take for ever.
                let hashed = plan.iter().any(|line| line.contains("NOT (hashed SubPlan"));
                assert!(hashed, "{name}, {mode}\n{}", plan.join("\n"));
            }
        }
    });
}

async fn explain(connection: &mut PgConnection, begin: &str) -> Vec<String> {
    run(connection, begin).await;
    let explain = "EXPLAIN (ANALYZE, BUFFERS, WAL) \
         EXECUTE lease ('lease', 100, false, repeat('o', 16)::bytea, 30000000)";
    let plan = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(explain))).await.unwrap();
    run(connection, "ROLLBACK").await;
    plan.iter().map(|row| row.get(0)).collect()
}

/// The most rows that one step of the plan gave, or read and passed over.
fn rows_read(plan: &[String]) -> u64 {
    let rows = plan.iter().filter_map(|line| match line.split_once("(actual") {
        Some((_, actual)) => actual.split("rows=").nth(1)?.split(' ').next(),
        None => line.split_once("Rows Removed by").and_then(|(_, rest)| rest.split(": ").nth(1)),
    });
    rows.map(|rows| rows.parse::<f64>().unwrap()).fold(0.0, f64::max).round() as u64
}

async fn fill(connection: &mut PgConnection, messages: u64, keys: u64, failed: u64) {
    let key = match keys {
        0 => "NULL".to_owned(),
        _ => format!("('key_' || i % {keys})::bytea"),
    };
    let insert = format!(
        "TRUNCATE idem_outbox; INSERT INTO idem_outbox (id, topic, ordering_key, headers, payload, \
         created_at, next_attempt_at, attempts) SELECT uuid_send(gen_random_uuid()), 't', {key}, \
         '[]', repeat('x', 100)::bytea, {NOW}, {NOW} + (i <= {failed})::int * 60000000, \
         (i <= {failed})::int FROM generate_series(1, {messages}) i"
    );
    run(connection, &insert).await;
    run(connection, "VACUUM ANALYZE idem_outbox").await;
}
