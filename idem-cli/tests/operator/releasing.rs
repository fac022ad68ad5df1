//! `idem release` and `idem forget`.

use serde_json::json;

use crate::command::scope;
use crate::support::payments::{Bench, answer, charge, is_replay, start};

#[test]
fn a_release_says_what_it_may_repeat_and_needs_a_yes() {
    let bench = Bench::new();
    bench.strand("k", "before-complete");
    let asked = bench.on_record("release", "k", &[]);
    assert_eq!(asked.code, 2);
    assert!(asked.out.contains("charge: done"), "{}", asked.out);
    assert!(asked.out.contains("the same keys again"), "{}", asked.out);
    assert!(asked.err.contains("--yes"), "{}", asked.err);
    assert_eq!(bench.on_record("inspect", "k", &["--json"]).json()["attempt"], 1);

    let done = bench.on_record("release", "k", &["--yes", "--json"]);
    assert_eq!((done.code, &done.json()["released"]), (0, &json!(true)), "{}", done.err);
    assert_eq!(bench.on_record("inspect", "k", &[]).code, 1);
    assert_eq!(bench.on_record("release", "k", &["--yes"]).code, 1);

    let server = bench.serve(&[]);
    let rerun = answer(server.address, &charge("k", 1999));
    assert_eq!((rerun.status, is_replay(&rerun)), (201, false));
    assert_eq!(bench.totals(), (2, 1), "the network collapsed the repeat");
    let completed = bench.on_record("release", "k", &["--yes"]);
    assert_eq!(completed.code, 1);
    assert!(completed.err.contains("completed"), "{}", completed.err);
}

#[test]
fn what_runs_is_not_released() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    bench.control(json!({ "hold": true }));
    let running = start(server.address, &charge("k", 1999));
    bench.wait_for_held(1);
    let refused = bench.on_record("release", "k", &["--yes"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("it is running"), "{}", refused.err);
    bench.control(json!({ "hold": false }));
    assert_eq!(running.wait().unwrap().status, 201);
}

#[test]
fn a_scope_is_forgotten_but_for_what_is_in_progress() {
    let bench = Bench::new();
    bench.strand("stuck", "after-call");
    let server = bench.serve(&[]);
    for key in ["a", "b", "c"] {
        assert_eq!(answer(server.address, &charge(key, 1999)).status, 201);
    }
    let scope = scope();
    let asked = bench.operate("forget", &["--scope", &scope]);
    assert_eq!(asked.code, 2);
    assert!(is_replay(&answer(server.address, &charge("a", 1999))));

    let other = bench.operate("forget", &["--scope", "someone else", "--yes"]);
    assert_eq!((other.code, other.out.as_str()), (1, ""), "it may be mistyped");
    assert!(other.err.contains("there is no record of this scope"), "{}", other.err);
    let done = bench.operate("forget", &["--scope", &scope, "--yes", "--json"]);
    assert_eq!((done.code, done.json()), (1, json!({ "deleted": 3, "in_progress": 1 })));
    assert!(!is_replay(&answer(server.address, &charge("a", 1999))));
    assert_eq!(bench.on_record("inspect", "stuck", &[]).code, 0);
}
