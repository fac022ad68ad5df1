//! Each statement compares the name that it is sent with its own before it writes or locks: a proxy
//! that runs another statement than the one that was prepared must change nothing.

use sqlx::{AssertSqlSafe, PgConnection};

use crate::plans::{on_full_tables, run, statements};
use crate::sql::{Statements, Tables};

#[test]
fn a_statement_under_another_name_writes_and_locks_nothing() {
    on_full_tables(2_000, async |connection| {
        let tables = Tables::new("public", "idem").unwrap();
        let mut writing = 0;
        for (name, statement, arguments) in statements(&Statements::new(&tables)) {
            run(connection, &format!("PREPARE {name} AS {}", statement.as_str())).await;
            let (_, rest) = arguments.split_once('\'').unwrap();
            let (own_name, rest) = rest.split_once('\'').unwrap();
            for other in ["claim", "renew", "complete", "sweep", "get", ""] {
                let arguments = format!("'{other}'{rest}");
                let writes = writes(connection, name, &arguments).await;
                assert!(!writes || other == own_name, "{name}, sent as '{other}', writes");
            }
            writing += usize::from(writes(connection, name, &arguments).await);
        }
        // So it would be seen: two claims, seven verbs under a fence, sweep, forget, push.
        assert!(writing >= 11, "only {writing} statements write at all");
    });
}

/// Whether a statement writes or locks: only then does its transaction take a number.
async fn writes(connection: &mut PgConnection, name: &str, arguments: &str) -> bool {
    run(connection, &format!("BEGIN; EXECUTE {name} ({arguments})")).await;
    let number = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL";
    let query = sqlx::query_scalar(AssertSqlSafe(number)).persistent(false);
    let has_number: bool = query.fetch_one(&mut *connection).await.unwrap();
    run(connection, "ROLLBACK").await;
    has_number
}
