//! Two stores on one file, as two processes have them, and many callers at once.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::record::Incarnation;
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_sqlite::SqliteStore;
use idem_testkit::random::Random;

use crate::support::{LEASE, Place, Request, sealed};

/// Long enough for a slow machine with many callers: these tests are about who wins.
const PATIENCE: Duration = Duration::from_secs(60);

async fn two_stores(place: &Place, clock: &Arc<ManualClock>) -> [SqliteStore; 2] {
    let builder = SqliteStore::builder().clock(Arc::clone(clock)).busy_timeout(PATIENCE);
    [place.open_with(builder.clone()).await, place.open_with(builder).await]
}

/// Sends all claims at once, every second one to the other store.
async fn all_at_once(stores: &[SqliteStore; 2], requests: Vec<Request>) -> Vec<Claimed> {
    let start = Arc::new(tokio::sync::Barrier::new(requests.len()));
    let tasks: Vec<_> = requests
        .into_iter()
        .enumerate()
        .map(|(number, request)| {
            let (store, start) = (stores[number % 2].clone(), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                request.send(&store).await
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("no caller panics"));
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_claims_of_one_key_one_wins() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let stores = two_stores(&place, &clock).await;
    let request = Request::new("k");
    // Each round is a fresh life or a takeover of the one before.
    for attempt in 1..=3 {
        let requests = (0..64).map(|_| request.again()).collect();
        let answers = all_at_once(&stores, requests).await;
        let won: Vec<_> = answers
            .iter()
            .filter_map(|answer| match answer {
                Claimed::Acquired(acquired) => Some(acquired.fence.attempt),
                Claimed::InProgress { remaining } => {
                    assert_eq!(*remaining, LEASE);
                    None
                }
                other => panic!("expected to win or to wait, seen {other:?}"),
            })
            .collect();
        assert_eq!(won, [attempt]);
        clock.advance(LEASE);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_each_of_200_keys_one_of_8_claims_wins() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let stores = two_stores(&place, &clock).await;
    let mut random = Random::announced("of_each_of_200_keys_one_of_8_claims_wins");
    let mut requests: Vec<Request> = (0..200)
        .flat_map(|number| {
            let request = Request::new(&format!("key {number}"));
            (0..8).map(move |_| request.again()).collect::<Vec<_>>()
        })
        .collect();
    for place in (1..requests.len()).rev() {
        requests.swap(place, random.below(place as u64 + 1) as usize);
    }
    let mut winners: BTreeMap<Vec<u8>, Vec<(Incarnation, u32)>> = BTreeMap::new();
    for answer in all_at_once(&stores, requests).await {
        match answer {
            Claimed::Acquired(won) => winners
                .entry(won.fence.key.as_bytes().to_vec())
                .or_default()
                .push((won.fence.incarnation, won.fence.attempt)),
            Claimed::InProgress { .. } => {}
            other => panic!("expected to win or to wait, seen {other:?}"),
        }
    }
    assert_eq!(winners.len(), 200);
    for (key, won) in winners {
        assert_eq!(won.len(), 1, "key {}", String::from_utf8_lossy(&key));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_and_a_taker_never_both_complete() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let stores = two_stores(&place, &clock).await;
    for number in 0..50 {
        let request = Request::new(&format!("k{number}"));
        let holder = request.acquire(&stores[0]).await.fence;
        clock.advance(LEASE);
        let (first, second) = (stores[0].clone(), stores[1].clone());
        let completes = tokio::spawn(async move { first.complete(&holder, &sealed("a")).await });
        let taker = request.again();
        let takes = tokio::spawn(async move {
            match taker.send(&second).await {
                Claimed::Acquired(won) => Some(second.complete(&won.fence, &sealed("b")).await),
                Claimed::Completed(_) => None,
                other => panic!("expected to take over or a reply, seen {other:?}"),
            }
        });
        let holder = completes.await.unwrap();
        let expected = match takes.await.unwrap() {
            None => {
                holder.expect("nobody was in its way");
                sealed("a")
            }
            Some(taken) => {
                taken.expect("the taker holds it");
                holder.expect_err("it was fenced out");
                sealed("b")
            }
        };
        let Claimed::Completed(replay) = request.again().send(&stores[0]).await else {
            panic!("expected the reply");
        };
        assert_eq!(replay.reply, expected);
    }
}

/// Sweeping, listing and counting from both sides while keys are used and expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn housekeeping_beside_claims_loses_nothing() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let stores = two_stores(&place, &clock).await;
    let sweeper = stores[1].clone();
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let sweeps = tokio::spawn(async move {
        let mut deleted = 0;
        while !*stopped.borrow_and_update() {
            deleted += u64::from(sweeper.sweep(7).await.unwrap().deleted);
            sweeper.lapsed(None, 10).await.unwrap();
            tokio::task::yield_now().await;
        }
        deleted
    });
    let keys = 100;
    for number in 0..keys {
        let request = Request::new(&format!("k{number}"));
        let fence = request.acquire(&stores[0]).await.fence;
        stores[0].complete(&fence, &sealed("reply")).await.unwrap();
        assert!(matches!(request.again().send(&stores[0]).await, Claimed::Completed(_)));
        clock.advance(support::RETENTION);
    }
    stop.send(true).unwrap();
    let mut deleted = sweeps.await.unwrap();
    deleted += u64::from(stores[0].sweep(1_000).await.unwrap().deleted);
    assert_eq!(deleted, keys);
}
