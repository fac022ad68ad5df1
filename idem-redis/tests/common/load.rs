//! Work under which servers and connections fail. Effects are counted apart from what the store
//! says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use idem_core::admin::Admin;
use idem_core::claim::Claimed;
use idem_core::codec::Sealed;
use idem_core::error::StoreError;
use idem_core::key::Key;
use idem_core::record::{Owner, State};
use idem_core::store::Store;
use idem_redis::RedisStore;
use idem_redis::redis::{Client, cmd};
use tokio::task::JoinHandle;

use super::{claim, key, reply, scope};

/// So long that nothing lapses: whoever wins a key runs it, whatever happens to the server.
const LEASE: Duration = Duration::from_secs(3_600);

#[derive(Default)]
pub(crate) struct Ledger {
    next: AtomicUsize,
    stop: AtomicBool,
    flushes: AtomicUsize,
    errors: AtomicUsize,
    replays: AtomicUsize,
    /// By key, every effect that happened, as the reply that tells of it.
    effects: Mutex<BTreeMap<usize, Vec<Sealed>>>,
}

/// Every key has one effect, its reply stands, and nothing is left in progress.
pub(crate) async fn check(store: &RedisStore, ledger: &Ledger) -> usize {
    let effects = ledger.effects.lock().unwrap().clone();
    for (number, replies) in &effects {
        assert_eq!(replies.len(), 1, "key {number} had {} effects", replies.len());
        let seen = store.get(&scope(), &name(*number)).await.unwrap().expect("the record stands");
        let State::Completed { reply, .. } = seen.record.state else {
            panic!("key {number} is stuck");
        };
        assert_eq!(reply, replies[0], "key {number} lost its reply");
    }
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.live, stats.lapsed_begun, stats.lapsed_not_begun), (0, 0, 0));
    assert_eq!(stats.completed, effects.len() as u64);
    effects.len()
}

/// Starts workers on each store.
pub(crate) fn start(
    stores: &[RedisStore],
    workers: usize,
    ledger: &Arc<Ledger>,
) -> Vec<JoinHandle<()>> {
    let stores = stores.iter().cycle().take(stores.len() * workers);
    stores.map(|store| tokio::spawn(work(store.clone(), ledger.clone()))).collect()
}

/// Three workers meet on each key. Each calls as an engine does: the same call with the same
/// owner until it is answered.
async fn work(store: RedisStore, ledger: Arc<Ledger>) {
    while !ledger.stop.load(Ordering::SeqCst) {
        let number = ledger.next.fetch_add(1, Ordering::SeqCst) / 3;
        let key = name(number);
        loop {
            let owner = Owner::random();
            let asked = Instant::now();
            let claimed = loop {
                match claim(&store, &key, owner, LEASE).await {
                    Ok(claimed) => break claimed,
                    Err(error) => ledger.meet(&error, asked).await,
                }
            };
            match claimed {
                Claimed::Acquired(acquired) => {
                    let told = reply(format!("{number}: {owner:?}"));
                    ledger.effects.lock().unwrap().entry(number).or_default().push(told.clone());
                    let asked = Instant::now();
                    while let Err(error) = store.complete(&acquired.fence, &told).await {
                        ledger.meet(&error, asked).await;
                    }
                    break;
                }
                Claimed::InProgress { .. } => tokio::time::sleep(Duration::from_millis(2)).await,
                Claimed::Completed(replay) => {
                    let first = ledger.effects.lock().unwrap()[&number][0].clone();
                    assert_eq!(replay.reply, first, "key {number} replays something else");
                    ledger.replays.fetch_add(1, Ordering::SeqCst);
                    break;
                }
                other => panic!("key {number}: {other:?}"),
            }
        }
    }
}

impl Ledger {
    /// Ends the work and waits for what was begun.
    pub(crate) async fn finish(&self, workers: Vec<JoinHandle<()>>) {
        self.stop.store(true, Ordering::SeqCst);
        for worker in workers {
            worker.await.unwrap();
        }
    }

    pub(crate) fn flushes(&self) -> usize {
        self.flushes.load(Ordering::SeqCst)
    }

    /// What was met, for the run's output.
    pub(crate) fn summary(&self, keys: usize) -> String {
        let errors = self.errors.load(Ordering::SeqCst);
        let replays = self.replays.load(Ordering::SeqCst);
        let flushes = self.flushes();
        format!("{flushes} flushes, {errors} errors met, {keys} keys, {replays} replays")
    }

    /// An error that the same call may get over, in good time.
    async fn meet(&self, error: &StoreError, asked: Instant) {
        self.errors.fetch_add(1, Ordering::SeqCst);
        assert!(error.kind().is_transient(), "{error}");
        assert!(asked.elapsed() < Duration::from_secs(60), "stuck: {error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until some keys more were taken, so that each fault meets running work.
pub(crate) async fn until_progress(ledger: &Ledger) {
    let from = ledger.next.load(Ordering::SeqCst);
    let started = Instant::now();
    while ledger.next.load(Ordering::SeqCst) < from + 12 {
        assert!(started.elapsed() < Duration::from_secs(60), "the work does not go on");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) async fn flush_scripts(url: String, ledger: Arc<Ledger>) {
    let client = Client::open(url).unwrap();
    let flush = cmd("SCRIPT").arg("FLUSH").to_owned();
    loop {
        if let Ok(mut connection) = client.get_multiplexed_async_connection().await
            && flush.exec_async(&mut connection).await.is_ok()
        {
            ledger.flushes.fetch_add(1, Ordering::SeqCst);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn name(number: usize) -> Key {
    key(format!("order-{number}"))
}
