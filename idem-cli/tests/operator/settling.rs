//! `idem settle`: a stuck record is found, understood and settled, and its client gets the reply.

use serde_json::json;

use crate::command::{idem, scope};
use crate::support::payments::{
    Bench, answer, charge, is_replay, problem, retried, start, wait_until,
};

const SETTLE: [&str; 6] = [
    "--status",
    "201",
    "--header",
    "Content-Type: application/json",
    "--body",
    r#"{"id":"ch_by_hand"}"#,
];

#[test]
fn a_stuck_record_is_found_understood_and_settled() {
    let bench = Bench::new();
    bench.strand("k", "after-call");
    let server = bench.serve_holding();
    let told = answer(server.address, &charge("k", 1999));
    assert_eq!((told.status, problem(&told).as_str()), (409, "outcome-held"));

    let found = bench.operate("stuck", &["--json", "--held", "--cap", "1"]);
    assert_eq!(found.code, 1);
    let record = &found.json()["records"][0];
    assert_eq!((&record["state"], &record["key"]), (&json!("held"), &json!("k")));
    assert_eq!(record["why"], "1 of 1 attempts are used");
    let understood = bench.on_record("inspect", "k", &["--json"]).json();
    assert_eq!(understood["state"], "resumable", "without --cap nobody can know better");
    assert_eq!(understood["recovery_point"], 1);

    let settled = bench.on_record("settle", "k", &SETTLE);
    assert_eq!(settled.code, 0, "{}", settled.err);
    assert!(settled.out.starts_with("settled at attempt 2; the reply is kept for 23h"));
    let replay = answer(server.address, &charge("k", 1999));
    assert_eq!((replay.status, is_replay(&replay)), (201, true));
    assert_eq!(replay.body, br#"{"id":"ch_by_hand"}"#);
    assert_eq!(replay.text("content-type").as_deref(), Some("application/json"));
    assert_eq!(answer(server.address, &charge("k", 7)).status, 422, "still the same request");
    assert_eq!(bench.totals(), (1, 1), "settling calls nobody");
    assert_eq!(bench.operate("stuck", &[]).code, 0);

    let again = bench.on_record("settle", "k", &[&SETTLE[..], &["--json"]].concat());
    assert_eq!((again.code, &again.json()["already"]), (0, &json!(true)));
    let other = bench.on_record("settle", "k", &["--status", "204"]);
    assert_eq!(other.code, 1);
    assert!(other.err.contains("it is completed"), "{}", other.err);
}

#[test]
fn a_holder_that_was_only_paused_changes_nothing_when_it_wakes_up() {
    let bench = Bench::new();
    let holder = bench.serve(&["--lease", "400ms"]);
    bench.control(json!({ "hold": true }));
    let running = start(holder.address, &charge("k", 1999));
    bench.wait_for_held(1);
    let early = bench.on_record("settle", "k", &SETTLE);
    assert_eq!(early.code, 1);
    assert!(early.err.contains("it is running"), "{}", early.err);

    bench.pause_between_writes(&holder);
    wait_until("its lease is over", || {
        bench.on_record("inspect", "k", &["--json"]).json()["state"] == "resumable"
    });
    assert_eq!(bench.on_record("settle", "k", &SETTLE).code, 0);
    holder.process.signal("CONT");
    bench.control(json!({ "hold": false }));
    let late = running.wait().unwrap();
    assert_eq!((late.status, &late.body[..]), (201, &br#"{"id":"ch_by_hand"}"#[..]));
    let replay = retried(holder.address, &charge("k", 1999));
    assert_eq!(replay.body, br#"{"id":"ch_by_hand"}"#);
}

#[test]
fn a_key_and_a_body_need_not_stand_on_the_command_line() {
    let bench = Bench::new();
    bench.strand("k", "after-call");
    let (store, scope) = (bench.store(), scope());
    let key_file = bench.path("key");
    std::fs::write(&key_file, "k\n").unwrap();
    let fixed = ["settle", "--store", &store, "--scope", &scope, "--status", "402"];
    let with = |more: &[&str], input: &[u8]| idem(&[&fixed[..], more].concat(), input);
    let kind = ["--header", "content-type: text/plain"];

    let both = with(&["--key-file", "-", "--body-file", "-", kind[0], kind[1]], b"k");
    assert_eq!(both.code, 2);
    let file = key_file.to_str().unwrap();
    let typeless = with(&["--key-file", file, "--body-file", "-"], b"no");
    assert_eq!(typeless.code, 2);
    assert!(typeless.err.contains("content-type"), "{}", typeless.err);
    let done = with(&["--key-file", file, "--body-file", "-", kind[0], kind[1]], b"declined\n");
    assert_eq!(done.code, 0, "{}", done.err);

    let server = bench.serve(&[]);
    let replay = answer(server.address, &charge("k", 1999));
    assert_eq!((replay.status, &replay.body[..]), (402, &b"declined\n"[..]));
}

#[test]
fn what_would_not_last_or_has_changed_is_refused() {
    let bench = Bench::new();
    bench.strand("k", "after-call");
    let stale = bench.on_record("settle", "k", &["--status", "204", "--at-attempt", "2"]);
    assert_eq!(stale.code, 1);
    assert!(stale.err.contains("attempt 1"), "{}", stale.err);
    assert_eq!(bench.on_record("settle", "other", &["--status", "204"]).code, 1);
    for wrong in [
        &["--status", "100"][..],
        &["--status", "204", "--body", "x", "--header", "content-type: a/b"],
        &["--status", "200", "--header", "connection: close"],
        &["--status", "200", "--header", "no colon"],
    ] {
        assert_eq!(bench.on_record("settle", "k", wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(bench.on_record("inspect", "k", &["--json"]).json()["attempt"], 1);
}

#[test]
fn a_record_older_than_its_retention_is_held_and_what_it_is_settled_with_is_kept_a_while() {
    let bench = Bench::new();
    let args = ["--lease", "100ms", "--retention", "5s", "--failpoint", "after-call=kill"];
    let mut doomed = bench.serve(&args);
    assert!(start(doomed.address, &charge("k", 1999)).wait().is_err());
    doomed.process.wait();
    wait_until("it is older than its retention", || {
        bench.on_record("inspect", "k", &["--json"]).json()["state"] == "held"
    });
    let why = bench.on_record("inspect", "k", &["--json"]).json()["why"].clone();
    assert_eq!(why, "it is older than 5.000s");
    let settled = bench.on_record("settle", "k", &["--status", "204", "--json"]);
    assert_eq!(settled.code, 0, "{}", settled.err);
    let kept = settled.json()["kept_ms"].as_u64().unwrap();
    assert!(kept <= 5_000, "{kept}");
}
