//! `idem outbox`: dead letters are found, put back and thrown away.

use std::time::Duration;

use idem_core::outbox::{LeaseMessages, MessageId, OutboxMessage, Settlement};
use idem_core::transactional::TransactionalStore as _;
use idem_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::support::payments::{Bench, RUNTIME};

/// Three messages; the first two were given up.
fn outbox(bench: &Bench) -> Vec<String> {
    RUNTIME.block_on(async {
        let store = SqliteStore::builder().connect(&bench.store()).await.unwrap();
        let mut open = store.begin().await.unwrap();
        let mut ids = Vec::new();
        for order in ["a", "b", "c"] {
            let message = OutboxMessage::new("order.created", "hunter2").unwrap();
            let message = message.ordered_by(format!("order\u{1b}-{order}")).unwrap();
            ids.push(message.id());
            store.push_in(&mut open, &message).await.unwrap();
        }
        store.commit(open).await.unwrap();
        let outbox = store.outbox();
        let leased = outbox.lease(&LeaseMessages::new(Duration::from_secs(5), 2)).await.unwrap();
        let leases = leased.messages.iter().map(|leased| leased.lease);
        let dead: Vec<_> = leases.map(|lease| Settlement::dead(lease, "410 gone")).collect();
        outbox.settle(&dead).await.unwrap();
        ids.iter().map(MessageId::to_string).collect()
    })
}

fn ids(listed: &Value) -> Vec<&str> {
    let messages = listed["messages"].as_array().unwrap().iter();
    messages.map(|message| message["id"].as_str().unwrap()).collect()
}

#[test]
fn dead_letters_are_listed_put_back_and_thrown_away() {
    let bench = Bench::new();
    let made = outbox(&bench);
    let run = |command: &str, more: &[&str]| {
        let store = bench.store();
        let args: Vec<&str> =
            ["outbox", command, "--store", &store].iter().chain(more).copied().collect();
        crate::command::idem(&args, b"")
    };
    let stats = run("stats", &["--json"]);
    assert_eq!((stats.code, &stats.json()["dead"]), (1, &json!(2)));
    assert_eq!(stats.json()["waiting"], 1);
    let dead = run("dead", &["--json"]).json();
    assert_eq!(ids(&dead), [&made[0], &made[1]]);
    assert_eq!(dead["messages"][0]["reason"], "410 gone");
    let page = run("dead", &["--json", "--limit", "1"]).json();
    let next = page["next"].as_str().unwrap();
    assert_eq!(ids(&run("dead", &["--json", "--after", next]).json()), [&made[1]]);
    let table = run("list", &["--state", "dead"]).out;
    assert!(table.contains("order\\x1b-a") && table.contains("410 gone"), "{table}");
    assert!(!table.contains("hunter2"), "{table}");

    let back = run("requeue", &[&made[0]]);
    assert_eq!((back.code, back.out.as_str()), (0, "1 requeued\n"));
    let again = run("requeue", &["--json", &made[0], &made[2]]);
    assert_eq!((again.code, again.json()), (1, json!({ "requeued": 0, "not_dead": 2 })));
    assert_eq!(ids(&run("list", &["--json"]).json()), [&made[0], &made[2]]);

    for refused in [&["--all"][..], &[], &["no-id"], &["--all", "--yes", &made[1]]] {
        assert_eq!(run("discard", refused).code, 2, "{refused:?}");
    }
    assert_eq!(run("discard", &["--all", "--yes"]).out, "1 discarded\n");
    assert_eq!(run("stats", &[]).code, 0);
}
