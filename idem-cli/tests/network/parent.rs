//! A network that a parent started ends with it, and its client.

use std::fs;
use std::path::Path;
use std::process::Command;

use idem_cli::network::{CardNetwork, ChargeRequest, ChildError, NetworkError, NetworkProcess};

use crate::support::process::{IDEM, PATIENCE, Process, Server, signal};
use crate::{Bench, charged, key, totals};

/// Kills a process that is not a child of the test, unless it is known to have ended.
struct Orphan(Option<u32>);

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(pid) = self.0.take() {
            signal(pid, "KILL");
        }
    }
}

#[test]
fn it_ends_when_its_parent_is_killed() {
    let bench = Bench::new();
    // The shell holds the only writing end of the pipe. It waits for a line that never comes.
    let script = r#"
        mkfifo "$1/pipe"
        "$0" network --ledger "$1/ledger.jsonl" --end-with-stdin < "$1/pipe" &
        echo $!
        exec 3> "$1/pipe"
        read line"#;
    let folder = bench.folder.path();
    let mut parent = Process::start(Command::new("sh").args(["-c", script, IDEM]).arg(folder));
    let mut orphan = Orphan(Some(parent.line().unwrap().parse().unwrap()));
    let mut network = Server::listening(parent);
    charged(network.address, &key(1), 500);

    network.process.kill();
    // The network has the same standard output: its end is the end of both.
    assert_eq!(network.process.line(), None);
    orphan.0 = None;
    assert_eq!(totals(bench.start(&[]).address), (1, 1, 0));
}

#[test]
fn without_being_told_so_it_does_not_end_with_its_standard_input() {
    let bench = Bench::new();
    let mut network = bench.start(&[]);
    network.process.close_stdin();
    charged(network.address, &key(1), 500);
    network.process.signal("TERM");
    assert!(network.process.wait().success());
}

fn request() -> ChargeRequest {
    ChargeRequest {
        caller: "ünï & co".into(),
        amount: 500,
        currency: "eur".into(),
        description: Some("zwölf Äpfel".into()),
        reference: None,
    }
}

async fn started(bench: &Bench) -> NetworkProcess {
    NetworkProcess::start_program(Path::new(IDEM), &bench.ledger(), PATIENCE).await.unwrap()
}

#[tokio::test]
async fn a_child_serves_its_parent_and_keeps_its_ledger() {
    let bench = Bench::new();
    let child = started(&bench).await;
    let network = CardNetwork::new(child.url(), PATIENCE).unwrap();
    let first = network.charge(&request(), &key(1)).await.unwrap();
    assert_eq!(child.stop(PATIENCE).await.unwrap().code(), Some(0));
    let error = network.charge(&request(), &key(1)).await.unwrap_err();
    assert!(matches!(error, NetworkError::NotSent(_)), "{error:?}");

    let child = started(&bench).await;
    let network = CardNetwork::new(child.url(), PATIENCE).unwrap();
    let second = network.charge(&request(), &key(1)).await.unwrap();
    assert_eq!((second.id, second.calls), (first.id, 2));
    let view = network.ledger(Some("ünï & co"), 0).await.unwrap();
    assert_eq!((view.calls, view.effects, view.data.len()), (2, 1, 1));
    assert_eq!(network.ledger(Some("other"), 0).await.unwrap().calls, 0);
    // Dropping it is enough to end it: the ledger is free for the next one.
    drop(child);
    started(&bench).await;
}

#[tokio::test]
async fn the_client_tells_a_definite_no_from_an_unknown_outcome() {
    let bench = Bench::new();
    let server = bench.start(&["--refuse", "1", "--drop-answers", "2", "--fail", "1"]);
    let network = CardNetwork::new(&server.url(), PATIENCE).unwrap();
    let mut outcomes = Vec::new();
    for _ in 0..4 {
        outcomes.push(network.charge(&request(), &key(1)).await.unwrap_err());
    }
    // Failed; declined twice with the answer dropped; then told.
    assert!(
        matches!(
            &outcomes[..],
            [
                NetworkError::Unknown(_),
                NetworkError::Unknown(_),
                NetworkError::Unknown(_),
                NetworkError::Declined { .. }
            ]
        ),
        "{outcomes:?}"
    );
    network.charge(&request(), &key(2)).await.unwrap();
    let other = ChargeRequest { amount: 501, ..request() };
    let error = network.charge(&other, &key(2)).await.unwrap_err();
    assert!(matches!(error, NetworkError::Refused { status: 422, .. }), "{error:?}");
    assert_eq!(totals(server.address), (6, 1, 1));
}

#[tokio::test]
async fn a_child_that_cannot_start_says_why() {
    let bench = Bench::new();
    fs::write(bench.ledger(), "SQLite format 3\0").unwrap();
    let error = NetworkProcess::start_program(Path::new(IDEM), &bench.ledger(), PATIENCE).await;
    let Err(ChildError::Ended { status, said }) = error else { panic!("{error:?}") };
    assert_eq!(status.code(), Some(3));
    assert!(said.contains("is not the ledger of a card network"), "{said}");
}
