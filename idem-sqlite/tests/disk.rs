//! A disk that fails in the middle of a commit.
//!
//! A shell around this test binary makes the disk, and runs the binary a second time as the test
//! `worker`; that does nothing unless the environment says what to do.

#![cfg(unix)]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use idem_core::admin::Admin;
use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::record::{Fence, State};
use idem_core::store::Store;
use idem_sqlite::SqliteStore;

use crate::support::{Place, Request, sealed};

/// More keys than these disks have room for.
const KEYS: usize = 300;
/// How many failures are enough.
const FAILURES: usize = 10;

/// Makes the disk in a shell of its own, and there does what `then` says.
fn shell(around: &[&str], script: &str, place: &Place, expected: ErrorKind) -> Command {
    let mut command = Command::new(around[0]);
    command
        .args(&around[1..])
        .args(["sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("IDEM_DISK_STORE", &place.path)
        .env("IDEM_DISK", place.path.parent().unwrap())
        .env("IDEM_DISK_ERROR", expected.name());
    command
}

/// A file that may not grow makes writes fail as I/O errors, which say nothing of what reached
/// the disk.
#[test]
fn a_write_error_at_the_commit_is_an_unknown_outcome() {
    let place = Place::new();
    let script = "trap '' XFSZ; ulimit -f 400; exec \"$0\" worker --exact";
    let mut limited = shell(&["env"], script, &place, ErrorKind::OutcomeUnknown);
    worked(&mut limited);
    // Without the limit it goes on.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = place.open().await;
        assert!(store.stats().await.unwrap().completed > 0);
        let fence = Request::new("afterwards").acquire(&store).await.fence;
        store.complete(&fence, &sealed("reply")).await.unwrap();
    });
}

/// A disk with no room left fails in the middle of a commit too, and then it is known that the
/// commit did not happen. It takes a mount of its own, which not every machine allows.
#[test]
fn a_disk_without_room_at_the_commit_is_a_full_store() {
    let place = Place::new();
    let (around, full) = (["unshare", "-r", "-m"], ErrorKind::StoreFull);
    let mount = "mount -t tmpfs -o size=400k tmpfs \"$IDEM_DISK\"";
    let allowed = shell(&around, mount, &place, full).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        // Only whoever runs the tests decides that this goes unproven on their machine.
        let given_up = std::env::var_os("IDEM_NO_SMALL_DISK").is_some();
        assert!(given_up, "a small disk cannot be mounted; set IDEM_NO_SMALL_DISK=1 to go without");
        return;
    }
    let script = format!("{mount} && exec \"$0\" worker --exact");
    worked(&mut shell(&around, &script, &place, full));
}

/// Runs it with pipes for its output: the limit on a file's size holds for this test's own output
/// too, and that may go to a file that is larger.
fn worked(command: &mut Command) {
    let worker = command.output().unwrap();
    let (told, errors) = (worker.stdout, String::from_utf8_lossy(&worker.stderr).into_owned());
    let told = String::from_utf8_lossy(&told);
    assert!(worker.status.success(), "{}\n{told}\n{errors}", worker.status);
    assert!(told.contains("1 passed"), "{told}");
}

#[test]
fn worker() {
    let Ok(path) = std::env::var("IDEM_DISK_STORE") else { return };
    let expected = std::env::var("IDEM_DISK_ERROR").unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(work(Path::new(&path), &expected));
}

async fn work(path: &Path, expected: &str) {
    let store = SqliteStore::open(path).await.unwrap();
    let (mut done, mut held, mut failures) = (Vec::new(), Vec::new(), 0);
    for number in 0..KEYS {
        let request = Request::new(&format!("key {number}"));
        let outcome = match store.claim(&request.claim()).await {
            Ok(Claimed::Acquired(won)) => {
                let completed = store.complete(&won.fence, &sealed([7; 3_000])).await;
                match completed {
                    Ok(()) => done.push(won.fence),
                    Err(_) => held.push(won.fence),
                }
                completed
            }
            Ok(other) => panic!("expected to acquire, seen {other:?}"),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            assert_eq!(error.kind().name(), expected, "{error}");
            failures += 1;
            if failures == FAILURES {
                break;
            }
        }
    }
    assert_eq!(failures, FAILURES, "the disk was never full");
    assert!(!done.is_empty());
    check(&store, &done, &held).await;
    if expected == ErrorKind::StoreFull.name() {
        make_room().await;
        for fence in &held {
            store.complete(fence, &sealed("late")).await.expect("there is room again");
        }
        let fence = Request::new("afterwards").acquire(&store).await.fence;
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
    store.close().await;
    let store = SqliteStore::open(path).await.unwrap();
    check(&store, &done, &[]).await;
}

/// What was acknowledged stands; what was won and not completed is still held.
async fn check(store: &SqliteStore, done: &[Fence], held: &[Fence]) {
    for fence in done {
        let record = store.get(&fence.scope, &fence.key).await.unwrap().unwrap().record;
        assert!(matches!(record.state, State::Completed { .. }) && record.is_under(fence));
    }
    for fence in held {
        let record = store.get(&fence.scope, &fence.key).await.unwrap().unwrap().record;
        assert!(record.is_under(fence));
    }
}

async fn make_room() {
    let disk = std::env::var("IDEM_DISK").unwrap();
    let grown = Command::new("mount").args(["-o", "remount,size=8m"]).arg(disk).status();
    assert!(grown.unwrap().success());
}
