//! The client hangs up at every stage. What was begun is finished and recorded, what was not is
//! not there, and a retry gets the one answer.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use crate::support::payments::{Bench, answer, charge, is_replay, retried, wait_until};
use crate::support::process::Server;

/// Sends a part of the charge under the key `k`, and returns the open connection.
fn send_part(server: &Server, length: impl Fn(&[u8]) -> usize) -> TcpStream {
    let bytes = charge("k", 1999).bytes(server.address);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(&bytes[..length(&bytes)]).unwrap();
    stream
}

fn head(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4
}

#[test]
fn in_the_middle_of_the_head_or_of_the_body() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    for part in [
        (|_| 0) as fn(&[u8]) -> usize,
        |bytes| head(bytes) - 20,
        |bytes| head(bytes),
        |bytes| bytes.len() - 1,
    ] {
        drop(send_part(&server, part));
    }
    // Other requests go on as if nothing had been.
    assert_eq!(answer(server.address, &charge("other", 1999)).status, 201);
    assert_eq!(bench.inspect("k"), None);
    let first = answer(server.address, &charge("k", 1999));
    assert_eq!(first.status, 201);
    assert!(!is_replay(&first));
    assert_eq!(bench.totals(), (2, 2));
}

#[test]
fn while_the_charge_is_running() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    bench.control(json!({ "hold": true }));
    let client = send_part(&server, <[u8]>::len);
    bench.wait_for_held(1);
    drop(client);
    let running = answer(server.address, &charge("k", 1999));
    assert_eq!(running.status, 409);
    bench.control(json!({ "hold": false }));
    let replay = retried(server.address, &charge("k", 1999));
    assert_eq!(replay.status, 201);
    assert!(is_replay(&replay), "the work of the first request was lost");
    assert_eq!(bench.completed_attempt("k"), 1);
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn right_after_the_last_byte_of_the_request() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    drop(send_part(&server, <[u8]>::len));
    // Whether the server saw the request before it saw the end is open; the key decides.
    let charged = retried(server.address, &charge("k", 1999));
    assert_eq!(charged.status, 201);
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn in_the_middle_of_the_answer() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let mut client = send_part(&server, <[u8]>::len);
    let mut first_bytes = [0; 20];
    client.read_exact(&mut first_bytes).unwrap();
    assert!(first_bytes.starts_with(b"HTTP/1.1 201"));
    drop(client);
    let replay = answer(server.address, &charge("k", 1999));
    assert_eq!(replay.status, 201);
    assert!(is_replay(&replay));
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn the_server_ends_after_its_clients_went_away() {
    let bench = Bench::new();
    let mut server = bench.serve(&[]);
    bench.control(json!({ "hold": true }));
    let client = send_part(&server, <[u8]>::len);
    bench.wait_for_held(1);
    drop(client);
    server.process.signal("TERM");
    wait_until("it no longer accepts connections", || TcpStream::connect(server.address).is_err());
    bench.control(json!({ "hold": false }));
    assert_eq!(server.process.wait().code(), Some(0));
    assert_eq!(bench.completed_attempt("k"), 1);
    assert_eq!(bench.totals(), (1, 1));
}
