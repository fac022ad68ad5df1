//! A network that does what it is told to do wrong, and counts all the same.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::http;
use crate::{Bench, charge, charged, control, key, send_charge, totals, wait_for_control};

#[test]
fn a_dropped_answer_is_no_answer_at_all_and_the_effect_stands() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let address = network.address;
    assert_eq!(control(address, json!({ "drop_answers": 2 })).status, 200);
    assert!(charge(address, &key(1), 500).is_none());
    assert!(charge(address, &key(1), 500).is_none());
    assert_eq!(totals(address), (2, 1, 0));
    let id = charged(address, &key(1), 500);
    assert_eq!(http::get(address, "/ledger")["data"][0]["id"], id);
    assert_eq!(totals(address), (3, 1, 0));
}

#[test]
fn a_decline_is_remembered_under_its_key_across_a_restart() {
    let bench = Bench::new();
    let mut network = bench.start(&["--refuse", "1"]);
    let decline = |address| {
        let reply = charge(address, &key(1), 500).unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (402, "card_declined"));
        reply.body
    };
    let first = decline(network.address);
    assert_eq!(decline(network.address), first);
    charged(network.address, &key(2), 500);
    assert_eq!(totals(network.address), (3, 1, 1));

    network.process.kill();
    let network = bench.start(&[]);
    assert_eq!(decline(network.address), first);
    assert_eq!(totals(network.address), (4, 1, 1));
}

#[test]
fn a_key_that_was_charged_is_not_declined_later() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let id = charged(network.address, &key(1), 500);
    control(network.address, json!({ "refuse": 1 }));
    assert_eq!(charged(network.address, &key(1), 500), id);
    assert_eq!(charge(network.address, &key(2), 500).unwrap().status, 402);
}

#[test]
fn a_failure_is_a_call_without_an_effect() {
    let bench = Bench::new();
    let network = bench.start(&["--fail", "1"]);
    let reply = charge(network.address, &key(1), 500).unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (500, "failed"));
    assert_eq!(totals(network.address), (1, 0, 0));
    charged(network.address, &key(1), 500);
    assert_eq!(totals(network.address), (2, 1, 0));
}

#[test]
fn a_delay_comes_after_counting_and_before_acting() {
    let bench = Bench::new();
    let network = bench.start(&["--delay", "300ms"]);
    let started = Instant::now();
    charged(network.address, &key(1), 500);
    assert!(started.elapsed() >= Duration::from_millis(300));

    control(network.address, json!({ "delay_ms": 600_000 }));
    let pending = send_charge(network.address, &key(2), "shop", 500);
    wait_for_control(network.address, "delayed", 1);
    assert_eq!(totals(network.address), (2, 1, 0));
    drop(pending);
}

#[test]
fn a_call_is_carried_out_although_its_caller_is_gone() {
    let bench = Bench::new();
    let mut network = bench.start(&["--delay", "10m"]);
    let pending = send_charge(network.address, &key(1), "shop", 500);
    wait_for_control(network.address, "delayed", 1);
    drop(pending);
    // The end of the network ends the delay, and a clean end waits for the call.
    network.process.signal("TERM");
    assert!(network.process.wait().success());
    assert_eq!(totals(bench.start(&[]).address), (1, 1, 0));
}

#[test]
fn held_answers_stand_in_the_ledger_and_come_when_they_are_let_go() {
    let bench = Bench::new();
    let network = bench.start(&["--hold"]);
    let address = network.address;
    let first = send_charge(address, &key(1), "shop", 500);
    let second = send_charge(address, &key(2), "shop", 500);
    wait_for_control(address, "held", 2);
    assert_eq!(totals(address), (2, 2, 0));
    drop(second);
    wait_for_control(address, "held", 1);
    let state = control(address, json!({ "hold": false })).json();
    assert_eq!(state["hold"], false);
    assert_eq!(first.reply().unwrap().status, 200);
    wait_for_control(address, "held", 0);
}

#[test]
fn a_held_answer_is_given_before_a_clean_end() {
    for signal in ["TERM", "INT"] {
        let bench = Bench::new();
        let mut network = bench.start(&["--hold"]);
        let pending = send_charge(network.address, &key(1), "shop", 500);
        wait_for_control(network.address, "held", 1);
        network.process.signal(signal);
        assert_eq!(pending.reply().unwrap().status, 200);
        assert_eq!(network.process.wait().code(), Some(0));
    }
}

#[test]
fn the_control_shows_what_is_left_and_refuses_what_it_does_not_know() {
    let bench = Bench::new();
    let flags = ["--delay", "1ms", "--drop-answers", "1", "--refuse", "2", "--fail", "3", "--hold"];
    let network = bench.start(&flags);
    let state = json!({
        "delay_ms": 1, "drop_answers": 1, "refuse": 2, "fail": 3, "hold": true,
        "delayed": 0, "held": 0,
    });
    assert_eq!(http::get(network.address, "/control"), state);
    for change in [json!({ "dorp": 1 }), json!({ "fail": -1 }), json!({ "delay_ms": 600_001 })] {
        let reply = control(network.address, change);
        assert_eq!((reply.status, reply.code().as_str()), (400, "invalid_request"));
    }
    assert_eq!(http::get(network.address, "/control"), state);
    assert_eq!(charge(network.address, &key(1), 500).unwrap().status, 500);
    assert_eq!(http::get(network.address, "/control")["fail"], 2);
}

#[test]
fn flags_that_make_no_sense_are_wrong_use() {
    let bench = Bench::new();
    for (flags, says) in [
        (["--delay", "11m"], "delay_ms must be at most 600000"),
        (["--delay", "5"], "a duration needs a unit"),
        (["--refuse", "-1"], "unexpected argument '-1'"),
        (["--refuse", "4294967296"], "not in 0..=4294967295"),
        (["--listen", "here"], "invalid socket address"),
    ] {
        let mut process = bench.spawn(&flags[..]);
        assert_eq!(process.wait().code(), Some(2), "{flags:?}");
        let said = process.stderr();
        assert!(said.contains(says), "{flags:?}: {said}");
    }
    assert!(!bench.ledger().exists());
}
