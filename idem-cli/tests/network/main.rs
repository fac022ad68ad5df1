//! `idem network`, driven as a process: the ground truth must be true.

mod collapse;
mod crash;
mod full_disk;
mod input;
mod misbehaviour;
mod parent;
#[allow(dead_code)] // Each test binary uses a part of it.
#[path = "../support/mod.rs"]
mod support;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use support::http::{self, Pending, Reply};
use support::process::{PATIENCE, Process, Server};

/// A folder with a ledger, and the networks that are started on it.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger.jsonl")
    }

    /// Starts `idem network` on this ledger with more arguments.
    fn spawn(&self, more: &[&str]) -> Process {
        let ledger = self.ledger();
        let args = ["network", "--ledger", ledger.to_str().unwrap()];
        Process::idem(args.iter().chain(more))
    }

    fn start(&self, more: &[&str]) -> Server {
        Server::listening(self.spawn(more))
    }
}

/// A key in the form of a downstream key.
fn key(number: u32) -> String {
    format!("00000000-0000-8000-8000-{number:012x}")
}

fn try_send_charge(
    address: SocketAddr,
    key: &str,
    caller: &str,
    amount: u64,
) -> io::Result<Pending> {
    let body = json!({ "caller": caller, "amount": amount, "currency": "eur" }).to_string();
    http::try_send(address, "POST", "/charges", &[("Idempotency-Key", key)], body.as_bytes())
}

fn send_charge(address: SocketAddr, key: &str, caller: &str, amount: u64) -> Pending {
    try_send_charge(address, key, caller, amount).unwrap()
}

fn charge(address: SocketAddr, key: &str, amount: u64) -> Option<Reply> {
    send_charge(address, key, "shop", amount).reply()
}

/// A charge that must be made or repeated: its id.
fn charged(address: SocketAddr, key: &str, amount: u64) -> String {
    let reply = charge(address, key, amount).expect("an answer");
    assert_eq!(reply.status, 200, "{}", reply.json());
    reply.json()["id"].as_str().unwrap().to_owned()
}

/// Calls, effects and refusals, as the ledger counts them.
fn totals(address: SocketAddr) -> (u64, u64, u64) {
    let view = http::get(address, "/ledger");
    let total = |name: &str| view[name].as_u64().unwrap();
    (total("calls"), total("effects"), total("refused"))
}

fn control(address: SocketAddr, change: Value) -> Reply {
    let body = change.to_string();
    http::send(address, "POST", "/control", &[], body.as_bytes()).reply().expect("an answer")
}

/// Waits until the state of the network's control has this value in this member.
fn wait_for_control(address: SocketAddr, member: &str, value: u64) {
    let started = Instant::now();
    while http::get(address, "/control")[member] != value {
        assert!(started.elapsed() < PATIENCE, "{member} never was {value}");
        std::thread::yield_now();
    }
}
