//! The memory store beyond the rules, which it calls: listings, capacity, races, and stores behind
//! pointers.

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::{Admin, Filter, StateFilter};
use idem_core::claim::{Claim, Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::engine::Engine;
use idem_core::error::ErrorKind;
use idem_core::fingerprint::{Fingerprint, Fingerprints};
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::record::{Fence, OperationName, Owner, Recovery, Retention};
use idem_core::store::{Cursor, MAX_PAGE, Page, Renewed, Store};
use idem_core::time::ManualClock;

const LEASE: Duration = Duration::from_secs(10);
const RETENTION: Duration = Duration::from_secs(100);

fn scope(scope: &str) -> Scope {
    Scope::new(scope).unwrap()
}

fn key(key: &str) -> Key {
    Key::new(key).unwrap()
}

fn reply() -> Sealed {
    Sealed::from_bytes("reply")
}

async fn claim(store: &dyn Store, of: &str, named: &str) -> Result<Claimed, ErrorKind> {
    let (scope, key) = (scope(of), key(named));
    let operation = OperationName::new("op").unwrap();
    let prints = Fingerprints::from(Fingerprint::of_bytes("x"));
    let retention = Retention::of(RETENTION);
    let owner = Owner::random();
    let claim =
        Claim::new(&scope, &key, owner, &operation, &prints, LEASE, retention, Takeover::Never);
    store.claim(&claim).await.map_err(|error| error.kind())
}

async fn held(store: &dyn Store, of: &str, named: &str) -> Fence {
    match claim(store, of, named).await {
        Ok(Claimed::Acquired(acquired)) => acquired.fence,
        other => panic!("not acquired: {other:?}"),
    }
}

fn world() -> (Arc<ManualClock>, MemoryStore) {
    let clock = Arc::new(ManualClock::new());
    (Arc::clone(&clock), MemoryStore::with_clock(clock))
}

fn names(page: &Page) -> Vec<&[u8]> {
    page.records.iter().map(|seen| seen.record.key.as_bytes()).collect()
}

/// Every page of a listing, one record at a time.
macro_rules! all_pages {
    ($page:expr) => {{
        let (mut all, mut after) = (Vec::new(), None::<Cursor>);
        loop {
            let page: Page = $page(after.as_ref()).await.unwrap();
            assert!(page.records.len() <= 1);
            all.extend(page.records.iter().map(|seen| seen.record.key.clone()));
            match page.next {
                Some(next) => after = Some(next),
                None => break all,
            }
        }
    }};
}

#[tokio::test]
async fn lapsed_records_come_oldest_lease_first_page_by_page() {
    let (clock, store) = world();
    for named in ["c", "a", "b"] {
        held(&store, "s", named).await;
        clock.advance(Duration::from_secs(1));
    }
    let finished = held(&store, "s", "finished").await;
    store.complete(&finished, &reply()).await.unwrap();
    clock.advance(LEASE);
    held(&store, "s", "live").await;
    let all = all_pages!(|after: Option<&Cursor>| {
        let (store, after) = (store.clone(), after.cloned());
        async move { store.lapsed(after.as_ref(), 1).await }
    });
    assert_eq!(all, ["c", "a", "b"].map(key));
    assert_eq!(names(&store.lapsed(None, 2).await.unwrap()), [b"c", b"a"]);
}

#[tokio::test]
async fn a_list_comes_by_scope_and_key_and_leaves_out_what_has_expired() {
    let (clock, store) = world();
    let old = held(&store, "a", "old").await;
    store.complete(&old, &reply()).await.unwrap();
    clock.advance(RETENTION);
    for (of, named) in [("b", "1"), ("a", "2"), ("a", "1")] {
        held(&store, of, named).await;
    }
    let done = held(&store, "b", "2").await;
    store.complete(&done, &reply()).await.unwrap();
    let all = all_pages!(|after: Option<&Cursor>| {
        let (store, after) = (store.clone(), after.cloned());
        async move { store.list(&Filter::all(), after.as_ref(), 1).await }
    });
    assert_eq!(all, ["1", "2", "1", "2"].map(key));

    let list = async |filter: Filter| store.list(&filter, None, MAX_PAGE).await.unwrap();
    assert_eq!(names(&list(Filter::all().scope(scope("b"))).await), [b"1", b"2"]);
    assert_eq!(names(&list(Filter::all().state(StateFilter::Completed)).await), [b"2"]);
    let other = OperationName::new("other").unwrap();
    assert!(list(Filter::all().operation(other)).await.records.is_empty());
    assert_eq!(list(Filter::all().state(StateFilter::Lapsed)).await.records.len(), 0);
    clock.advance(LEASE);
    assert_eq!(list(Filter::all().state(StateFilter::Lapsed)).await.records.len(), 3);
}

#[tokio::test]
async fn a_foreign_cursor_is_refused() {
    let (_, store) = world();
    let foreign = Cursor::from_bytes("not one of ours");
    let lapsed = store.lapsed(Some(&foreign), 1).await.unwrap_err();
    let list = store.list(&Filter::all(), Some(&foreign), 1).await.unwrap_err();
    assert_eq!([lapsed.kind(), list.kind()], [ErrorKind::InvalidInput; 2]);
}

#[tokio::test]
async fn a_full_store_says_so_and_still_finishes_what_it_has() {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::with_capacity(Arc::clone(&clock), 1);
    let fence = held(&store, "s", "first").await;
    assert_eq!(claim(&store, "s", "second").await, Err(ErrorKind::StoreFull));
    let point = Recovery { number: 1, payload: reply() };
    store.checkpoint(&fence, &point, LEASE).await.unwrap();
    store.complete(&fence, &reply()).await.unwrap();
    assert_eq!(claim(&store, "s", "second").await, Err(ErrorKind::StoreFull));
    clock.advance(RETENTION);
    held(&store, "s", "first").await;
    assert_eq!(store.sweep(10).await.unwrap().deleted, 0, "the expired one was replaced");
}

#[tokio::test]
async fn sweeping_and_forgetting_go_in_batches_and_say_what_is_left() {
    let (clock, store) = world();
    for named in ["1", "2", "3"] {
        let fence = held(&store, "s", named).await;
        store.complete(&fence, &reply()).await.unwrap();
    }
    held(&store, "s", "live").await;
    let forgotten = store.forget(&scope("s"), 2).await.unwrap();
    assert_eq!((forgotten.deleted, forgotten.in_progress, forgotten.more), (2, 1, true));
    clock.advance(RETENTION);
    let swept = store.sweep(1).await.unwrap();
    assert_eq!((swept.deleted, swept.more), (1, false));
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.lapsed_not_begun, stats.completed, stats.expired), (1, 0, 0));
    assert_eq!(stats.oldest_lapse, Some(RETENTION - LEASE));
}

/// R2: however many arrive at once, one wins, and so it is for one lapsed record.
#[test]
fn one_of_many_threads_wins() {
    let (clock, store) = world();
    for round in 1..=3_u32 {
        let winners: Vec<Fence> = std::thread::scope(|threads| {
            let callers: Vec<_> = (0..8)
                .map(|_| {
                    let store = &store;
                    threads.spawn(move || {
                        let runtime =
                            tokio::runtime::Builder::new_current_thread().build().unwrap();
                        match runtime.block_on(claim(store, "s", "k")).unwrap() {
                            Claimed::Acquired(acquired) => Some(acquired.fence),
                            Claimed::InProgress { .. } => None,
                            other => panic!("{other:?}"),
                        }
                    })
                })
                .collect();
            callers.into_iter().filter_map(|caller| caller.join().unwrap()).collect()
        });
        assert_eq!(winners.len(), 1);
        assert_eq!(winners[0].attempt, round);
        clock.advance(LEASE);
    }
}

/// R24.
#[tokio::test]
async fn debug_shows_no_records() {
    let (_, store) = world();
    held(&store, "secret-scope", "secret-key").await;
    let shown = format!("{store:?}");
    assert!(shown.contains("records: 1") && !shown.contains("secret"), "{shown}");
}

/// A store behind a pointer, of a known type or not, is a store, and an engine runs on it.
#[tokio::test]
async fn stores_behind_pointers_are_stores() {
    async fn verbs(store: impl Admin + Clone) {
        let fence = held(&store, "s", "k").await;
        assert!(matches!(store.renew(&fence, LEASE).await, Ok(Renewed::Held(_))));
        let point = Recovery { number: 1, payload: reply() };
        store.checkpoint(&fence, &point, LEASE).await.unwrap();
        assert_eq!(store.release(&fence).await.unwrap_err().kind(), ErrorKind::Refused);
        store.complete(&fence, &reply()).await.unwrap();
        assert!(store.get(&fence.scope, &fence.key).await.unwrap().is_some());
        assert!(store.lapsed(None, 1).await.unwrap().records.is_empty());
        assert_eq!(store.sweep(1).await.unwrap().deleted, 0);
        assert_eq!(store.stats().await.unwrap().completed, 1);
        assert_eq!(store.list(&Filter::all(), None, 1).await.unwrap().records.len(), 1);
        store.remove(&fence).await.unwrap();
        assert_eq!(store.forget(&fence.scope, 1).await.unwrap().deleted, 0);
        drop(Engine::builder(store).namespace("n").unwrap().build().unwrap());
    }
    verbs(MemoryStore::new()).await;
    verbs(Arc::new(MemoryStore::new())).await;
    verbs(Arc::new(MemoryStore::new()) as Arc<dyn Admin>).await;
    verbs(Arc::new(Box::new(MemoryStore::new()) as Box<dyn Admin>)).await;

    let upcast: Arc<dyn Store> = Arc::new(MemoryStore::new()) as Arc<dyn Admin>;
    held(&upcast, "s", "k").await;
    let boxed: Box<dyn Store> = Box::new(upcast);
    assert!(matches!(claim(&boxed, "s", "k").await, Ok(Claimed::InProgress { .. })));
    drop(Engine::builder(boxed).namespace("n").unwrap().build().unwrap());
}
