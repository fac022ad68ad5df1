//! SIGTERM while many clients send: whoever was accepted is answered, and no record is left in
//! progress.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use idem_cli::wire::{Answer, WireError};
use serde_json::json;

use crate::support::payments::{Bench, answer, assert_same, charge, retried, send, wait_until};

/// How many clients send at once, each its next request as soon as the last one is answered.
const CLIENTS: usize = 12;
/// How many are answered before the signal.
const BEFORE: usize = 60;
/// How many clients hang up right after they have sent.
const GONE: usize = 8;

#[derive(Default)]
struct Load {
    next: AtomicUsize,
    stop: AtomicBool,
    answered: AtomicUsize,
    told: Mutex<Vec<(String, Result<Answer, WireError>)>>,
}

impl Load {
    fn client(&self, server: SocketAddr) {
        while !self.stop.load(Ordering::SeqCst) {
            let key = format!("key-{}", self.next.fetch_add(1, Ordering::SeqCst));
            let told = send(server, &charge(&key, 1999));
            let refused = told.is_err();
            self.told.lock().unwrap().push((key, told));
            self.answered.fetch_add(1, Ordering::SeqCst);
            if refused {
                return;
            }
        }
    }
}

/// Sends a whole request and is gone.
fn hang_up(server: SocketAddr, key: &str) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(&charge(key, 1999).bytes(server)).unwrap();
}

#[test]
fn no_request_is_dropped_and_no_record_is_left_in_progress() {
    let bench = Bench::new();
    bench.control(json!({ "delay_ms": 40 }));
    let mut server = bench.serve(&["--lease", "2s"]);
    let load = Arc::new(Load::default());
    let address = server.address;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let load = Arc::clone(&load);
            std::thread::spawn(move || load.client(address))
        })
        .collect();
    wait_until("there is load", || load.answered.load(Ordering::SeqCst) >= BEFORE);
    for number in 0..GONE {
        hang_up(address, &format!("gone-{number}"));
    }
    // So that they are being worked on, and most of the load with them.
    std::thread::sleep(Duration::from_millis(20));
    server.process.signal("TERM");
    assert_eq!(server.process.wait().code(), Some(0), "every charge was finished in time");
    load.stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().unwrap();
    }

    // What a handler had finished, and what it had begun as well, is in the store as completed.
    let store = bench.store();
    let left = ["list", "--store", &store, "--json", "--limit", "100000"];
    let listed = crate::support::process::Process::idem(left);
    let records = read_json(listed)["records"].as_array().unwrap().clone();
    for record in &records {
        assert_eq!(record["state"], "completed", "{record}");
        assert_eq!(record["attempt"], 1, "{record}");
    }

    let other = bench.serve(&[]);
    bench.control(json!({ "delay_ms": 0 }));
    let told = std::mem::take(&mut *load.told.lock().unwrap());
    let refused = told.iter().filter(|(_, told)| told.is_err()).count();
    println!("{} answered, {refused} refused at the door", told.len() - refused);
    assert!(told.len() - refused >= BEFORE);
    for (key, told) in &told {
        match told {
            Ok(first) => {
                assert_eq!(first.status, 201, "{key}");
                assert_same(first, &answer(other.address, &charge(key, 1999)));
            }
            Err(error) => {
                // It never got in: there is no trace of it.
                let found = records.iter().any(|record| record["key"] == key.as_str());
                assert!(!found, "{key} was dropped: {error}");
                assert_eq!(answer(other.address, &charge(key, 1999)).status, 201);
            }
        }
    }
    for number in 0..GONE {
        assert_eq!(retried(other.address, &charge(&format!("gone-{number}"), 1999)).status, 201);
    }
    let (calls, effects) = bench.totals();
    assert_eq!(calls, (told.len() + GONE) as u64, "each was called once");
    assert_eq!(effects, calls);
}

fn read_json(mut process: crate::support::process::Process) -> serde_json::Value {
    let mut said = String::new();
    while let Some(line) = process.line() {
        said += &line;
    }
    assert_eq!(process.wait().code(), Some(0), "{}", process.stderr());
    serde_json::from_str(&said).unwrap()
}
