//! `idem conformance`, run as its readers run it.

#[allow(dead_code)] // Each test binary uses a part of it.
#[path = "../support/mod.rs"]
mod support;

mod broken;

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use support::payments::wait_until;
use support::process::Process;

fn start(args: &[&str]) -> Process {
    Process::idem(["conformance"].iter().chain(args))
}

/// What it printed, what it complained of, and its exit code.
fn run(args: &[&str]) -> (Vec<String>, String, Option<i32>) {
    let mut process = start(args);
    let lines = std::iter::from_fn(|| process.line()).collect();
    let code = process.wait().code();
    (lines, process.stderr(), code)
}

fn in_folder(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("idem.db").display())
}

fn is_empty(folder: &Path) -> bool {
    folder.read_dir().unwrap().next().is_none()
}

#[test]
fn every_case_is_a_line_and_a_pipe_gets_no_colours() {
    let (lines, stderr, code) = run(&["--store", "memory:", "--seed", "7"]);
    assert_eq!(code, Some(0), "{lines:#?} {stderr}");
    let (sum, cases) = lines.split_last().unwrap();
    assert!(cases.len() > 200, "{}", cases.len());
    for line in cases {
        let told = line.starts_with("ok       ")
            || (line.starts_with("ignored  ") && line.contains("(needs ") && line.ends_with(')'));
        assert!(told && !line.contains('\x1b'), "{line:?}");
    }
    assert!(cases.contains(&"ok       table::live_is_in_progress".to_owned()), "{cases:#?}");
    assert!(sum.starts_with("memory: ") && sum.contains(" 0 failed, "), "{sum}");
    assert!(sum.contains("; seed 7; "), "{sum}");
}

#[test]
fn a_file_is_left_as_it_was_and_nothing_stays_beside_it() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("idem.db");
    std::fs::write(&file, "somebody else's").unwrap();
    let (lines, stderr, code) = run(&["--store", &in_folder(&folder), "--filter", "table::"]);
    assert_eq!(code, Some(0), "{lines:#?} {stderr}");
    assert!(lines.last().unwrap().starts_with("sqlite: "));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "somebody else's");
    std::fs::remove_file(&file).unwrap();
    assert!(is_empty(folder.path()), "something was left behind");
}

#[test]
fn it_starts_itself_again_for_the_cases_that_need_several_processes() {
    let folder = TempDir::new().unwrap();
    let (lines, stderr, code) = run(&["--store", &in_folder(&folder), "--filter", "processes::"]);
    assert_eq!(code, Some(0), "{lines:#?} {stderr}");
    let tried = lines.iter().filter(|line| line.starts_with("ok       processes::")).count();
    assert!(tried > 0 && tried == lines.len() - 1, "{lines:#?}");
    assert!(is_empty(folder.path()), "something was left behind");
}

#[test]
fn a_script_gets_the_report() {
    let (lines, _, code) =
        run(&["--store", "memory:", "--json", "--exact", "--filter", "table::live_is_in_progress"]);
    assert_eq!(code, Some(0));
    let report: Value = serde_json::from_str(&lines.join("\n")).unwrap();
    assert_eq!((&report["passed"], &report["failed"]), (&Value::from(1), &Value::from(0)));
    let cases = report["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 1);
    assert_eq!(cases[0]["case"], "table::live_is_in_progress");
    assert_eq!(cases[0]["outcome"], "passed");
    assert!(cases[0]["rules"].as_str().unwrap().contains('R'));
}

#[test]
fn wrong_use_is_told_before_anything_is_tried() {
    let folder = TempDir::new().unwrap();
    let nowhere = format!("sqlite:{}", folder.path().join("no/such/idem.db").display());
    for (args, expected) in [
        (vec!["--store", "postgrs://me:hunter2@host/db"], 2),
        (vec!["--store", "sqlite::memory:"], 2),
        (vec!["--store", "memory:", "--filter", "no_such_case"], 2),
        (vec!["--store", "memory:", "--filter", "table::", "--exact"], 2),
        (vec!["--store", "memory:", "--exact"], 2),
        (vec![], 2),
        (vec!["--store", nowhere.as_str()], 3),
        (vec!["--store", "postgres://me:hunter2@127.0.0.1:1/db"], 4),
        (vec!["--store", "redis://me:hunter2@127.0.0.1:1"], 4),
    ] {
        let (lines, stderr, code) = run(&args);
        assert_eq!(code, Some(expected), "{args:?}: {stderr}");
        assert!(lines.is_empty(), "{args:?}: {lines:?}");
        assert!(!stderr.is_empty() && !stderr.contains("hunter2"), "{args:?}: {stderr}");
    }
    assert!(is_empty(folder.path()));
}

#[test]
fn a_run_of_which_no_case_could_be_tried_proves_nothing() {
    let (lines, _, code) = run(&["--store", "memory:", "--filter", "restart::"]);
    assert_eq!(code, Some(1), "{lines:#?}");
    assert!(lines.last().unwrap().contains("proves nothing"), "{lines:#?}");
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let mut suite = start(&["--store", &in_folder(&folder)]);
    suite.line().expect("it goes on");
    assert!(!is_empty(folder.path()), "its files are in the folder of the one that was named");
    suite.signal("INT");
    assert_eq!(suite.wait().code(), Some(1));
    assert!(suite.stderr().contains("interrupted"));
    wait_until("its files are gone", || is_empty(folder.path()));
}
