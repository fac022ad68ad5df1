//! SIGTERM: what is running is finished, with heartbeats, and nothing new is taken.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::support::payments::{Bench, answer, charge, is_replay, start, wait_until};

#[test]
fn a_running_charge_is_finished_and_answered() {
    let bench = Bench::new();
    let mut server = bench.serve(&["--lease", "400ms"]);
    let other = bench.serve(&["--lease", "400ms"]);
    bench.control(json!({ "hold": true }));
    let running = start(server.address, &charge("k", 1999));
    bench.wait_for_held(1);
    server.process.signal("TERM");
    wait_until("it no longer accepts connections", || TcpStream::connect(server.address).is_err());
    // Several leases long: without heartbeats the other server would take over.
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(answer(other.address, &charge("k", 1999)).status, 409);
    bench.control(json!({ "hold": false }));
    let answered = running.wait().unwrap();
    assert_eq!(answered.status, 201);
    assert!(!is_replay(&answered));
    assert_eq!(server.process.wait().code(), Some(0));
    assert_eq!(bench.completed_attempt("k"), 1);
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn what_does_not_finish_within_the_limit_is_left_to_another_server() {
    let bench = Bench::new();
    let mut server = bench.serve(&["--lease", "500ms", "--drain", "300ms"]);
    bench.control(json!({ "hold": true }));
    let running = start(server.address, &charge("k", 1999));
    bench.wait_for_held(1);
    server.process.signal("TERM");
    assert_eq!(server.process.wait().code(), Some(5), "it says that a charge was not finished");
    assert!(running.wait().is_err());
    bench.control(json!({ "hold": false }));
    let other = bench.serve(&["--reconcile-every", "50ms"]);
    wait_until("it is resumed", || {
        bench.inspect("k").is_some_and(|record| record["state"] == "completed")
    });
    assert!(is_replay(&answer(other.address, &charge("k", 1999))));
    assert_eq!(bench.totals(), (2, 1));
}

#[test]
fn an_idle_server_ends_at_once() {
    let bench = Bench::new();
    for signal in ["TERM", "INT"] {
        let mut server = bench.serve(&[]);
        server.process.signal(signal);
        assert_eq!(server.process.wait().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_server_that_is_told_to_ends_with_its_parent() {
    let bench = Bench::new();
    let mut server = bench.serve(&["--end-with-stdin"]);
    server.process.close_stdin();
    assert_eq!(server.process.wait().code(), Some(0));
}
