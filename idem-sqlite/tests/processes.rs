//! Two processes on one file, killed in the middle of their work again and again.
//!
//! The workers are this test binary run a second time: the test `worker` does nothing unless the
//! environment says what to do.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::record::{Fence, State};
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use idem_sqlite::SqliteStore;
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use idem_sqlite::sqlx::{self, ConnectOptions, Executor, SqliteConnection};
use idem_testkit::random::Random;

use crate::support::{Place, Request, point, sealed};

const KILLS: u64 = 24;
const KEYS_PER_START: u64 = 30;
/// Short, so that the keys of the dead are taken over while the test runs.
const LEASE: Duration = Duration::from_millis(150);
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn two_processes_and_kill_leave_one_effect_for_each_key() {
    let mut random = Random::announced("two_processes_and_kill_leave_one_effect_for_each_key");
    let place = Place::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(make_tables(&place));

    let mut keys = KEYS_PER_START;
    let mut workers = [0, 1].map(|_| Worker::start(&place, random.next(), keys, false));
    for _ in 0..KILLS {
        // Not to wait for anything, but to kill at a moment that nobody has chosen.
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        keys += KEYS_PER_START;
        let next = Worker::start(&place, random.next(), keys, false);
        let mut old = std::mem::replace(&mut workers[random.below(2) as usize], next);
        assert_eq!(old.kill().code(), None, "it was killed and had not failed before");
    }
    drop(workers);
    let finishers = [0, 1].map(|_| Worker::start(&place, random.next(), keys, true));
    for mut finisher in finishers {
        assert!(finisher.finish().success());
    }
    runtime.block_on(check(&place, keys));
}

/// One process at work. It ends with this value, or with the test's process.
struct Worker {
    child: Child,
    /// Kept open, so that the worker can write.
    _output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a worker, and waits until it has the store open.
    fn start(place: &Place, seed: u64, keys: u64, finishes: bool) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["worker", "--exact", "--nocapture"])
            .env("IDEM_WORKER_STORE", &place.path)
            .env("IDEM_WORKER_SEED", seed.to_string())
            .env("IDEM_WORKER_KEYS", keys.to_string())
            .env("IDEM_WORKER_FINISHES", finishes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary runs again");
        let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let mut line = String::new();
        while !line.contains("at work") {
            line.clear();
            let read = output.read_line(&mut line).expect("the worker speaks");
            assert!(read > 0, "the worker ended before it was at work");
        }
        Self { child, _output: output }
    }

    /// SIGKILL.
    fn kill(&mut self) -> ExitStatus {
        self.child.kill().expect("it can be killed");
        self.finish()
    }

    fn finish(&mut self) -> ExitStatus {
        // Taken out, since `wait` closes it, and that would end the worker.
        let input = self.child.stdin.take();
        let status = self.child.wait().expect("it ends");
        drop(input);
        status
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends this process when the one that started it is gone.
fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(3);
    });
}

#[test]
fn worker() {
    let Ok(path) = std::env::var("IDEM_WORKER_STORE") else { return };
    end_with_parent();
    let number = |name: &str| -> u64 { std::env::var(name).unwrap().parse().unwrap() };
    let random = Random::from_seed(number("IDEM_WORKER_SEED"));
    let finishes = std::env::var("IDEM_WORKER_FINISHES").unwrap() == "true";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(work(Path::new(&path), random, number("IDEM_WORKER_KEYS"), finishes));
}

async fn make_tables(place: &Place) {
    let effects = "CREATE TABLE effects (key BLOB NOT NULL, owner BLOB NOT NULL) STRICT";
    place.sql().await.execute(effects).await.unwrap();
    let table = "CREATE TABLE won (key BLOB, incarnation BLOB, attempt INTEGER) STRICT";
    ledger(&place.path).await.execute(table).await.unwrap();
}

/// A file of its own, so that it says what was won although the worker was killed right after.
async fn ledger(store: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(store.with_extension("ledger"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Off)
        .busy_timeout(PATIENCE);
    options.connect().await.expect("the ledger opens")
}

async fn work(path: &Path, mut random: Random, keys: u64, finishes: bool) {
    let builder = SqliteStore::builder().busy_timeout(PATIENCE);
    let store = builder.open(path).await.expect("the store opens");
    let mut ledger = ledger(path).await;
    println!("at work");
    let mut left: Vec<u64> = (0..keys).collect();
    while !left.is_empty() {
        let at = random.below(left.len() as u64) as usize;
        let done = match attempt(&store, &mut ledger, left[at], &mut random).await {
            Ok(done) => done,
            Err(error) => {
                let expected = matches!(error.kind(), ErrorKind::FenceLost | ErrorKind::NotApplied);
                assert!(expected, "seen {error:?}");
                false
            }
        };
        if done && finishes {
            left.swap_remove(at);
        }
    }
}

fn request(key: u64) -> Request {
    let request = Request::new(&format!("key {key}"));
    request.with(|it| it.lease = LEASE)
}

/// Whether the key is completed, now or before.
async fn attempt(
    store: &SqliteStore,
    ledger: &mut SqliteConnection,
    key: u64,
    random: &mut Random,
) -> Result<bool, StoreError> {
    let request = request(key);
    if key.is_multiple_of(3) {
        return in_one_commit(store, &request).await;
    }
    let fence = match store.claim(&request.claim()).await? {
        Claimed::Acquired(won) => won.fence,
        Claimed::Completed(_) => return Ok(true),
        Claimed::InProgress { .. } => return Ok(false),
        other => panic!("unexpected {other:?}"),
    };
    sqlx::query("INSERT INTO won VALUES (?1, ?2, ?3)")
        .bind(fence.key.as_bytes())
        .bind(fence.incarnation.as_bytes().as_slice())
        .bind(i64::from(fence.attempt))
        .execute(ledger)
        .await
        .expect("the ledger takes it");
    let stands = store.get(&fence.scope, &fence.key).await?;
    let begun = stands.is_some_and(|seen| seen.record.recovery().is_some());
    if !begun && random.below(2) == 0 {
        store.checkpoint(&fence, &point(1), LEASE).await?;
    }
    let mut transaction = store.begin().await?;
    store.hold_in(&mut transaction, &fence).await?;
    effect(transaction.connection(), &fence).await;
    store.complete_in(&mut transaction, &fence, &sealed(fence.owner.as_bytes())).await?;
    store.commit(transaction).await?;
    Ok(true)
}

async fn in_one_commit(store: &SqliteStore, request: &Request) -> Result<bool, StoreError> {
    let mut transaction = store.begin().await?;
    let fence = match store.claim_in(&mut transaction, &request.claim()).await? {
        Claimed::Acquired(won) => won.fence,
        Claimed::Completed(_) => return Ok(true),
        other => panic!("nobody holds it outside of a transaction: {other:?}"),
    };
    assert_eq!(fence.attempt, 1, "a killed transaction leaves no record");
    effect(transaction.connection(), &fence).await;
    store.complete_in(&mut transaction, &fence, &sealed(fence.owner.as_bytes())).await?;
    store.commit(transaction).await?;
    Ok(true)
}

async fn effect(connection: &mut SqliteConnection, fence: &Fence) {
    let insert = sqlx::query("INSERT INTO effects VALUES (?1, ?2)");
    let insert = insert.bind(fence.key.as_bytes()).bind(fence.owner.as_bytes().as_slice());
    insert.execute(connection).await.expect("the effect is written");
}

async fn check(place: &Place, keys: u64) {
    let effects: Vec<(Vec<u8>, Vec<u8>)> = sqlx::query_as("SELECT key, owner FROM effects")
        .fetch_all(&mut place.sql().await)
        .await
        .unwrap();
    assert_eq!(effects.len() as u64, keys, "one effect for each key");
    let effects: BTreeMap<Vec<u8>, Vec<u8>> = effects.into_iter().collect();
    assert_eq!(effects.len() as u64, keys, "and not two for one and none for another");

    let store = place.open().await;
    let mut attempts = 0;
    for key in 0..keys {
        let request = request(key);
        let record = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
        attempts += u64::from(record.attempt);
        let State::Completed { reply, .. } = record.state else { panic!("key {key} is not done") };
        let owner = &effects[request.key.as_bytes()];
        assert_eq!(reply.as_bytes(), owner, "the reply of key {key} is that of its effect");
    }
    let won: Vec<(Vec<u8>, i64, i64)> =
        sqlx::query_as("SELECT incarnation, attempt, COUNT(*) FROM won GROUP BY 1, 2")
            .fetch_all(&mut ledger(&place.path).await)
            .await
            .unwrap();
    for (_, attempt, times) in &won {
        assert_eq!(*times, 1, "attempt {attempt} of one life was won {times} times");
    }
    println!("{keys} keys, {} claims won, {} takeovers", won.len(), attempts - keys);
}
