//! The commands on a server: the same, by its URL.

use std::time::Duration;

use idem_core::engine::{Call, Engine, Failure, RunError};
use idem_core::fingerprint::Fingerprint;
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::operation::Operation;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::{AssertSqlSafe, Connection as _, PgConnection, query};
use serde_json::json;

use crate::command::{Said, idem};
use crate::support::payments::{RUNTIME, wait_until};

async fn fresh_database() -> String {
    let server = std::env::var("IDEM_POSTGRES_URL")
        .expect("set IDEM_POSTGRES_URL: this test needs a server; `scripts/test cli` starts one");
    let mut connection = PgConnection::connect(&server).await.unwrap();
    let name = format!("idem_operator_{:016x}", getrandom::u64().unwrap());
    let create = AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0"));
    query(create).execute(&mut connection).await.unwrap();
    let (base, _) = server.rsplit_once('/').expect("the URL names a database");
    format!("{base}/{name}")
}

/// Runs the operation once; `dies` leaves its outcome unknown.
async fn order(url: &str, key: &str, dies: bool) -> Result<String, RunError> {
    let store = PostgresStore::builder().connect(url).await.unwrap();
    let engine = Engine::builder(store).namespace("test").unwrap().build().unwrap();
    // Only what is to lapse has a short one: on a busy machine it may be over before the reply is
    // stored.
    let lease = Duration::from_millis(if dies { 200 } else { 30_000 });
    let operation = Operation::builder("order").lease(lease).attempts(1).resumable();
    let operation = operation.build().unwrap();
    let call =
        Call::new(Scope::new("a").unwrap(), Key::new(key).unwrap(), Fingerprint::of_bytes(key));
    let outcome = engine
        .run(&operation, call.with_input(Input::new("7")), move |execution| async move {
            let charge: String = execution
                .step("charge", async |_| Ok::<_, std::io::Error>("ch_1".to_owned()))
                .await?;
            if dies { Err(Failure::unknown("killed")) } else { Ok(charge) }
        })
        .await?;
    Ok(String::from_utf8(outcome.reply.body().unwrap().to_vec()).unwrap())
}

#[test]
fn a_stuck_record_is_settled_and_another_released_on_postgres() {
    let url = RUNTIME.block_on(fresh_database());
    let run = |command: &str, more: &[&str]| -> Said {
        let args: Vec<&str> = [command, "--store", &url].iter().chain(more).copied().collect();
        idem(&args, b"")
    };
    assert_eq!(run("stats", &[]).code, 3, "its tables are not there yet");
    assert_eq!(run("migrate", &[]).code, 0);
    for key in ["k", "l"] {
        let error = RUNTIME.block_on(order(&url, key, true)).unwrap_err();
        assert!(matches!(error, RunError::Unknown), "{error}");
    }
    let stuck = || run("stuck", &["--json", "--held", "--cap", "1"]);
    wait_until("both are lapsed", || stuck().json()["records"].as_array().unwrap().len() == 2);
    assert_eq!(stuck().code, 1);
    let record = ["--scope", "a", "--key", "k"];
    let seen = run("inspect", &[&record[..], &["--json"]].concat()).json();
    assert_eq!((&seen["steps"][0]["name"], &seen["attempt"]), (&json!("charge"), &json!(1)));

    let body = ["--status", "200", "--header", "content-type: text/plain", "--body", "by hand"];
    let settled = run("settle", &[&record[..], &body].concat());
    assert_eq!(settled.code, 0, "{}", settled.err);
    assert_eq!(RUNTIME.block_on(order(&url, "k", false)).unwrap(), "by hand");

    let other = ["--scope", "a", "--key", "l"];
    assert!(run("release", &other).out.contains("charge: done"));
    assert_eq!(run("release", &[&other[..], &["--yes"]].concat()).code, 0);
    assert_eq!(RUNTIME.block_on(order(&url, "l", false)).unwrap(), "ch_1");

    let left = stuck();
    assert_eq!(left.code, 0, "{}{}", left.out, left.err);
    let page = run("list", &["--json", "--limit", "1"]).json();
    let next = page["next"].as_str().unwrap();
    let rest = run("list", &["--json", "--after", next]).json();
    assert_eq!(rest["records"][0]["key"], "l");
    assert_eq!(run("outbox", &[]).code, 2);
    let backlog = idem(&["outbox", "stats", "--json", "--store", &url], b"");
    assert_eq!((backlog.code, &backlog.json()["waiting"]), (0, &json!(0)));
    assert_eq!(run("forget", &["--scope", "a", "--yes"]).out, "2 deleted\n");
}
