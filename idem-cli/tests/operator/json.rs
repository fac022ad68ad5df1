//! `--json`: one document on standard output whatever happens, and the same exit code as without.

use serde_json::{Value, json};

use crate::command::{Said, idem};
use crate::support::payments::{Bench, charge, start};

/// Runs it in both forms. The exit codes agree, what is said on standard error too, and standard
/// output is one document with this error.
#[track_caller]
fn refuses(run: impl Fn(&[&str]) -> Said, kind: &str, code: i32, message: &str) -> Value {
    let (words, document) = (run(&[]), run(&["--json"]));
    assert_eq!((words.code, document.code), (code, code), "{}{}", words.err, document.err);
    assert!(words.err.contains(message), "{}", words.err);
    assert!(document.err.contains(message), "{}", document.err);
    let said = document.json();
    assert_eq!((&said["error"]["kind"], &said["error"]["exit_code"]), (&json!(kind), &json!(code)));
    let told = said["error"]["message"].as_str().unwrap();
    assert!(told.contains(message), "{told}");
    said
}

#[test]
fn every_refusal_is_a_document() {
    let bench = Bench::new();
    bench.strand("k", "after-call");
    let on = |command: &'static str, key: &'static str, fixed: &'static [&'static str]| {
        let bench = &bench;
        move |more: &[&str]| bench.on_record(command, key, &[fixed, more].concat())
    };
    let missing = "there is no such record";
    refuses(on("inspect", "none", &[]), "check_failed", 1, missing);
    refuses(on("release", "none", &["--yes"]), "check_failed", 1, missing);
    refuses(on("settle", "none", &["--status", "204"]), "check_failed", 1, missing);
    let stale = ["--status", "204", "--at-attempt", "7"];
    refuses(
        on("settle", "k", &["--status", "204", "--at-attempt", "7"]),
        "check_failed",
        1,
        "attempt 1",
    );
    assert_eq!(bench.on_record("settle", "k", &stale).out, "");
    refuses(on("settle", "k", &["--status", "204", "--body", "x"]), "usage", 2, "has no body");
    // What the parser of the command line refuses, too.
    refuses(on("settle", "k", &[]), "usage", 2, "--status <STATUS>");
    refuses(on("settle", "k", &["--status", "99"]), "usage", 2, "200..=599");

    let asked = refuses(on("release", "k", &[]), "usage", 2, "--yes frees the key");
    assert_eq!(
        (&asked["released"], &asked["may_repeat"]["what"]),
        (&json!(false), &json!("anything"))
    );
    let forget = |scope: &'static str, yes: &'static [&'static str]| {
        let bench = &bench;
        move |more: &[&str]| bench.operate("forget", &[&["--scope", scope], yes, more].concat())
    };
    refuses(forget("a", &[]), "usage", 2, "nothing was done");
    let none = refuses(forget("nobody", &["--yes"]), "check_failed", 1, "no record of this scope");
    assert_eq!((&none["deleted"], &none["in_progress"]), (&json!(0), &json!(0)));
}

#[test]
fn what_runs_is_refused_in_json_too() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    bench.control(json!({ "hold": true }));
    let running = start(server.address, &charge("k", 1999));
    bench.wait_for_held(1);
    for (command, args) in [("release", &["--yes"][..]), ("settle", &["--status", "204"])] {
        let run = |more: &[&str]| bench.on_record(command, "k", &[args, more].concat());
        refuses(run, "check_failed", 1, "it is running");
    }
    bench.control(json!({ "hold": false }));
    assert_eq!(running.wait().unwrap().status, 201);
}

#[test]
fn a_store_that_cannot_be_used_is_a_document_of_every_command() {
    let bench = Bench::new();
    let store = bench.store();
    for command in [
        &["stats"][..],
        &["list"],
        &["stuck"],
        &["sweep"],
        &["preflight"],
        &["inspect", "--scope", "a", "--key", "k"],
        &["settle", "--scope", "a", "--key", "k", "--status", "204"],
        &["release", "--scope", "a", "--key", "k"],
        &["forget", "--scope", "a", "--yes"],
        &["outbox", "stats"],
        &["outbox", "list"],
        &["outbox", "discard", "--all", "--yes"],
    ] {
        let run = |more: &[&str]| idem(&[command, &["--store", &store], more].concat(), b"");
        refuses(run, "setup", 3, "there is no file");
        let elsewhere =
            |more: &[&str]| idem(&[command, &["--store", "nosql:x"], more].concat(), b"");
        refuses(elsewhere, "usage", 2, "--store takes one of");
    }
    for command in [&["migrate"][..], &["conformance"]] {
        let elsewhere =
            |more: &[&str]| idem(&[command, &["--store", "nosql:x"], more].concat(), b"");
        refuses(elsewhere, "usage", 2, "--store takes one of");
    }
}
