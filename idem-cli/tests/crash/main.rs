//! Two server processes on one SQLite file and one card network, a client that hammers both, and
//! SIGKILL at random moments. However often that happens, each key is charged once.
//!
//! `IDEM_SEED=N` runs it with another run's random choices.

#[allow(dead_code)] // Each test binary uses a part of it.
#[path = "../support/mod.rs"]
mod support;

mod hammer;
mod random;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hammer::{DUPLICATES, Hammer, Outcome};
use random::Random;
use support::payments::{Bench, RUNTIME, TOKEN, answer, charge, is_replay};
use support::process::Server;

const KEYS: usize = 1_000;
/// At least so many servers are killed while the client is at work.
const KILLS: usize = 20;
/// A short lease, so that what a dead server held is soon taken over.
const ARGS: [&str; 4] = ["--lease", "500ms", "--attempts", "1000"];

/// Where the servers listen now, and how many were killed so far.
pub(crate) struct Stage {
    addresses: Mutex<[SocketAddr; 2]>,
    kills: AtomicUsize,
}

#[test]
fn a_thousand_keys_survive_twenty_kills() {
    let seed = random::seed();
    println!("IDEM_SEED={seed} reruns these random choices");
    let started = Instant::now();
    let bench = Bench::new();
    let mut servers = [bench.serve(&ARGS), bench.serve(&ARGS)];
    let stage = Arc::new(Stage {
        addresses: Mutex::new([servers[0].address, servers[1].address]),
        kills: AtomicUsize::new(0),
    });
    let hammer = Hammer::start(stage.clone(), KEYS, seed);
    let mut random = Random::new(seed);
    while !hammer.is_finished() {
        std::thread::sleep(random.duration(Duration::from_millis(100), Duration::from_millis(700)));
        let which = random.below(2);
        servers[which].process.kill();
        servers[which] = bench.serve(&ARGS);
        stage.restarted(which, &servers[which]);
    }
    let outcomes = hammer.outcomes();
    let kills = stage.kills.load(Ordering::SeqCst);
    println!("{kills} kills in {:?}: {}", started.elapsed(), Outcome::summary(&outcomes));

    assert!(kills >= KILLS, "seed {seed}: only {kills} kills");
    assert_eq!(outcomes.len(), KEYS, "seed {seed}");
    let mut charges = BTreeSet::new();
    for (number, outcome) in outcomes.iter().enumerate() {
        let first = &outcome.answers[0];
        assert_eq!(first.status, 201, "seed {seed}, key {number}");
        assert_eq!(outcome.answers.len(), DUPLICATES);
        for other in &outcome.answers {
            assert!(hammer::is_same(first, other), "seed {seed}, key {number}: two answers");
        }
        let id = first.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(first.json()["amount"], hammer::amount(number), "seed {seed}");
        assert!(charges.insert(id), "seed {seed}: two keys have one charge");
    }

    // The ground truth: one effect for each key, and the very one that was answered.
    let ledger = bench.ledger_of(TOKEN);
    assert_eq!(ledger.effects, KEYS as u64, "seed {seed}");
    assert!(ledger.calls >= ledger.effects);
    let held: BTreeSet<_> = ledger.data.iter().map(|entry| entry.charge.id.clone()).collect();
    assert_eq!(held, charges, "seed {seed}");
    let keys: BTreeSet<_> = ledger.data.iter().map(|entry| &entry.key).collect();
    assert_eq!(keys.len(), KEYS, "seed {seed}: two charges under one downstream key");

    for (number, outcome) in outcomes.iter().enumerate() {
        let request = charge(&hammer::key(number), hammer::amount(number));
        let replay = answer(servers[number % 2].address, &request);
        assert!(is_replay(&replay), "seed {seed}, key {number}: it ran again");
        assert!(hammer::is_same(&outcome.answers[0], &replay), "seed {seed}, key {number}");
    }
    assert_eq!(bench.ledger_of(TOKEN).calls, ledger.calls, "seed {seed}: a replay called");
}

impl Stage {
    pub(crate) fn address(&self, which: usize) -> SocketAddr {
        self.addresses.lock().unwrap()[which]
    }

    /// The client starts key `number` only after its share of kills, so that the kills are spread
    /// over the whole run, however fast the machine is.
    pub(crate) async fn wait_for_share(&self, number: usize) {
        while self.kills.load(Ordering::SeqCst) < number * KILLS / KEYS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn restarted(&self, which: usize, server: &Server) {
        self.addresses.lock().unwrap()[which] = server.address;
        self.kills.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs a task where requests are sent from.
pub(crate) fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    RUNTIME.spawn(task)
}

/// Waits for a task.
pub(crate) fn wait<T>(task: tokio::task::JoinHandle<T>) -> T {
    RUNTIME.block_on(task).unwrap()
}
