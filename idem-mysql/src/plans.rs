//! The plan of each statement on a full table: index access only.
//!
//! `IDEM_PLAN_RECORDS=1000000 cargo test -p idem-mysql --lib plans -- --nocapture` prints what
//! stands in `docs/mysql-plans-1000000.md`.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, Value};

use crate::sql::{Clock, OutboxStatements, Statements, Tables};

const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

#[test]
fn every_statement_finds_its_rows_by_an_index() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = std::env::var("IDEM_MYSQL_URL")
            .expect("set IDEM_MYSQL_URL to a server for tests; scripts/test starts one");
        let records = std::env::var("IDEM_PLAN_RECORDS");
        let records = records.map_or(20_000, |text| text.parse::<u64>().unwrap());
        let opts = OptsBuilder::from_opts(Opts::from_url(&url).unwrap()).prefer_socket(false);
        let mut connection = Conn::new(opts).await.unwrap();
        let database = format!("idem_plans_{:08x}", std::process::id());
        run(&mut connection, &format!("CREATE DATABASE {database}")).await;
        run(&mut connection, &format!("USE {database}")).await;
        let seen = look(&mut connection, records).await;
        run(&mut connection, &format!("DROP DATABASE {database}")).await;
        assert_eq!(seen, Vec::<String>::new(), "plans that read a whole table");
    });
}

/// The plans that read a whole table.
async fn look(connection: &mut Conn, records: u64) -> Vec<String> {
    for statement in crate::schema::statements(include_str!("../migrations/0001.sql")) {
        run(connection, &statement).await;
    }
    fill(connection, records).await;
    let settings = crate::session::verb_settings(std::time::Duration::from_secs(1));
    run(connection, &settings).await;
    let tables = Tables::new("idem").unwrap();
    let statements = Statements::new(&tables, &Clock::default());
    let mut bad = Vec::new();
    for (name, statement, values) in cases(&statements) {
        let explain = format!("EXPLAIN {statement}");
        let rows: Vec<Row> = connection.exec(explain.as_str(), values).await.unwrap();
        println!("### {name}\n\n```text");
        for row in rows {
            let plan = describe(&row);
            println!("{plan}");
            // An insert is shown as a row without an access.
            let whole = plan.contains("type=ALL")
                && !plan.contains("<derived")
                && !plan.contains("select_type=INSERT");
            if whole {
                bad.push(format!("{name}: {plan}"));
            }
        }
        println!("```\n");
    }
    bad
}

fn describe(row: &Row) -> String {
    let text = |index: usize| match row.as_ref(index) {
        Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Value::NULL) | None => "-".to_owned(),
        Some(other) => other.as_sql(true),
    };
    let columns = row.columns_ref().iter().enumerate();
    let shown = columns.filter(|(_, column)| {
        matches!(
            &*column.name_str(),
            "select_type" | "table" | "type" | "key" | "key_len" | "rows" | "Extra"
        )
    });
    let shown: Vec<String> =
        shown.map(|(index, column)| format!("{}={}", column.name_str(), text(index))).collect();
    shown.join(" ")
}

/// All but a thousandth are completed; the rest is in progress, half of it lapsed. A hundredth of
/// the completed ones has expired.
async fn fill(connection: &mut Conn, records: u64) {
    run(connection, "CREATE TABLE digits (d BIGINT PRIMARY KEY)").await;
    run(connection, "INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)").await;
    let digits = "digits a, digits b, digits c, digits e, digits f, digits g";
    let number = "a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d";
    let fill = format!(
        "INSERT INTO idem_records (scope, record_key, operation, scheme, digest, attempt, owner, \
         incarnation, revision, created_at, retention, retention_after_completion, marks_begun, \
         locked_until, given_up, recovery_number, recovery, completed_at, expires_at, \
         sweep_after, input, reply) \
         SELECT CONCAT('acct_', i % 1000), CONCAT('key-', i), 'orders.create', 1, \
         UNHEX(SHA2(i, 256)), 1, REPEAT('o', 16), REPEAT('i', 16), 1, t.now - 1000000, \
         86400000000, 0, 1, \
         IF(i % 1000 = 0, t.now + IF(i % 2000 = 0, -1, 1) * 3600000000, NULL), \
         IF(i % 1000 = 0, 0, NULL), IF(i % 4000 = 0, 1, NULL), IF(i % 4000 = 0, 'point', NULL), \
         IF(i % 1000 = 0, NULL, t.now), \
         IF(i % 1000 = 0, NULL, t.now + IF(i % 100 = 1, -1, 86400000000)), \
         t.now + IF(i % 100 = 1, -1, 86400000000), \
         IF(i % 1000 = 0, 'input', NULL), IF(i % 1000 = 0, NULL, REPEAT('r', 200)) \
         FROM (SELECT {number} AS i FROM {digits} WHERE {number} < {records}) n, \
         (SELECT {NOW} AS now) t"
    );
    run(connection, &fill).await;
    let messages = format!(
        "INSERT INTO idem_outbox (id, topic, ordering_key, headers, payload, created_at, state, \
         due_at, settled_at) SELECT LEFT(UNHEX(SHA2(i, 256)), 16), 't', \
         CONCAT('order-', i % 5000), '[]', 'x', i, IF(i % 100 = 0, 0, 1), i, i \
         FROM (SELECT {number} AS i FROM {digits} WHERE {number} < {records} / 10) n"
    );
    run(connection, &messages).await;
    run(connection, "ANALYZE TABLE idem_records, idem_outbox").await;
}

/// Each statement with parameters that it has an answer for.
fn cases(all: &Statements) -> Vec<(&'static str, &str, Vec<Value>)> {
    let bytes = |text: &str| Value::from(text.as_bytes());
    let identity = || vec![bytes("acct_7"), bytes("key-7")];
    let as_read = || vec![bytes("acct_0"), bytes("key-1000"), bytes(&"i".repeat(16)), 1.into()];
    let with = |mut first: Vec<Value>, rest: Vec<Value>| {
        first.extend(rest);
        first
    };
    let claim = || {
        let day = 86_400_000_000_i64;
        vec![
            bytes("acct_7"),
            bytes("new"),
            bytes("orders.create"),
            1.into(),
            Value::from([1_u8; 32].as_slice()),
            bytes(&"x".repeat(16)),
            bytes("nonce"),
            day.into(),
            0.into(),
            true.into(),
            30_000_000.into(),
            day.into(),
            bytes("input"),
        ]
    };
    let lease = vec![1.into(), bytes(&"o".repeat(16)), 1.into(), 2.into(), 0.into()];
    let recovery = vec![2.into(), 0.into(), 1.into(), bytes("point")];
    let anything = vec![Value::NULL, Value::NULL, Value::NULL, Value::NULL, 101.into()];
    let from = || vec![bytes("acct_5"), bytes("acct_5"), bytes("key")];
    let long_ago = vec![0.into(), 0.into(), bytes(""), bytes(""), bytes(""), 101.into()];
    let other = |at: i32| {
        vec![bytes("acct_1"), bytes(&format!("key-{at}001")), bytes(&"i".repeat(16)), 1.into()]
    };
    let chunk: Vec<Value> = (0..64).flat_map(other).collect();
    let fence = vec![bytes(&"i".repeat(16)), 1.into(), bytes(&"o".repeat(16))];
    let mut cases = vec![
        ("claim: insert", all.insert.as_str(), with(claim(), vec![bytes("acct_7"), bytes("new")])),
        ("claim in a transaction: insert or lock", &all.insert_or_lock, claim()),
        ("any verb: find", &all.find.all, identity()),
        ("any verb in a transaction: lock", &all.lock.all, identity()),
        ("transaction: hold", &all.hold, with(identity(), fence.clone())),
        ("renew, take over: set lease", &all.set_lease, with(lease, as_read())),
        ("checkpoint: set recovery point", &all.set_recovery, with(recovery, as_read())),
        (
            "complete: set reply",
            &all.set_reply,
            with(vec![1.into(), 2.into(), bytes("reply")], as_read()),
        ),
        ("release: delete", &all.delete, as_read()),
        ("remove", &all.remove, with(identity(), fence)),
        ("sweep: what may go", &all.sweepable, vec![101.into()]),
        ("sweep, forget: lock 64", &all.lock_chunk[0], chunk.clone()),
        ("sweep, forget: delete 64", &all.delete_chunk[0], chunk),
        ("lapsed: sizes", &all.lapsed.sizes, long_ago.clone()),
        ("lapsed: records", &all.lapsed.records, long_ago),
        ("list: sizes", &all.list.sizes, with(from(), anything.clone())),
        ("list: records", &all.list.records, with(from(), anything.clone())),
        (
            "list in a scope: records",
            &all.list_in_scope.records,
            with(vec![bytes("acct_5"), bytes("key")], anything),
        ),
        ("forget: what may go", &all.forgettable, vec![bytes("acct_5"), 101.into()]),
        ("forget: what stays", &all.in_progress, vec![bytes("acct_5")]),
        ("stats", &all.stats, Vec::new()),
        ("push: hold the ordering key", &all.outbox.hold_key, vec![bytes("order-1")]),
        (
            "push: insert",
            &all.outbox.push,
            vec![bytes(&"m".repeat(16)), bytes("t"), bytes("order-1"), bytes("[]"), bytes("x")],
        ),
    ];
    cases.extend(relays(&all.outbox));
    cases
}

/// Those of a relay, and of an operator who looks at messages.
fn relays(all: &OutboxStatements) -> Vec<(&'static str, &str, Vec<Value>)> {
    let id = || Value::from("m".repeat(16).as_bytes());
    let held = || vec![id(), id()];
    let numbers = |count: i64| (1..=count).map(Value::from).collect::<Vec<_>>();
    let now: Value = 1_800_000_000_000_000_i64.into();
    let mut due = vec![now.clone(), now.clone(), false.into(), now.clone(), now.clone(), now];
    due.push(100.into());
    let mut take = vec![id(), 1.into()];
    take.extend(numbers(64));
    vec![
        ("relay, lease: what is due", all.due.as_str(), due),
        ("relay, lease: take 64", &all.take[0], take),
        ("relay, lease: read", &all.taken, vec![1.into(), 100.into(), id()]),
        ("relay, renew", &all.renew, vec![1.into(), id(), id()]),
        ("relay, settle: sent", &all.sent, held()),
        ("relay, settle: failed", &all.failed, vec![1.into(), "why".into(), id(), id()]),
        ("relay: delete what was sent", &all.old, vec![0.into(), 101.into()]),
        ("relay: backlog", &all.backlog, Vec::new()),
        ("list messages", &all.list, vec![0.into(), 0.into(), 101.into()]),
        ("requeue one", &all.requeue[3], vec![id()]),
    ]
}

async fn run(connection: &mut Conn, statement: &str) {
    let ran = connection.query_drop(statement).await;
    ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
}
