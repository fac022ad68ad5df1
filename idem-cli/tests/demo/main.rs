//! `idem demo`, run as its readers run it.

#[allow(dead_code)] // Each test binary uses a part of it.
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use support::payments::wait_until;
use support::process::{IDEM, Process};

/// Starts the demo with its temporary files in this folder.
fn start(folder: &TempDir, args: &[&str]) -> Process {
    Process::start(Command::new(IDEM).arg("demo").args(args).env("TMPDIR", folder.path()))
}

fn all(process: &mut Process) -> String {
    let mut said = String::new();
    while let Some(line) = process.line() {
        said += &line;
        said.push('\n');
    }
    said
}

fn is_empty(folder: &Path) -> bool {
    folder.read_dir().unwrap().next().is_none()
}

#[test]
fn every_expectation_holds_and_nothing_is_left_behind() {
    let folder = TempDir::new().unwrap();
    let mut demo = start(&folder, &["--json"]);
    let said = all(&mut demo);
    let status = demo.wait();
    let document: Value = serde_json::from_str(&said).unwrap_or_else(|error| {
        panic!("{error}: {said}: {}", demo.stderr());
    });
    let chapters = document["chapters"].as_array().unwrap();
    let mut count = 0;
    for expectation in chapters.iter().flat_map(|it| it["expectations"].as_array().unwrap()) {
        assert_eq!(expectation["ok"], true, "{expectation}");
        count += 1;
    }
    assert_eq!((chapters.len(), count), (6, 34));
    for chapter in chapters {
        let steps = chapter["steps"].as_array().unwrap();
        for member in ["sent", "received", "ledger"] {
            assert!(steps.iter().any(|step| step.get(member).is_some()), "{member} is not shown");
        }
    }
    assert_eq!(document["passed"], true);
    assert_eq!(status.code(), Some(0));
    assert!(is_empty(folder.path()), "something was left behind");
}

#[test]
fn it_is_told_in_words_and_without_colours_when_nobody_watches() {
    let folder = TempDir::new().unwrap();
    let store = format!("sqlite:{}", folder.path().join("mine.db").display());
    let mut demo = start(&folder, &["--store", &store]);
    let said = all(&mut demo);
    assert_eq!(demo.wait().code(), Some(0), "{said}");
    assert!(!said.contains('\x1b'));
    assert!(!said.contains("FAILED"), "{said}");
    for text in [
        "1. Fifty duplicates at once",
        "→ POST /v1/charges",
        "Idempotency-Key: crash-",
        "← 201 Created",
        "← 422 Unprocessable Entity",
        "kill -KILL",
        "kill -CONT",
        "ledger  calls: 2  charges: 1",
        "Every expectation held.",
    ] {
        assert!(said.contains(text), "{text:?} is not in {said}");
    }
    // The store that was named is kept, with its records; a second tour finds its own keys new.
    assert!(folder.path().join("mine.db").exists());
}

#[test]
fn interrupted_it_ends_its_own_processes_and_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let mut demo = start(&folder, &[]);
    while !demo.line().expect("it goes on").contains("Fifty duplicates") {}
    let path = folder.path().to_str().unwrap().to_owned();
    let is_running = || {
        let processes = Command::new("ps").args(["-eo", "args"]).output().unwrap();
        String::from_utf8_lossy(&processes.stdout).contains(&path)
    };
    assert!(is_running(), "its card network keeps its ledger there");
    demo.signal("INT");
    assert_eq!(demo.wait().code(), Some(1));
    assert!(demo.stderr().contains("interrupted"));
    wait_until("its processes are gone", || !is_running());
    assert!(is_empty(folder.path()), "something was left behind");
}

#[test]
fn a_store_that_cannot_show_a_crash_is_wrong_use() {
    let folder = TempDir::new().unwrap();
    let mut demo = start(&folder, &["--store", "memory:"]);
    assert_eq!(demo.wait().code(), Some(2));
    assert!(demo.stderr().contains("dies with its process"));
    let nowhere = format!("sqlite:{}", folder.path().join("no/such/folder/x.db").display());
    assert_eq!(start(&folder, &["--store", &nowhere]).wait().code(), Some(3));
    assert!(is_empty(folder.path()));
}
