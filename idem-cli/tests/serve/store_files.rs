//! A store that cannot be served from: the server says why and does not start.

use std::fs;

use idem_sqlite::sqlx::{self, Connection as _, SqliteConnection};

use crate::support::payments::{Bench, RUNTIME};

/// The server must not start on this store. Returns what it said.
fn refused(bench: &Bench, store: &str, exit: i32) -> String {
    let network = bench.network.url();
    let args = ["serve", "--store", store, "--network", &network];
    let mut process = crate::support::process::Process::idem(args);
    assert_eq!(process.wait().code(), Some(exit), "{store}");
    let said = process.stderr();
    assert_eq!(said.lines().count(), 1, "one line is enough: {said}");
    said
}

#[test]
fn a_file_that_is_not_a_database() {
    let bench = Bench::new();
    let letter = "This is a letter to my aunt, and not a database. ".repeat(50);
    fs::write(bench.path("idem.db"), &letter).unwrap();
    let said = refused(&bench, &bench.store(), 3);
    assert!(said.contains("not an SQLite database"), "{said}");
    assert_eq!(fs::read_to_string(bench.path("idem.db")).unwrap(), letter);
}

#[test]
fn a_file_that_can_only_be_read() {
    let bench = Bench::new();
    bench.serve(&[]);
    // Permissions would not stop a test that runs as root.
    let said = refused(&bench, &format!("{}?mode=ro", bench.store()), 3);
    assert!(said.contains("cannot be written"), "{said}");
}

#[test]
fn a_schema_that_is_newer_than_the_binary() {
    let bench = Bench::new();
    bench.serve(&[]);
    RUNTIME.block_on(async {
        let mut database = SqliteConnection::connect(&bench.store()).await.unwrap();
        sqlx::query("INSERT INTO idem_schema VALUES (99, 0)").execute(&mut database).await.unwrap();
        database.close().await.unwrap();
    });
    let said = refused(&bench, &bench.store(), 3);
    assert!(said.contains("version 99") && said.contains("newer"), "{said}");
}

#[test]
fn a_path_where_no_file_can_be() {
    let bench = Bench::new();
    let folder = format!("sqlite:{}", bench.folder.path().display());
    refused(&bench, &folder, 3);
    let nowhere = format!("sqlite:{}", bench.path("no/such/folder/idem.db").display());
    refused(&bench, &nowhere, 3);
}

#[test]
fn a_url_that_no_backend_knows_is_not_repeated() {
    let bench = Bench::new();
    let said = refused(&bench, "postgrs://user:hunter2@host/db", 2);
    assert!(said.contains("--store takes one of") && !said.contains("hunter2"), "{said}");
}

#[test]
fn settings_out_of_their_range_are_wrong_use() {
    let bench = Bench::new();
    for setting in [
        ["--lease", "10ms"],
        ["--retention", "0s"],
        ["--retention", "29s"],
        ["--max-body", "1GiB"],
        ["--max-body", "0"],
        ["--reconcile-every", "0s"],
    ] {
        let mut process = bench.spawn(&setting);
        assert_eq!(process.wait().code(), Some(2), "{setting:?}");
        let said = process.stderr();
        assert!(said.contains(setting[0]), "{said}");
    }
    for setting in [["--lease", "1.5s"], ["--attempts", "0"], ["--max-reply", "1KB"]] {
        assert_eq!(bench.spawn(&setting).wait().code(), Some(2), "{setting:?}");
    }
    assert!(!bench.path("idem.db").exists(), "something was done before the check");
}
