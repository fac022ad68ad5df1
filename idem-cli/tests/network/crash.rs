//! What the ledger says after a crash.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;

use crate::support::http::{self, Pending};
use crate::support::process::Server;
use crate::{Bench, charge, charged, key, totals, try_send_charge};

#[test]
fn a_restart_keeps_calls_and_effects() {
    let bench = Bench::new();
    let mut network = bench.start(&[]);
    let id = charged(network.address, &key(1), 500);
    let before = http::get(network.address, "/ledger");
    let calls = http::get(network.address, "/ledger/calls");
    network.process.kill();

    let network = bench.start(&[]);
    assert_eq!(http::get(network.address, "/ledger"), before);
    assert_eq!(http::get(network.address, "/ledger/calls"), calls);
    assert_eq!(charged(network.address, &key(1), 500), id);
    assert_eq!(totals(network.address), (2, 1, 0));
}

/// Kills the network while calls arrive. Whatever was answered is in the ledger; whatever was
/// not can be called again, and then there is one effect per key.
#[test]
fn sigkill_in_the_middle_of_calls_loses_nothing_that_was_answered() {
    const KEYS: u32 = 400;
    let bench = Bench::new();
    let mut network = bench.start(&[]);
    let address = network.address;
    let answered = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let answered = &answered;
            scope.spawn(move || {
                for number in (worker..KEYS).step_by(8) {
                    let call = try_send_charge(address, &key(number), "shop", 500);
                    // Once the network is gone there is no connection, or no whole answer.
                    let reply = call.and_then(Pending::try_reply);
                    let Ok(Some(reply)) = reply else { return };
                    let id = reply.json()["id"].as_str().unwrap().to_owned();
                    answered.lock().unwrap().insert(key(number), id);
                }
            });
        }
        while answered.lock().unwrap().len() < 20 {
            std::thread::yield_now();
        }
        network.process.kill();
    });
    let answered = answered.into_inner().unwrap();
    assert!(answered.len() < KEYS as usize, "killed too late to show anything");

    let network = bench.start(&[]);
    let held = effects(&network);
    for (key, id) in &answered {
        assert_eq!(held.get(key), Some(id), "an answered charge is lost");
    }
    for number in 0..KEYS {
        charged(network.address, &key(number), 500);
    }
    let after = effects(&network);
    assert_eq!(after.len(), KEYS as usize);
    assert!(held.iter().all(|(key, id)| after.get(key) == Some(id)));
    assert_eq!(totals(network.address).1, u64::from(KEYS));
}

fn effects(network: &Server) -> BTreeMap<String, String> {
    let view = http::get(network.address, "/ledger");
    let entries = view["data"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let effects: BTreeMap<_, _> = entries.map(|e| (text(&e["key"]), text(&e["id"]))).collect();
    assert_eq!(view["effects"], effects.len(), "a key has two effects");
    effects
}

#[test]
fn a_torn_last_line_is_cut_off_with_a_warning() {
    let bench = Bench::new();
    let mut network = bench.start(&[]);
    charged(network.address, &key(1), 500);
    charged(network.address, &key(2), 500);
    network.process.kill();
    let whole = fs::read(bench.ledger()).unwrap();
    fs::write(bench.ledger(), &whole[..whole.len() - 10]).unwrap();

    let mut network = bench.start(&[]);
    network.process.wait_for_stderr("cut off a torn last line");
    // The call is in the ledger, its effect was never done; a retry does it.
    assert_eq!(totals(network.address), (2, 1, 0));
    charged(network.address, &key(2), 500);
    assert_eq!(totals(network.address), (3, 2, 0));
    network.process.kill();
    assert_eq!(totals(bench.start(&[]).address), (3, 2, 0));
}

#[test]
fn a_malformed_line_stops_the_start_and_is_named() {
    let bench = Bench::new();
    let mut network = bench.start(&[]);
    charged(network.address, &key(1), 500);
    network.process.kill();
    let whole = fs::read_to_string(bench.ledger()).unwrap();
    let damaged = whole.replacen("\"call\"", "\"cull\"", 1);
    fs::write(bench.ledger(), &damaged).unwrap();

    let mut process = bench.spawn(&[]);
    assert_eq!(process.wait().code(), Some(3));
    let said = process.stderr();
    assert!(said.contains("line 2 of the ledger"), "{said}");
    assert!(!said.contains(&key(1)), "the key is shown: {said}");
    assert_eq!(fs::read_to_string(bench.ledger()).unwrap(), damaged);
}

#[test]
fn a_second_network_on_the_ledger_is_told_and_the_first_goes_on() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let mut second = bench.spawn(&["--lock-wait", "0s"]);
    assert_eq!(second.wait().code(), Some(3));
    let said = second.stderr();
    assert!(said.contains("is in use by another process"), "{said}");
    charged(network.address, &key(1), 500);
    assert_eq!(totals(network.address), (1, 1, 0));
}

#[test]
fn a_successor_waits_for_a_network_that_is_just_ending() {
    let bench = Bench::new();
    let mut network = bench.start(&[]);
    charged(network.address, &key(1), 500);
    let mut successor = bench.spawn(&["--lock-wait", "2m"]);
    successor.wait_for_stderr("waiting for another process");
    charged(network.address, &key(2), 500);
    network.process.kill();
    let successor = Server::listening(successor);
    assert_eq!(totals(successor.address), (2, 2, 0));
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let address = network.address.to_string();
    let other = Bench::new();
    let mut refused = other.spawn(&["--listen", &address]);
    assert_eq!(refused.wait().code(), Some(3));
    assert!(refused.stderr().contains(&format!("cannot listen on {address}")));
    assert_eq!(charge(network.address, &key(1), 500).unwrap().status, 200);
}
