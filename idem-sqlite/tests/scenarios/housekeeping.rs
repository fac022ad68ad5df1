//! `lapsed`, `sweep`, and the operator's verbs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::{Admin, Filter, StateFilter, Stats};
use idem_core::error::ErrorKind;
use idem_core::key::Scope;
use idem_core::record::{OperationName, Retention};
use idem_core::store::{Cursor, Page};
use idem_core::time::ManualClock;

use crate::support::{LEASE, RETENTION, Request, kind_of, point, sealed};

fn keys(page: &Page) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    page.records.iter().map(|seen| text(seen.record.key.as_bytes())).collect()
}

pub(crate) async fn lapsed_records_come_oldest_first_in_pages(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    for (number, key) in ["d", "b", "c", "a"].into_iter().enumerate() {
        let lease = LEASE - Duration::from_secs(number as u64 / 2);
        Request::new(key).with(|it| it.lease = lease).acquire(&store).await;
    }
    let done = Request::new("done").acquire(&store).await.fence;
    store.complete(&done, &sealed("reply")).await.unwrap();
    assert_eq!(store.lapsed(None, 10).await.unwrap(), Page::default());
    clock.advance(LEASE);
    Request::new("live").acquire(&store).await;

    let all = store.lapsed(None, 10).await.unwrap();
    assert_eq!((keys(&all), &all.next), (["a", "c", "b", "d"].map(String::from).to_vec(), &None));
    assert_eq!(all.records[0].lapsed_for(), Some(Duration::from_secs(1)));
    let mut seen = Vec::new();
    let mut after: Option<Cursor> = None;
    loop {
        let page = store.lapsed(after.as_ref(), 1).await.unwrap();
        seen.extend(keys(&page));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, keys(&all));
    let exact = store.lapsed(None, 4).await.unwrap();
    assert_eq!((exact.records.len(), exact.next), (4, None), "a full last page has no cursor");
}

pub(crate) async fn a_cursor_of_another_listing_is_refused(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    for bytes in [&b""[..], b"x", &[9; 40]] {
        let cursor = Cursor::from_bytes(bytes);
        assert_eq!(kind_of(store.lapsed(Some(&cursor), 1).await), ErrorKind::InvalidInput);
        let listed = store.list(&Filter::all(), Some(&cursor), 1).await;
        assert_eq!(kind_of(listed), ErrorKind::InvalidInput);
    }
}

pub(crate) async fn a_sweep_takes_expired_replies_and_what_never_began(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    for key in ["x", "y", "z"] {
        let fence = Request::new(key).acquire(&store).await.fence;
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
    let forever = Request::new("forever").with(|it| it.retention = Retention::Forever);
    let fence = forever.acquire(&store).await.fence;
    store.complete(&fence, &sealed("reply")).await.unwrap();
    Request::new("in progress").acquire(&store).await;
    Request::new("not begun").with(|it| it.marks_begun = true).acquire(&store).await;
    let begun = Request::new("begun").with(|it| it.marks_begun = true);
    let begun = begun.acquire(&store).await.fence;
    store.checkpoint(&begun, &point(1), LEASE).await.unwrap();
    let unending = Request::new("not begun, for ever").with(|it| {
        it.marks_begun = true;
        it.retention = Retention::Forever;
    });
    unending.acquire(&store).await;

    clock.advance(RETENTION - Duration::from_micros(1));
    let nothing = store.sweep(100).await.unwrap();
    assert_eq!((nothing.deleted, nothing.more), (0, false));
    clock.advance(Duration::from_micros(1));
    let first = store.sweep(3).await.unwrap();
    assert_eq!((first.deleted, first.more), (3, true));
    let second = store.sweep(3).await.unwrap();
    assert_eq!((second.deleted, second.more), (1, false));
    let left = keys(&store.list(&Filter::all(), None, 100).await.unwrap());
    assert_eq!(left, ["begun", "forever", "in progress", "not begun, for ever"]);
}

pub(crate) async fn a_listing_filters_and_pages_by_scope_and_key(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    for (scope, key) in [("b", "2"), ("a", "1"), ("b", "1"), ("c", "1"), ("a", "2")] {
        Request::opaque(scope, key.as_bytes()).acquire(&store).await;
    }
    clock.advance(LEASE);
    let refund =
        Request::opaque("b", b"3").with(|it| it.operation = OperationName::new("refund").unwrap());
    refund.acquire(&store).await;
    let done = Request::opaque("b", b"4").acquire(&store).await.fence;
    store.complete(&done, &sealed("reply")).await.unwrap();

    let scope = Scope::new("b").unwrap();
    let all = Filter::all();
    let in_b = Filter::all().scope(scope.clone());
    let cases = [
        (all.clone(), vec!["1", "2", "1", "2", "3", "4", "1"]),
        (in_b.clone(), vec!["1", "2", "3", "4"]),
        (all.clone().state(StateFilter::Lapsed), vec!["1", "2", "1", "2", "1"]),
        (in_b.clone().state(StateFilter::Live), vec!["3"]),
        (in_b.clone().state(StateFilter::Completed), vec!["4"]),
        (all.operation(refund.operation.clone()), vec!["3"]),
    ];
    for (filter, expected) in cases {
        for limit in [1, 2, 100] {
            let mut seen = Vec::new();
            let mut after = None;
            loop {
                let page = store.list(&filter, after.as_ref(), limit).await.unwrap();
                assert!(page.records.len() <= limit as usize);
                seen.extend(keys(&page));
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            assert_eq!(seen, expected, "{filter:?} by {limit}");
        }
    }
    clock.advance(RETENTION);
    let kept = keys(&store.list(&in_b, None, 100).await.unwrap());
    assert_eq!(kept, ["1", "2", "3"], "an expired reply is not listed");
}

pub(crate) async fn a_cursor_goes_on_in_whatever_scope_is_asked(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    for scope in ["a", "b", "c"] {
        Request::opaque(scope, b"k").acquire(&store).await;
    }
    let first = store.list(&Filter::all(), None, 2).await.unwrap();
    let after_b = first.next.expect("one more waits");
    for (scope, expected) in [("a", 0), ("b", 0), ("c", 1)] {
        let filter = Filter::all().scope(Scope::new(scope).unwrap());
        let page = store.list(&filter, Some(&after_b), 10).await.unwrap();
        assert_eq!(page.records.len(), expected, "scope {scope}");
    }
}

pub(crate) async fn the_counts_are_right(store: impl Admin, clock: Arc<ManualClock>) {
    for key in ["1", "2"] {
        let fence = Request::new(key).acquire(&store).await.fence;
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
    clock.advance(RETENTION);
    Request::new("3").acquire(&store).await;
    let begun = Request::new("4").acquire(&store).await.fence;
    store.checkpoint(&begun, &point(1), LEASE).await.unwrap();
    clock.advance(LEASE + Duration::from_secs(7));
    Request::new("5").acquire(&store).await;
    let done = Request::new("6").acquire(&store).await.fence;
    store.complete(&done, &sealed("reply")).await.unwrap();

    let stats = store.stats().await.unwrap();
    let expected = Stats {
        live: 1,
        lapsed_begun: 1,
        lapsed_not_begun: 1,
        completed: 1,
        expired: 2,
        oldest_lapse: Some(Duration::from_secs(7)),
        outbox_pending: stats.outbox_pending,
    };
    assert_eq!(stats, expected);
}

pub(crate) async fn forgetting_a_scope_leaves_what_is_in_progress(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    for key in ["1", "2", "3"] {
        let fence = Request::new(key).acquire(&store).await.fence;
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
    let other = Request::opaque("scope-2", b"1").acquire(&store).await.fence;
    store.complete(&other, &sealed("reply")).await.unwrap();
    let lapsed = Request::new("lapsed").acquire(&store).await.fence;
    clock.advance(LEASE);
    Request::new("live").acquire(&store).await;

    let first = store.forget(&lapsed.scope, 2).await.unwrap();
    assert_eq!((first.deleted, first.in_progress, first.more), (2, 2, true));
    let second = store.forget(&lapsed.scope, 2).await.unwrap();
    assert_eq!((second.deleted, second.in_progress, second.more), (1, 2, false));
    let left: BTreeSet<String> =
        keys(&store.list(&Filter::all(), None, 10).await.unwrap()).into_iter().collect();
    assert_eq!(left, BTreeSet::from(["1", "lapsed", "live"].map(String::from)));
    store.complete(&lapsed, &sealed("reply")).await.expect("it was left alone");
}
