//! Scopes: typed back as they are listed, or by their beginning.

use idem_cli::serve::Caller;
use idem_core::engine::{Call, Engine, Failure};
use idem_core::fingerprint::Fingerprint;
use idem_core::key::{Key, Scope};
use idem_core::operation::Operation;
use idem_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::support::payments::{Bench, RUNTIME, TOKEN};

/// Completed records, one for each scope and key.
fn completed(bench: &Bench, records: &[(&str, &str)]) {
    RUNTIME.block_on(async {
        let store = SqliteStore::builder().connect(&bench.store()).await.unwrap();
        let engine = Engine::builder(store).namespace("test").unwrap().build().unwrap();
        let operation = Operation::builder("order").build().unwrap();
        for (scope, key) in records {
            let (scope, key) = (Scope::new(scope).unwrap(), Key::opaque(key).unwrap());
            let call = Call::new(scope, key, Fingerprint::of_bytes("x"));
            let run = engine.run(&operation, call, |_| async { Ok::<_, Failure>("done") });
            run.await.unwrap();
        }
    });
}

fn listed(bench: &Bench, args: &[&str]) -> Vec<(String, String)> {
    let said = bench.operate("list", &[args, &["--json"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let records = said.json()["records"].clone();
    let records = records.as_array().unwrap().iter();
    records.map(|record| (text(&record["scope"]), text(&record["key"]))).collect()
}

#[test]
fn what_a_listing_prints_can_be_typed_back() {
    let bench = Bench::new();
    completed(&bench, &[("café\\1", "naïve \u{1b}"), ("cafe", "k")]);
    let all = listed(&bench, &[]);
    assert_eq!(all.len(), 2);
    for record in all {
        let (scope, key) = &record;
        assert_eq!(listed(&bench, &["--scope", scope]), std::slice::from_ref(&record));
        let seen = bench.operate("inspect", &["--json", "--scope", scope, "--key", key]);
        assert_eq!((seen.code, &seen.json()["key"]), (0, &json!(key)), "{}", seen.err);
    }
}

#[test]
fn a_record_is_found_by_the_beginning_of_its_scope() {
    let bench = Bench::new();
    let caller = Caller::with_token(TOKEN.as_bytes()).unwrap();
    let near = format!("{}x", &caller.name()[..12]);
    let records = [(caller.name(), "k"), (&near, "k"), (&near, "other"), ("a", "k"), ("z", "k")];
    completed(&bench, &records);
    let by = |prefix: &str, key: &str| {
        bench.operate("inspect", &["--json", "--scope-prefix", prefix, "--key", key])
    };
    let found = by(&caller.name()[..13], "k");
    assert_eq!((found.code, &found.json()["scope"]), (0, &json!(caller.name())), "{}", found.err);
    assert_eq!(by("z", "k").json()["scope"], "z");
    // Two scopes begin so; one of them has this key.
    assert_eq!(by("tok_", "other").json()["scope"], near.as_str());
    let several = by("tok_", "k");
    assert_eq!(several.code, 1);
    assert!(several.err.contains(&near) && several.err.contains(caller.name()), "{}", several.err);
    let none = by("b", "k");
    assert_eq!((none.code, none.err.contains("no such record")), (1, true), "{}", none.err);
    let both = ["--scope", "a", "--scope-prefix", "a", "--key", "k"];
    assert_eq!(bench.operate("inspect", &both).code, 2);

    assert_eq!(listed(&bench, &["--scope-prefix", "tok_"]).len(), 3);
    assert_eq!(listed(&bench, &["--scope-prefix", "tok_", "--limit", "1"]).len(), 1);
    assert_eq!(listed(&bench, &["--scope-prefix", "b"]), []);
    let last = bench.operate("list", &["--json", "--scope-prefix", "a", "--limit", "2"]).json();
    assert_eq!((&last["more"], last["records"].as_array().unwrap().len()), (&json!(false), 1));
    // A whole scope is asked for where everything in it goes.
    assert_eq!(bench.operate("forget", &["--scope-prefix", "tok_", "--yes"]).code, 2);
}

/// Whoever gives no scope is told of both ways to give one, and of both to give a key.
#[test]
fn what_is_missing_is_told_with_what_could_stand_for_it() {
    let bench = Bench::new();
    for command in ["inspect", "release", "settle"] {
        let said = bench.operate(command, &["--key", "k"]);
        assert_eq!(said.code, 2);
        assert!(said.err.contains("<--scope <SCOPE>|--scope-prefix <TEXT>>"), "{}", said.err);
        let said = bench.operate(command, &["--scope", "a"]);
        assert_eq!(said.code, 2);
        assert!(said.err.contains("<--key <KEY>|--key-file <PATH>>"), "{}", said.err);
    }
}

/// One long key does not push the columns of every other row out of sight.
#[test]
fn a_long_key_is_shortened_in_a_table_and_whole_in_json() {
    let bench = Bench::new();
    let caller = Caller::with_token(TOKEN.as_bytes()).unwrap();
    let long = format!("{}-end", "k".repeat(251));
    completed(&bench, &[(caller.name(), "order-7"), (caller.name(), &long)]);
    let table = bench.operate("list", &[]).out;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() < 230), "{table}");
    assert!(!table.contains(&long) && table.contains("kkk…kk-end  order"), "{table}");
    assert!(lines.iter().any(|line| line.starts_with(&format!("{}  order-7", caller.name()))));
    assert!(lines.last().unwrap().starts_with("… stands for"), "{table}");
    let keys: Vec<String> = listed(&bench, &[]).into_iter().map(|(_, key)| key).collect();
    assert!(keys.contains(&long), "{keys:?}");
    let short = bench.operate("list", &["--scope", "nobody"]).out;
    assert!(!short.contains('…'));
}
