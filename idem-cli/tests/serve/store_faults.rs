//! A store that fails while the server runs.

use std::fs;
use std::process::Command;

use idem_sqlite::sqlx::{self, Connection as _, SqliteConnection};

use crate::support::payments::{
    Bench, RUNTIME, TOKEN, answer, assert_same, charge, is_replay, problem, retried, start,
    wait_until,
};
use crate::support::process::{IDEM, Process, Server};

fn open(bench: &Bench) -> SqliteConnection {
    RUNTIME.block_on(SqliteConnection::connect(&bench.store())).unwrap()
}

fn execute(database: &mut SqliteConnection, sql: &'static str) -> u64 {
    RUNTIME.block_on(sqlx::query(sql).execute(database)).unwrap().rows_affected()
}

#[test]
fn unavailable_at_the_claim_means_that_nothing_runs() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let mut blocker = open(&bench);
    execute(&mut blocker, "BEGIN IMMEDIATE");
    let refused = answer(server.address, &charge("k", 1999));
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "store-unavailable"));
    assert!(refused.text("retry-after").is_some());
    execute(&mut blocker, "ROLLBACK");
    assert_eq!(bench.totals(), (0, 0));
    // What was known not to be applied does not stand in the way of the retry.
    assert_eq!(answer(server.address, &charge("k", 1999)).status, 201);
    assert_eq!(bench.completed_attempt("k"), 1);
}

#[test]
fn unavailable_after_the_charge_delays_the_reply_and_marks_it() {
    let bench = Bench::new();
    let file = bench.path("reached");
    let failpoint = format!("before-complete=wait:{}", file.display());
    let server = bench.serve(&["--failpoint", &failpoint]);
    let first = start(server.address, &charge("k", 1999));
    wait_until("the reply is about to be stored", || file.exists());
    let mut blocker = open(&bench);
    execute(&mut blocker, "BEGIN IMMEDIATE");
    fs::remove_file(&file).unwrap();
    let first = first.wait().unwrap();
    assert_eq!(first.status, 201);
    assert_eq!(first.text("idempotency-stored").as_deref(), Some("false"));
    assert_eq!(answer(server.address, &Bench::listing()).status, 200);
    execute(&mut blocker, "ROLLBACK");
    let replay = retried(server.address, &charge("k", 1999));
    assert!(is_replay(&replay));
    assert_eq!(replay.body, first.body);
    assert_eq!(bench.completed_attempt("k"), 1);
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn a_record_that_cannot_be_read_fails_closed() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let first = answer(server.address, &charge("k", 1999));
    assert_eq!(first.status, 201);
    let mut database = open(&bench);
    assert_eq!(execute(&mut database, "UPDATE idem_records SET reply = x'00ff00ff'"), 1);
    let refused = answer(server.address, &charge("k", 1999));
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "record-corrupt"));
    assert_eq!(bench.totals(), (1, 1));
    // Other keys are not affected.
    assert_eq!(answer(server.address, &charge("other", 1999)).status, 201);
}

/// A server whose files may have only so many blocks of 512 bytes.
fn limited(bench: &Bench, blocks: u32) -> Server {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, IDEM, "serve", "--lease", "500ms", "--network"]);
    command.arg(bench.network.url()).args(["--store", &bench.store()]);
    Server::listening(Process::start(&mut command))
}

#[test]
fn a_full_disk_loses_nothing_and_charges_nobody_twice() {
    let bench = Bench::new();
    let mut server = limited(&bench, 400);
    let mut answers = Vec::new();
    let refused = loop {
        let key = format!("k{}", answers.len());
        let answer = answer(server.address, &charge(&key, 1999));
        if answer.status != 201 || answer.text("idempotency-stored").is_some() {
            break answer;
        }
        answers.push(answer);
        assert!(answers.len() < 2_000, "the limit does not work");
    };
    assert!(matches!(refused.status, 201 | 409 | 503), "{}", refused.status);
    assert!(answers.len() > 3, "the limit is too small to show anything");
    server.process.kill();

    let server = bench.serve(&["--lease", "500ms"]);
    for (number, first) in answers.iter().enumerate() {
        let replay = answer(server.address, &charge(&format!("k{number}"), 1999));
        assert!(is_replay(&replay));
        assert_same(first, &replay);
    }
    let key = format!("k{}", answers.len());
    assert_eq!(retried(server.address, &charge(&key, 1999)).status, 201);
    assert_eq!(bench.ledger_of(TOKEN).effects, answers.len() as u64 + 1);
}

#[test]
fn a_disk_that_is_too_small_for_the_store_is_said_at_the_start() {
    let bench = Bench::new();
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, IDEM, "serve", "--network"]);
    command.arg(bench.network.url()).args(["--store", &bench.store()]);
    let mut process = Process::start(&mut command);
    let code = process.wait().code();
    let said = process.stderr();
    assert!(matches!(code, Some(3..=5)), "{code:?}: {said}");
    assert!(said.contains("idem: "), "{said}");
}
