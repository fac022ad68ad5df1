//! The loops of a server: what a dead one left behind is resumed with no client, and the health
//! page tells how they are.

use serde_json::{Value, json};

use crate::support::payments::{
    Bench, answer, assert_same, charge, is_replay, send, start, wait_until,
};
use crate::support::process::Server;
use idem_cli::wire::Request;

const OFTEN: [&str; 2] = ["--reconcile-every", "50ms"];

fn health(server: &Server) -> Value {
    let page = answer(server.address, &Request::get("/healthz"));
    assert_eq!(page.status, 200);
    page.json()
}

#[test]
fn a_charge_of_a_dead_server_is_resumed_with_no_client() {
    for (point, calls) in [("before-call", 1), ("after-call", 2), ("before-complete", 1)] {
        let bench = Bench::new();
        let failpoint = format!("{point}=kill");
        let mut doomed = bench.serve(&["--lease", "300ms", "--failpoint", &failpoint]);
        assert!(send(doomed.address, &charge("k", 1999)).is_err(), "it was answered");
        doomed.process.wait();

        // Two of them, as in a service of several processes.
        let servers = [bench.serve(&OFTEN), bench.serve(&OFTEN)];
        wait_until("it is resumed", || {
            bench.inspect("k").is_some_and(|record| record["state"] == "completed")
        });
        assert_eq!(bench.completed_attempt("k"), 2, "{point}");
        assert_eq!(bench.totals(), (calls, 1), "{point}");
        let late = answer(servers[0].address, &charge("k", 1999));
        assert_eq!((late.status, is_replay(&late)), (201, true));
        assert_same(&late, &answer(servers[1].address, &charge("k", 1999)));
        wait_until("one of them says so", || {
            servers.iter().any(|server| health(server)["loops"]["reconciler"]["work"] == 1)
        });
    }
}

#[test]
fn the_first_look_does_not_wait_for_the_interval() {
    let bench = Bench::new();
    let mut doomed = bench.serve(&["--lease", "300ms", "--failpoint", "after-call=kill"]);
    assert!(send(doomed.address, &charge("k", 1999)).is_err(), "it was answered");
    doomed.process.wait();
    wait_until("its lease is over", || bench.inspect("k").unwrap()["state"] == "resumable");
    let server = bench.serve(&["--reconcile-every", "1d"]);
    wait_until("it is resumed", || bench.inspect("k").unwrap()["state"] == "completed");
    wait_until("what it did is told", || health(&server)["loops"]["reconciler"]["work"] == 1);
}

#[test]
fn what_waits_for_a_person_shows_on_the_health_page_until_it_is_settled() {
    let bench = Bench::new();
    let mut doomed = bench.serve(&["--lease", "300ms", "--failpoint", "after-call=kill"]);
    assert!(send(doomed.address, &charge("k", 1999)).is_err(), "it was answered");
    doomed.process.wait();
    let mut server = bench.serve(&[&OFTEN[..], &["--attempts", "1"]].concat());
    let held = |server: &Server| health(server)["loops"]["reconciler"]["counts"]["held"].clone();
    wait_until("it is counted", || held(&server) == 1);
    let page = health(&server);
    assert_eq!(page["status"], "ok", "another server could not help it");
    assert_eq!(
        (&page["records"]["held"], &page["records"]["not_resumable"]),
        (&json!(1), &json!(0))
    );
    wait_until("the meter counts it too", || health(&server)["records"]["stuck"] == 1);
    server.process.wait_for_stderr("a record waits for a person");
    assert_eq!(bench.totals(), (1, 1), "it is not called again");

    // Also where the next look is far away.
    let patient = bench.serve(&["--reconcile-every", "1d", "--attempts", "1"]);
    wait_until("it is told after the first", || health(&patient)["records"]["held"] == 1);

    let store = bench.store();
    let scope = bench.inspect("k").unwrap()["scope"].as_str().unwrap().to_owned();
    let args = ["settle", "--store", &store, "--scope", &scope, "--key", "k", "--status", "204"];
    let mut settle = crate::support::process::Process::idem(args);
    assert_eq!(settle.wait().code(), Some(0));
    wait_until("it is no longer counted", || held(&server) == 0);
}

#[test]
fn a_draining_server_says_so_and_resumes_nothing_new() {
    let bench = Bench::new();
    let mut doomed = bench.serve(&["--lease", "300ms", "--failpoint", "after-call=kill"]);
    assert!(send(doomed.address, &charge("stuck", 1999)).is_err(), "it was answered");
    doomed.process.wait();
    bench.control(json!({ "hold": true }));
    let mut server = bench.serve(&["--reconcile-every", "never"]);
    let running = start(server.address, &charge("k", 1999));
    bench.wait_for_held(1);
    server.process.signal("TERM");
    bench.control(json!({ "hold": false }));
    assert_eq!(running.wait().unwrap().status, 201);
    assert_eq!(server.process.wait().code(), Some(0));
    assert_eq!(bench.inspect("stuck").unwrap()["attempt"], 1);
}
