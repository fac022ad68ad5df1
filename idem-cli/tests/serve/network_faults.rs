//! A card network that does not say what it did. The same downstream key makes the next attempt
//! safe, whatever the first one came to.

use serde_json::json;

use crate::support::payments::{
    Bench, TOKEN, answer, charge, is_replay, problem, retried, start, wait_until,
};
use crate::support::process::{Process, Server};

/// The first attempt ends with an unknown outcome, a retry after the lease with a charge.
fn recovers(network: &[&str], serve: &[&str], expected: (u64, u64)) {
    let bench = Bench::with_network(network);
    let args = ["--lease", "300ms"].iter().chain(serve).copied();
    let server = bench.serve(&args.collect::<Vec<_>>());
    let unknown = answer(server.address, &charge("k", 1999));
    assert_eq!((unknown.status, problem(&unknown).as_str()), (409, "outcome-unknown"));
    assert_eq!(unknown.text("retry-after"), None);
    bench.control(json!({ "delay_ms": 0 }));
    let charged = retried(server.address, &charge("k", 1999));
    assert_eq!(charged.status, 201);
    assert!(!is_replay(&charged));
    assert_eq!(bench.completed_attempt("k"), 2);
    let keys = bench.downstream_keys();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!(bench.totals(), expected);
    assert!(is_replay(&answer(server.address, &charge("k", 1999))));
}

#[test]
fn it_acted_and_hung_up() {
    recovers(&["--drop-answers", "1"], &[], (2, 1));
}

#[test]
fn it_failed_without_acting() {
    recovers(&["--fail", "1"], &[], (2, 1));
}

#[test]
fn it_was_too_slow_and_acted_later() {
    recovers(&["--delay", "1s"], &["--network-timeout", "200ms"], (2, 1));
}

#[test]
fn it_was_down_and_came_back() {
    let mut bench = Bench::new();
    let server = bench.serve(&["--lease", "300ms"]);
    let listen = bench.network.address.to_string();
    bench.network.process.kill();
    let refused = answer(server.address, &charge("k", 1999));
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "network-unavailable"));
    assert_eq!(refused.text("retry-after").as_deref(), Some("1"));
    assert_eq!(bench.inspect("k"), None, "nothing was sent, so it costs no key");

    come_back(&mut bench, &listen);
    // Nothing has to be waited for, and another request may use the key.
    assert_eq!(answer(server.address, &charge("k", 2999)).status, 201);
    assert_eq!(bench.totals(), (1, 1));
    assert_eq!(bench.completed_attempt("k"), 1);
}

#[test]
fn it_went_down_once_the_charge_had_begun() {
    let mut bench = Bench::new();
    let file = bench.path("reached");
    let failpoint = format!("before-call=wait:{}", file.display());
    let server = bench.serve(&["--lease", "300ms", "--failpoint", &failpoint]);
    let listen = bench.network.address.to_string();
    let begun = start(server.address, &charge("k", 1999));
    wait_until("it is about to call", || file.exists());
    bench.network.process.kill();
    std::fs::remove_file(&file).unwrap();
    // Its record says that something may have been sent: a retry goes on under the same key.
    let unknown = begun.wait().unwrap();
    assert_eq!((unknown.status, problem(&unknown).as_str()), (409, "outcome-unknown"));
    // The second attempt is not rejected: that would be stored as the answer to the first.
    let server = bench.serve(&["--lease", "300ms"]);
    let again = retried(server.address, &charge("k", 1999));
    assert_eq!((again.status, problem(&again).as_str()), (409, "outcome-unknown"));

    come_back(&mut bench, &listen);
    assert_eq!(retried(server.address, &charge("k", 1999)).status, 201);
    assert_eq!(bench.totals(), (1, 1));
    assert_eq!(bench.completed_attempt("k"), 3);
}

/// The same card network, at the same address.
fn come_back(bench: &mut Bench, listen: &str) {
    let ledger = bench.path("ledger.jsonl");
    let args = ["network", "--listen", listen, "--ledger", ledger.to_str().unwrap()];
    bench.network = Server::listening(Process::idem(args));
}

#[test]
fn reading_the_ledger_needs_the_network() {
    let mut bench = Bench::new();
    let server = bench.serve(&[]);
    bench.network.process.kill();
    let request = idem_cli::wire::Request::get("/v1/charges")
        .header("authorization", format!("Bearer {TOKEN}"));
    let refused = answer(server.address, &request);
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "network-unavailable"));
}
