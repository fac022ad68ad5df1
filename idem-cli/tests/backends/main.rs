//! Every server that a store URL can name: the demo with all its expectations, and the operator's
//! commands on what it left there.
//!
//! The servers come from environment variables, which `scripts/test cli` sets; one that is missing
//! fails its test.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// What a command said, and how it ended.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{} {}", self.out, self.err);
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

fn idem(args: &[&str]) -> Said {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_idem"));
    command.args(args).env("TMPDIR", folder.path());
    for variable in ["IDEM_STORE", "IDEM_LOG", "RUST_LOG"] {
        command.env_remove(variable);
    }
    let output = command.output().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} names no server: scripts/test cli starts one and sets it")
    })
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Migrates it, shows the demo on it, and looks after what is there then.
fn a_whole_tour(url: &str) {
    let at = |command: &'static str| idem(&[command, "--store", url, "--json"]);
    assert_eq!(at("migrate").json()["migrated"], true);
    assert_eq!(at("preflight").json()["safe"], true);
    let before = number(&at("stats").json()["completed"]);

    let demo = at("demo").json();
    assert_eq!(demo["passed"], true, "{demo}");
    let expectations: usize = demo["chapters"].as_array().unwrap().iter().map(count).sum();
    assert_eq!(expectations, 34);

    let stats = at("stats").json();
    assert!(number(&stats["completed"]) >= before + 5, "{before} completed before, then {stats}");
    assert_eq!(number(&stats["live"]), 0, "{stats}");
    assert_eq!(at("stuck").json()["records"].as_array().map(Vec::len), Some(0));
    let listed = at("list").json();
    let records = listed["records"].as_array().unwrap();
    let replayed = records.iter().find(|record| is_of_the_replay_chapter(record));
    let replayed = replayed.unwrap_or_else(|| panic!("not listed: {listed}"));
    let (scope, key) = (replayed["scope"].as_str().unwrap(), replayed["key"].as_str().unwrap());
    let one = idem(&["inspect", "--store", url, "--json", "--scope", scope, "--key", key]).json();
    assert_eq!(one["state"], "completed", "{one}");
    at("sweep").json();
}

fn count(chapter: &Value) -> usize {
    chapter["expectations"].as_array().unwrap().len()
}

fn is_of_the_replay_chapter(record: &Value) -> bool {
    record["key"].as_str().is_some_and(|key| key.starts_with("replay-"))
}

/// One after the other: both are one database, and nothing else may be live in it.
#[test]
fn postgres_directly_and_behind_a_transaction_pooler() {
    a_whole_tour(&server("IDEM_POSTGRES_URL"));
    a_whole_tour(&format!("{}?pgbouncer=true", server("IDEM_PGBOUNCER_URL")));
}

#[test]
fn mysql() {
    a_whole_tour(&server("IDEM_MYSQL_URL"));
}

#[test]
fn redis() {
    a_whole_tour(&server("IDEM_REDIS_URL"));
}

#[test]
fn redis_cluster() {
    a_whole_tour(&server("IDEM_REDIS_CLUSTER_URL"));
}

#[test]
fn a_server_that_is_not_there_is_told_without_the_password() {
    for url in [
        "postgres://user:hunter2@127.0.0.1:1/none",
        "mysql://user:hunter2@127.0.0.1:1/none",
        "redis://user:hunter2@127.0.0.1:1",
        "redis-cluster://user:hunter2@127.0.0.1:1",
    ] {
        for command in ["migrate", "stats", "list", "stuck", "sweep", "preflight"] {
            let said = idem(&[command, "--store", url]);
            assert_eq!(said.code, Some(4), "{command} {url}: {} {}", said.out, said.err);
            assert!(!said.out.contains("hunter2") && !said.err.contains("hunter2"), "{}", said.err);
            assert!(said.err.starts_with("idem: "), "{}", said.err);
        }
    }
}
