//! What `idem inspect` shows of a stored reply.

use std::sync::Arc;

use idem_core::codec::Codec;
use idem_core::engine::{Call, Engine, Failure};
use idem_core::fingerprint::Fingerprint;
use idem_core::key::{Key, Scope};
use idem_core::operation::Operation;
use idem_core::reply::Reply;
use idem_core::seal::{SealError, SealedBox, Sealer, SecretId};
use idem_sqlite::SqliteStore;
use serde_json::json;

use crate::support::payments::{Bench, RUNTIME, answer, charge};

#[test]
fn a_reply_is_described_and_shown_only_when_asked_for() {
    let bench = Bench::new();
    let mut server = bench.serve(&[]);
    let first = answer(server.address, &charge("k", 1999));
    let id = first.json()["id"].as_str().unwrap().to_owned();

    let described = bench.on_record("inspect", "k", &["--json"]);
    let reply = &described.json()["reply"];
    assert_eq!(
        (&reply["status"], &reply["content_type"]),
        (&json!(201), &json!("application/json"))
    );
    assert_eq!(reply["body_bytes"], first.body.len());
    let names = ["content-type", "location", "set-cookie", "set-cookie", "x-merchant"];
    assert_eq!(reply["headers"], json!(names));
    let table = bench.on_record("inspect", "k", &[]).out;
    let line = table.lines().find(|line| line.starts_with("reply ")).unwrap();
    for told in ["status 201", "content_type application/json", "set-cookie", "body_bytes "] {
        assert!(line.contains(told), "{line}");
    }
    assert!(!described.out.contains(&id) && !table.contains(&id), "the body was not asked for");

    let shown = bench.on_record("inspect", "k", &["--json", "--show-reply"]).json();
    let body: serde_json::Value =
        serde_json::from_str(shown["reply"]["body"].as_str().unwrap()).unwrap();
    assert_eq!(body, first.json());
    assert_eq!(shown["reply"]["fields"][4], json!(["x-merchant", "Café idem"]));
    let shown = bench.on_record("inspect", "k", &["--show-reply"]);
    assert_eq!(shown.code, 0);
    assert!(shown.out.ends_with(&format!("\n\n{}\n", str::from_utf8(&first.body).unwrap())));
    assert!(shown.out.contains("set-cookie: receipts=on"), "{}", shown.out);
    server.process.kill();
    let log = server.process.stderr();
    assert!(!log.contains(&id), "{log}");
}

#[test]
fn a_record_without_a_reply_has_none_to_show() {
    let bench = Bench::new();
    bench.strand("k", "after-call");
    let shown = bench.on_record("inspect", "k", &["--json", "--show-reply"]);
    assert_eq!((shown.code, &shown.json()["reply"]), (1, &json!(null)));
}

#[test]
fn what_a_reply_holds_acts_on_no_terminal_and_forges_no_line() {
    let bench = Bench::new();
    RUNTIME.block_on(async {
        let store = SqliteStore::builder().connect(&bench.store()).await.unwrap();
        let engine = Engine::builder(store).namespace("test").unwrap().build().unwrap();
        let operation = Operation::builder("order").build().unwrap();
        let call =
            Call::new(Scope::new("a").unwrap(), Key::new("k").unwrap(), Fingerprint::of_bytes("k"));
        // Not UTF-8, so read as Latin-1, in which 9b begins what a terminal acts on.
        let reply = Reply::new(200).unwrap().with_header("content-type", &b"text/\x9b2J\xff"[..]);
        let reply = reply.with_header("x\u{1b}[2J", "a\nstate forged").with_body("{}");
        engine.run(&operation, call, async |_| Ok::<_, Failure>(reply)).await.unwrap();
    });
    for more in [&[][..], &["--show-reply"]] {
        let seen = bench.operate("inspect", &[&["--scope", "a", "--key", "k"][..], more].concat());
        assert_eq!(seen.code, 0, "{}", seen.err);
        assert!(seen.out.contains("text/\\u{9b}2Jÿ"), "{:?}", seen.out);
        assert!(!seen.out.contains(|c: char| c.is_control() && c != '\n'), "{:?}", seen.out);
        assert!(!seen.out.contains("\nstate forged"), "{:?}", seen.out);
        assert!(seen.out.contains("\ncompleted_ago ") && !seen.out.contains("_ms"), "{}", seen.out);
    }
}

struct Reversed;

impl Sealer for Reversed {
    fn seal(&self, _: &[u8], plain: &[u8]) -> Result<SealedBox, SealError> {
        let bytes = plain.iter().rev().copied().collect();
        Ok(SealedBox { key_id: SecretId::new("2026-a").unwrap(), bytes })
    }

    fn open(&self, _: &SecretId, _: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        Ok(sealed.iter().rev().copied().collect())
    }
}

#[test]
fn a_sealed_reply_says_which_key_it_needs() {
    let bench = Bench::new();
    RUNTIME.block_on(async {
        let store = SqliteStore::builder().connect(&bench.store()).await.unwrap();
        let engine = Engine::builder(store).namespace("test").unwrap();
        let engine = engine.codec(Codec::sealed_by(Arc::new(Reversed))).build().unwrap();
        let operation = Operation::builder("order").build().unwrap();
        let call =
            Call::new(Scope::new("a").unwrap(), Key::new("k").unwrap(), Fingerprint::of_bytes("k"));
        let run = engine.run(&operation, call, |_| async { Ok::<_, Failure>("hunter2") });
        run.await.unwrap();
    });
    for more in [&[][..], &["--show-reply"]] {
        let args = [&["--scope", "a", "--key", "k"][..], more].concat();
        let seen = bench.operate("inspect", &args);
        assert_eq!(seen.code, i32::from(!more.is_empty()));
        assert!(seen.out.contains("sealed_with 2026-a"), "{}", seen.out);
        assert!(seen.out.contains("only the service has the key"), "{}", seen.out);
        assert!(!seen.out.contains("hunter2") && !seen.out.contains("2retnuh"), "{}", seen.out);
    }
}
