//! What the listings tell of a record, and how they go on.

use idem_sqlite::sqlx::{self, Connection as _, SqliteConnection};
use serde_json::{Value, json};

use crate::support::payments::{Bench, RUNTIME, answer, charge};

#[test]
fn a_listing_goes_on_where_it_ended() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    for number in 0..5 {
        assert_eq!(answer(server.address, &charge(&format!("k{number}"), 1999)).status, 201);
    }
    let mut keys = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut args = vec!["--json", "--limit", "2"];
        if let Some(after) = &after {
            args.extend(["--after", after]);
        }
        let page = bench.operate("list", &args).json();
        let records = page["records"].as_array().unwrap();
        assert!(records.len() <= 2);
        keys.extend(records.iter().map(|record| record["key"].clone()));
        assert_eq!(page["more"].as_bool().unwrap(), page["next"].is_string());
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(Value::from(keys), json!(["k0", "k1", "k2", "k3", "k4"]));
    let table = bench.operate("list", &["--limit", "2"]);
    assert!(table.out.contains("there are more: --after "), "{}", table.out);
    assert_eq!(bench.operate("list", &["--after", "00"]).code, 2);
    assert_eq!(bench.operate("list", &["--limit", "0"]).code, 2);
}

#[test]
fn held_is_told_from_resumable_as_far_as_the_operator_says_what_is_allowed() {
    let bench = Bench::new();
    bench.strand("k", "after-call");
    for (args, state) in [
        (&[][..], "resumable"),
        (&["--cap", "2"], "resumable"),
        (&["--cap", "1"], "held"),
        (&["--window", "1ms"], "held"),
        (&["--window", "1h"], "resumable"),
        (&["--holds", "charges.create"], "held"),
        (&["--holds", "other"], "resumable"),
    ] {
        let args = [&["--json"], args].concat();
        for command in ["stuck", "list"] {
            let said = bench.operate(command, &args).json();
            assert_eq!(said["records"][0]["state"], state, "{command} {args:?}");
        }
    }
    assert_eq!(bench.operate("stuck", &["--held"]).code, 2, "nobody told what is held");
    let none = bench.operate("stuck", &["--held", "--cap", "99"]);
    assert_eq!(none.code, 0);
    assert!(none.out.starts_with("nothing is held, as far as"), "{}", none.out);
    assert_eq!(bench.operate("stuck", &[]).code, 1);
}

/// The store does not know the cap. Untold, `resumable` is a guess and looks like one; a record that
/// has used what an operation allows by default is held.
#[test]
fn without_the_cap_a_record_that_may_be_held_does_not_pass_for_resumable() {
    let bench = Bench::new();
    bench.strand("k", "after-call");
    let used = |attempts: u32| {
        RUNTIME.block_on(async {
            let mut database = SqliteConnection::connect(&bench.store()).await.unwrap();
            let query = sqlx::query("UPDATE idem_records SET attempt = ?").bind(attempts);
            query.execute(&mut database).await.unwrap();
        });
    };
    used(5);
    let unsure = bench.operate("stuck", &[]);
    assert!(unsure.out.contains("  resumable?  5 "), "{}", unsure.out);
    assert!(unsure.out.contains("held, if the service allows only 5 attempts"), "{}", unsure.out);
    assert!(unsure.out.contains("\n? it is held if"), "{}", unsure.out);
    let sure = bench.operate("stuck", &["--cap", "6"]).out;
    assert!(sure.contains("  resumable  5 ") && !sure.contains('?'), "{sure}");
    used(20);
    for (args, state, why) in [
        (&[][..], "held", "20 of 20 attempts are used, unless --cap says"),
        (&["--cap", "20"], "held", "20 of 20 attempts are used"),
        (&["--cap", "21"], "resumable", ""),
    ] {
        let said = bench.operate("stuck", &[&["--json"], args].concat()).json();
        let record = &said["records"][0];
        assert_eq!(record["state"], state, "{args:?}");
        assert!(record["why"].as_str().unwrap_or_default().starts_with(why), "{record}");
    }
}

#[test]
fn the_help_explains_every_state_and_field() {
    for command in ["list", "stuck", "inspect"] {
        let help = crate::command::idem(&[command, "--help"], b"").out;
        let words = ["live", "completed", "resumable", "held", "lapsed", "not-begun"];
        for word in words.into_iter().chain(["ATTEMPT", "AGE", "TIME", "HASH"]) {
            assert!(help.contains(&format!("  {word} ")), "{command}: {word}");
        }
    }
}

#[test]
fn a_count_has_one_name_in_the_table_and_in_json() {
    let bench = Bench::new();
    bench.strand("k", "after-call");
    let table = bench.operate("stats", &[]).out;
    let counts: Vec<&str> = table.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(counts[..5], ["live", "stuck", "not begun", "completed", "expired"]);
    let stats = bench.operate("stats", &["--json"]).json();
    for name in &counts[..5] {
        let count = u64::from(*name == "stuck");
        assert_eq!(stats[name.replace(' ', "_")], count, "{name}");
    }
    assert_eq!(stats["lapsed_begun"], stats["stuck"], "scripts know it by this name");
}
