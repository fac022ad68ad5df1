//! The server is killed, or paused past its lease, exactly in each window of a charge.

use crate::support::payments::{
    Bench, answer, assert_same, charge, is_replay, retried, send, start, wait_until,
};

/// One window: how often the card network is called in all, and which attempt completes.
struct Window {
    point: &'static str,
    calls: u64,
    attempt: u64,
}

const BEFORE_CALL: Window = Window { point: "before-call", calls: 1, attempt: 2 };
const AFTER_CALL: Window = Window { point: "after-call", calls: 2, attempt: 2 };
/// The recovery point holds what the network said, so the second attempt does not call.
const BEFORE_COMPLETE: Window = Window { point: "before-complete", calls: 1, attempt: 2 };
const AFTER_COMPLETE: Window = Window { point: "after-complete", calls: 1, attempt: 1 };

fn killed_in(window: &Window) {
    let bench = Bench::new();
    let failpoint = format!("{}=kill", window.point);
    let mut doomed = bench.serve(&["--lease", "500ms", "--failpoint", &failpoint]);
    assert!(send(doomed.address, &charge("k", 1999)).is_err(), "it was answered");
    let status = doomed.process.wait();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));

    let server = bench.serve(&["--lease", "500ms"]);
    let recovered = retried(server.address, &charge("k", 1999));
    assert_eq!(recovered.status, 201);
    assert_eq!(is_replay(&recovered), window.attempt == 1);
    assert_eq!(bench.completed_attempt("k"), window.attempt);
    assert_eq!(bench.totals(), (window.calls, 1));
    let keys = bench.downstream_keys();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_same(&recovered, &answer(server.address, &charge("k", 1999)));
}

#[test]
fn killed_before_the_call() {
    killed_in(&BEFORE_CALL);
}

#[test]
fn killed_after_the_call() {
    killed_in(&AFTER_CALL);
}

#[test]
fn killed_before_complete() {
    killed_in(&BEFORE_COMPLETE);
}

#[test]
fn killed_after_complete() {
    killed_in(&AFTER_COMPLETE);
}

/// The holder is stopped, another server takes over, the holder goes on. `calls` counts what it
/// still does when it wakes.
fn paused_in(window: &Window, calls: u64, refused: Option<&str>) {
    let bench = Bench::new();
    let file = bench.path("reached");
    let failpoint = format!("{}=wait:{}:once", window.point, file.display());
    let mut old = bench.serve(&["--lease", "2s", "--failpoint", &failpoint]);
    let new = bench.serve(&["--lease", "2s"]);
    let first = start(old.address, &charge("k", 1999));
    wait_until("the window is reached", || file.exists());
    bench.pause_between_writes(&old);
    std::fs::remove_file(&file).unwrap();

    let recovered = retried(new.address, &charge("k", 1999));
    assert_eq!(recovered.status, 201);
    assert_eq!(bench.completed_attempt("k"), window.attempt);
    let completed = bench.inspect("k").unwrap();
    old.process.signal("CONT");
    let late = first.wait().unwrap();
    assert_same(&recovered, &late);
    assert_eq!(is_replay(&late), window.attempt == 2);
    if let Some(refused) = refused {
        old.process.wait_for_stderr(refused);
    }
    assert_eq!(bench.totals(), (calls, 1));
    let keys = bench.downstream_keys();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    let now = bench.inspect("k").unwrap();
    for member in ["attempt", "owner", "completed_at", "reply"] {
        assert_eq!(now[member], completed[member], "{member}");
    }
    assert_same(&recovered, &answer(old.address, &charge("k", 1999)));
}

#[test]
fn a_server_that_stops_itself_goes_on_when_it_is_told_to() {
    let bench = Bench::new();
    let mut server = bench.serve(&["--failpoint", "before-call=stop:once"]);
    let first = start(server.address, &charge("k", 1999));
    server.process.wait_for_stderr("failpoint before-call: stop");
    wait_until("it is stopped", || server.process.is_stopped());
    server.process.signal("CONT");
    let first = first.wait().unwrap();
    assert_eq!(first.status, 201);
    assert_same(&first, &answer(server.address, &charge("k", 1999)));
    assert_eq!(answer(server.address, &charge("once", 1999)).status, 201);
}

const POINT_REFUSED: &str = "the store refused a recovery point of attempt 1";
const REPLY_REFUSED: &str = "the store refused a reply of attempt 1";

#[test]
fn paused_before_the_call() {
    // No lock can stop a process that wakes inside a call; the downstream key collapses the two.
    paused_in(&BEFORE_CALL, 2, Some(POINT_REFUSED));
}

#[test]
fn paused_after_the_call() {
    paused_in(&AFTER_CALL, 2, Some(POINT_REFUSED));
}

#[test]
fn paused_before_complete() {
    paused_in(&BEFORE_COMPLETE, 1, Some(REPLY_REFUSED));
}

#[test]
fn paused_after_complete() {
    paused_in(&AFTER_COMPLETE, 1, None);
}

#[test]
fn a_failpoint_that_makes_no_sense_is_wrong_use() {
    let bench = Bench::new();
    for failpoint in ["after-call", "later=kill", "after-call=explode"] {
        let mut process = bench.spawn(&["--failpoint", failpoint]);
        assert_eq!(process.wait().code(), Some(2), "{failpoint}");
    }
}
