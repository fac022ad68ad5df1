//! Pages, sweeps in batches, and what the outbox holds.

mod support;

use idem_core::admin::{Admin, Filter, StateFilter};
use idem_core::error::ErrorKind;
use idem_core::key::Scope;
use idem_core::outbox::OutboxMessage;
use idem_core::store::{Cursor, Page, Store};
use idem_core::transactional::TransactionalStore;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::{self, Row};
use support::{LEASE, Place, RETENTION, Request, Server, kind_of, number, sealed};
use tokio::task::JoinSet;

/// All pages, one after another.
async fn walk(page: impl AsyncFn(Option<&Cursor>) -> Page) -> (Vec<Vec<u8>>, usize) {
    let (mut keys, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let Page { records, next } = page(after.as_ref()).await;
        pages += 1;
        keys.extend(records.iter().map(|seen| seen.record.key.as_bytes().to_vec()));
        match next {
            Some(next) => after = Some(next),
            None => return (keys, pages),
        }
    }
}

/// Keys of two scopes, a third of them lapsed first, completed, and live.
async fn filled(place: &Place, store: &PostgresStore) {
    for number in 0..30_u8 {
        let mut request = Request::new([number]);
        request.scope = Scope::new(if number % 2 == 0 { "even" } else { "odd" }).unwrap();
        let fence = request.acquire(store).await.fence;
        match number % 3 {
            0 => store.complete(&fence, &sealed("reply")).await.unwrap(),
            1 => {
                store.renew(&fence, LEASE * 100).await.unwrap();
            }
            _ => place.advance(std::time::Duration::from_micros(7)).await,
        }
    }
    place.advance(LEASE).await;
}

#[tokio::test]
async fn pages_leave_nothing_out_and_repeat_nothing() {
    for server in [Server::Postgres, Server::Postgres18, Server::PgBouncer] {
        let place = Place::stepped(server).await;
        let store = place.open().await;
        filled(&place, &store).await;
        let (lapsed, pages) = walk(async |after| store.lapsed(after, 3).await.unwrap()).await;
        let expected: Vec<Vec<u8>> = (0..30).filter(|n| n % 3 == 2).map(|n| vec![n]).collect();
        assert_eq!((lapsed, pages), (expected, 4), "{server:?}: oldest lease first");
        let all = Filter::all();
        let (keys, pages) = walk(async |after| store.list(&all, after, 7).await.unwrap()).await;
        let by_scope = |rest| (0..30_u8).filter(move |n| n % 2 == rest).map(|n| vec![n]);
        let expected: Vec<Vec<u8>> = by_scope(0).chain(by_scope(1)).collect();
        assert_eq!((keys, pages), (expected, 5), "{server:?}: by scope, then key");
        let odd = Filter::all().scope(Scope::new("odd").unwrap()).state(StateFilter::Completed);
        let (keys, _) = walk(async |after| store.list(&odd, after, 2).await.unwrap()).await;
        let expected: Vec<Vec<u8>> = (0..30).filter(|n| n % 6 == 3).map(|n| vec![n]).collect();
        assert_eq!(keys, expected, "{server:?}");
        let foreign = Cursor::from_bytes([7_u8]);
        assert_eq!(kind_of(store.lapsed(Some(&foreign), 3).await), ErrorKind::InvalidInput);
        assert_eq!(kind_of(store.list(&all, Some(&foreign), 3).await), ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn a_page_of_big_records_is_cut_by_their_bytes() {
    let place = Place::stepped(Server::Postgres).await;
    let store = place.open().await;
    for number in 0..5_u8 {
        let mut request = Request::new([number]);
        // The middle one is longer than a page, and comes alone.
        let mebibytes = if number == 2 { 17 } else { 7 };
        request.input = Some(sealed(vec![number; mebibytes * 1024 * 1024]));
        request.acquire(&store).await;
        place.advance(std::time::Duration::from_micros(1)).await;
    }
    place.advance(LEASE).await;
    let (keys, pages) = walk(async |after| store.lapsed(after, 100).await.unwrap()).await;
    assert_eq!(keys, [[0], [1], [2], [3], [4]]);
    assert_eq!(pages, 3, "two in 16 MiB");
    let all = Filter::all();
    let (keys, pages) = walk(async |after| store.list(&all, after, 100).await.unwrap()).await;
    assert_eq!((keys.len(), pages), (5, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sweeps_by_several_processes_delete_each_expired_record_once() {
    for server in [Server::Postgres, Server::PgBouncer] {
        let place = Place::stepped(server).await;
        let store = place.open().await;
        for number in 0..60_u8 {
            let fence = Request::new([number]).acquire(&store).await.fence;
            if number % 4 > 0 {
                store.complete(&fence, &sealed("reply")).await.unwrap();
            }
        }
        assert_eq!(store.sweep(100).await.unwrap().deleted, 0);
        place.advance(RETENTION).await;
        let mut sweepers = JoinSet::new();
        for _ in 0..3 {
            let store = place.open().await;
            sweepers.spawn(async move {
                let mut deleted = 0;
                loop {
                    let swept = store.sweep(4).await.unwrap();
                    assert!(swept.deleted <= 4);
                    deleted += swept.deleted;
                    if !swept.more {
                        return deleted;
                    }
                }
            });
        }
        let mut deleted = 0;
        while let Some(swept) = sweepers.join_next().await {
            deleted += swept.unwrap();
        }
        deleted += store.sweep(100).await.unwrap().deleted; // What another had locked meanwhile.
        assert_eq!(deleted, 45, "{server:?}");
        // What is in progress stays, however old it is.
        assert_eq!(store.stats().await.unwrap().lapsed_not_begun, 15, "{server:?}");
    }
}

#[tokio::test]
async fn a_sweep_does_not_wait_for_a_record_that_somebody_holds() {
    let place = Place::stepped(Server::Postgres).await;
    let store = place.open().await;
    for key in ["a", "b"] {
        let fence = Request::new(key).acquire(&store).await.fence;
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
    place.advance(RETENTION).await;
    let mut holder = place.plain().await;
    support::run(&mut holder, "BEGIN; SELECT * FROM idem_records WHERE key = 'a' FOR UPDATE").await;
    assert_eq!(store.sweep(100).await.unwrap().deleted, 1);
    support::run(&mut holder, "ROLLBACK").await;
    assert_eq!(store.sweep(100).await.unwrap().deleted, 1);
}

#[tokio::test]
async fn forgetting_a_scope_does_not_count_what_others_have() {
    let place = Place::new(Server::Postgres).await;
    let store = place.open().await;
    for (scope, key) in [("other", "a"), ("other", "b"), ("other", "c"), ("own", "z")] {
        let mut request = Request::new(key);
        request.scope = Scope::new(scope).unwrap();
        let fence = request.acquire(&store).await.fence;
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
    let forgotten = store.forget(&Scope::new("own").unwrap(), 2).await.unwrap();
    assert_eq!((forgotten.deleted, forgotten.more), (1, false), "{forgotten:?}");
    assert_eq!(store.stats().await.unwrap().completed, 3);
}

#[tokio::test]
async fn messages_that_were_sent_are_not_counted_as_pending() {
    let place = Place::new(Server::Postgres).await;
    let store = place.open().await;
    let mut tx = store.begin().await.unwrap();
    for payload in ["one", "two"] {
        let message = OutboxMessage::new("t", payload).unwrap();
        store.push_in(&mut tx, &message).await.unwrap();
    }
    store.commit(tx).await.unwrap();
    let send = "UPDATE idem_outbox SET state = 1, sent_at = 1 WHERE payload = 'one'";
    support::run(&mut place.plain().await, send).await;
    assert_eq!(store.stats().await.unwrap().outbox_pending, Some(1));
}

#[tokio::test]
async fn forgetting_a_scope_goes_in_batches_and_leaves_what_is_in_progress() {
    let place = Place::stepped(Server::Postgres).await;
    let store = place.open().await;
    filled(&place, &store).await;
    let even = Scope::new("even").unwrap();
    let first = store.forget(&even, 3).await.unwrap();
    assert_eq!((first.deleted, first.in_progress, first.more), (3, 10, true));
    let second = store.forget(&even, 3).await.unwrap();
    assert_eq!((second.deleted, second.in_progress, second.more), (2, 10, false));
    assert_eq!(store.stats().await.unwrap().completed, 5, "the other scope's");
}

#[tokio::test]
async fn a_message_stands_in_the_outbox_as_it_was_pushed_and_once() {
    for server in [Server::Postgres, Server::PgBouncer] {
        let place = Place::new(server).await;
        let store = place.open().await;
        let message = OutboxMessage::new("order\0é", vec![0_u8, 255]).unwrap();
        let message = message.ordered_by("o\0x").unwrap().with_header("n", "v\0").unwrap();
        let plain = OutboxMessage::new("t", "").unwrap();
        let mut tx = store.begin().await.unwrap();
        store.push_in(&mut tx, &message).await.unwrap();
        store.push_in(&mut tx, &plain).await.unwrap();
        store.commit(tx).await.unwrap();
        let rows = "SELECT id, topic, ordering_key, headers, payload FROM idem_outbox ORDER BY seq";
        let rows = sqlx::query(rows).fetch_all(&mut place.plain().await).await.unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get::<Vec<u8>, _>(0), message.id().as_bytes());
        assert_eq!(rows[0].get::<Vec<u8>, _>(1), message.topic().as_bytes());
        assert_eq!(rows[0].get::<Option<Vec<u8>>, _>(2).unwrap(), b"o\0x");
        let headers: Vec<(String, String)> =
            serde_json::from_slice(rows[0].get::<&[u8], _>(3)).unwrap();
        assert_eq!(headers, message.headers());
        assert_eq!(rows[0].get::<&[u8], _>(4), message.payload());
        assert_eq!(rows[1].get::<Option<Vec<u8>>, _>(2), None);
        // The id is the message's own: the same one twice is refused, and takes all back.
        let mut tx = store.begin().await.unwrap();
        assert_eq!(kind_of(store.push_in(&mut tx, &plain).await), ErrorKind::NotApplied);
        assert_eq!(kind_of(store.commit(tx).await), ErrorKind::NotApplied);
        assert_eq!(number(&mut place.plain().await, "SELECT count(*) FROM idem_outbox").await, 2);
    }
}
