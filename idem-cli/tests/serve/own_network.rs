//! A server that starts its card network itself.

use idem_cli::wire::Request;
use tempfile::TempDir;

use crate::support::payments::{TOKEN, answer, charge};
use crate::support::process::{Process, Server};

fn serve(folder: &TempDir) -> Server {
    let store = format!("sqlite:{}", folder.path().join("idem.db").display());
    let ledger = folder.path().join("ledger.jsonl");
    let args = ["serve", "--store", &store, "--ledger", ledger.to_str().unwrap()];
    Server::listening(Process::idem(args))
}

fn listed(server: &Server) -> usize {
    let request = Request::get("/v1/charges").header("authorization", format!("Bearer {TOKEN}"));
    answer(server.address, &request).json()["data"].as_array().unwrap().len()
}

#[test]
fn its_network_ends_with_it_whatever_ends_it() {
    let folder = TempDir::new().unwrap();
    for (round, end) in ["TERM", "KILL", "TERM"].into_iter().enumerate() {
        // It starts at all only once the network before it has let go of the ledger.
        let mut server = serve(&folder);
        assert_eq!(listed(&server), round);
        assert_eq!(answer(server.address, &charge(&format!("k{round}"), 1999)).status, 201);
        server.process.signal(end);
        let status = server.process.wait();
        assert_eq!(status.success(), end == "TERM", "{status}");
    }
    let ledger = folder.path().join("ledger.jsonl");
    let network = ["network", "--ledger", ledger.to_str().unwrap(), "--lock-wait", "30s"];
    Server::listening(Process::idem(network));
}

#[test]
fn it_says_where_its_network_is() {
    let folder = TempDir::new().unwrap();
    let mut server = serve(&folder);
    let line = server.process.line().unwrap();
    let network = line.strip_prefix("the card network is at http://").unwrap().parse().unwrap();
    assert_eq!(answer(server.address, &charge("k", 1999)).status, 201);
    let ledger = answer(network, &Request::get("/ledger")).json();
    assert_eq!(ledger["effects"], 1);
}

#[test]
fn it_needs_a_network() {
    let mut neither = Process::idem(["serve", "--store", "memory:"]);
    assert_eq!(neither.wait().code(), Some(2));
    assert!(neither.stderr().contains("--ledger <PATH>"));
    let both = ["serve", "--store", "memory:", "--ledger", "x", "--network", "http://127.0.0.1:1"];
    assert_eq!(Process::idem(both).wait().code(), Some(2));
    let mut elsewhere = Process::idem(["serve", "--store", "memory:", "--network", "ftp://x"]);
    assert_eq!(elsewhere.wait().code(), Some(2));
    assert!(elsewhere.stderr().contains("http://HOST:PORT"));
}
