//! Concurrent claims over separate pools, locks that others hold, and calls that are dropped.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_core::claim::{Claimed, Takeover};
use idem_core::error::ErrorKind;
use idem_core::store::Store;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx;
use idem_testkit::random::Random;
use support::{Place, Request, Server, kind_of, number, quick, run, sealed};
use support::{point, until_somebody_waits};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const SERVERS: [Server; 3] = [Server::Postgres, Server::Postgres18, Server::PgBouncer];

/// How many of `claims`, sent at once over pools of their own, won.
async fn winners(stores: &[PostgresStore], requests: Vec<Request>) -> usize {
    let barrier = Arc::new(Barrier::new(requests.len()));
    let mut tasks = JoinSet::new();
    for (number, request) in requests.into_iter().enumerate() {
        let (store, barrier) = (stores[number % stores.len()].clone(), barrier.clone());
        tasks.spawn(async move {
            barrier.wait().await;
            store.claim(&request.claim()).await.expect("every claim is answered")
        });
    }
    let mut won = 0;
    while let Some(claimed) = tasks.join_next().await {
        match claimed.unwrap() {
            Claimed::Acquired(_) => won += 1,
            Claimed::InProgress { .. } => {}
            other => panic!("seen {other:?}"),
        }
    }
    won
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_claims_one_wins_a_new_key_a_lapsed_one_and_an_expired_one() {
    for server in SERVERS {
        let place = Place::stepped(server).await;
        let mut stores = Vec::new();
        for _ in 0..4 {
            stores.push(place.open().await);
        }
        for round in 0..15 {
            let first = Request::new(format!("key-{round}"));
            let all = || (0..12).map(|_| first.again()).collect();
            assert_eq!(winners(&stores, all()).await, 1, "{server:?}: a new key");
            place.advance(support::LEASE).await;
            assert_eq!(winners(&stores, all()).await, 1, "{server:?}: a lapsed one");
            let observed = stores[0].get(&first.scope, &first.key).await.unwrap().unwrap();
            assert_eq!(observed.record.attempt, 2);
            stores[0].complete(&observed.record.fence(), &sealed("reply")).await.unwrap();
            place.advance(support::RETENTION).await;
            assert_eq!(winners(&stores, all()).await, 1, "{server:?}: an expired one");
            let observed = stores[0].get(&first.scope, &first.key).await.unwrap().unwrap();
            assert_eq!(observed.record.attempt, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_holds_when_the_database_is_serializable_by_default() {
    for level in ["serializable", "repeatable read"] {
        let place = Place::stepped(Server::Postgres).await;
        let database = &place.database;
        let set =
            format!("ALTER DATABASE {database} SET default_transaction_isolation = '{level}'");
        run(&mut place.plain().await, &set).await;
        let mut stores = Vec::new();
        for _ in 0..3 {
            stores.push(place.open().await);
        }
        for round in 0..10 {
            let first = Request::new(format!("key-{round}"));
            let all = || (0..9).map(|_| first.again()).collect();
            assert_eq!(winners(&stores, all()).await, 1, "{level}: a new key");
            place.advance(support::LEASE).await;
            assert_eq!(winners(&stores, all()).await, 1, "{level}: a lapsed one");
            let fence = stores[0].get(&first.scope, &first.key).await.unwrap().unwrap();
            stores[0].complete(&fence.record.fence(), &sealed("reply")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_claim_that_waits_for_anothers_insert_says_in_progress_within_the_bound() {
    for server in SERVERS {
        let place = Place::new(server).await;
        let store = place.open_with(quick()).await;
        let first = Request::new("key");
        let mut holder = place.plain().await;
        run(&mut holder, "BEGIN").await;
        insert_by_hand(&mut holder, &first).await;
        let began = Instant::now();
        let claimed = first.again().send(&store).await;
        assert!(matches!(claimed, Claimed::InProgress { .. }), "{server:?}: seen {claimed:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{server:?}");
        run(&mut holder, "ROLLBACK").await;
        first.acquire(&store).await;
    }
}

#[tokio::test]
async fn a_claim_that_waited_longer_than_its_lease_gets_a_lease_that_runs() {
    for server in SERVERS {
        let place = Place::new(server).await;
        let store = place.open().await;
        let lease = Duration::from_millis(150);
        let request = Request::new("key").lease(lease);
        let mut holder = place.plain().await;
        run(&mut holder, "BEGIN").await;
        insert_by_hand(&mut holder, &request).await;
        let claiming = tokio::spawn({
            let (store, request) = (store.clone(), request.again());
            async move { request.acquire(&store).await }
        });
        until_somebody_waits(&mut place.plain().await).await;
        tokio::time::sleep(lease * 2).await;
        run(&mut holder, "ROLLBACK").await;
        let acquired = claiming.await.unwrap();
        assert!(acquired.lease > lease / 2, "{server:?}: {:?} is left", acquired.lease);
    }
}

#[tokio::test]
async fn a_takeover_that_waits_for_a_lock_says_in_progress_and_takes_nothing() {
    let place = Place::stepped(Server::Postgres).await;
    let store = place.open_with(quick()).await;
    let first = Request::new("key");
    let fence = first.acquire(&store).await.fence;
    place.advance(support::LEASE).await;
    let mut holder = place.plain().await;
    run(&mut holder, "BEGIN; SELECT * FROM idem_records FOR UPDATE").await;
    // All who wait at once are told so: that one of them comes first is no lock on the table.
    let mut claiming = JoinSet::new();
    for _ in 0..4 {
        let (store, request) = (store.clone(), first.again());
        claiming.spawn(async move { request.send(&store).await });
    }
    while let Some(claimed) = claiming.join_next().await {
        let claimed = claimed.unwrap();
        assert!(matches!(claimed, Claimed::InProgress { .. }), "seen {claimed:?}");
    }
    // The holder's own call again: whether its transaction commits is still open.
    assert_eq!(kind_of(store.claim(&first.claim()).await), ErrorKind::NotApplied);
    for failed in [
        store.renew(&fence, support::LEASE).await.err(),
        store.complete(&fence, &sealed("reply")).await.err(),
        store.checkpoint(&fence, &point(1), support::LEASE).await.err(),
        store.release(&fence).await.err(),
    ] {
        assert_eq!(failed.expect("it is locked").kind(), ErrorKind::NotApplied);
    }
    run(&mut holder, "ROLLBACK").await;
    let record = store.get(&first.scope, &first.key).await.unwrap().unwrap().record;
    assert_eq!((record.attempt, record.owner), (1, first.owner));
    store.complete(&fence, &sealed("reply")).await.unwrap();
}

#[tokio::test]
async fn duplicates_that_are_only_told_something_write_and_lock_nothing() {
    let place = Place::new(Server::Postgres).await;
    let store = place.open().await;
    let live = Request::new("live");
    live.acquire(&store).await;
    let done = Request::new("done");
    let fence = done.acquire(&store).await.fence;
    store.complete(&fence, &sealed("reply")).await.unwrap();
    let mut plain = place.plain().await;
    let rows = "SELECT sum(('x' || substr(md5(r::text || xmin::text || xmax::text || ctid::text), \
         1, 8))::bit(32)::int) FROM idem_records r";
    let before = number(&mut plain, rows).await;
    for _ in 0..20 {
        assert!(matches!(live.again().send(&store).await, Claimed::InProgress { .. }));
        assert!(matches!(done.again().send(&store).await, Claimed::Completed(_)));
        let mut other = live.again();
        other.fingerprints = support::print(9).into();
        assert!(matches!(other.send(&store).await, Claimed::Mismatch { completed: false }));
    }
    // A lock on a row stands in it, as the number of who had it last.
    assert_eq!(number(&mut plain, rows).await, before, "rows were written or locked");
}

#[tokio::test]
async fn only_never_inserts_though_the_record_goes_away() {
    for server in [Server::Postgres, Server::PgBouncer] {
        let place = Place::stepped(server).await;
        let store = place.open().await;
        let mut random = Random::announced("only");
        for round in 0..30 {
            let request = Request::new(format!("key-{round}"));
            let fence = request.acquire(&store).await.fence;
            place.advance(support::LEASE).await;
            let mut only = request.again();
            only.takeover = Takeover::Only {
                incarnation: fence.incarnation,
                attempt: fence.attempt,
                younger_than: None,
            };
            let (early, late) = if random.chance(2) { (true, false) } else { (false, true) };
            let removing = async {
                if late {
                    tokio::task::yield_now().await;
                }
                store.release(&fence).await
            };
            let claiming = async {
                if early {
                    tokio::task::yield_now().await;
                }
                only.send(&store).await
            };
            let (removed, claimed) = tokio::join!(removing, claiming);
            let there = store.get(&request.scope, &request.key).await.unwrap();
            match claimed {
                Claimed::Gone => assert!(there.is_none() && removed.is_ok(), "{server:?}"),
                Claimed::Acquired(acquired) => {
                    assert_eq!(acquired.fence.attempt, 2);
                    assert_eq!(removed.expect_err("it was taken").kind(), ErrorKind::FenceLost);
                }
                other => panic!("{server:?}: seen {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn claims_that_are_dropped_while_they_wait_leave_the_pool_usable() {
    for server in [Server::Postgres, Server::PgBouncer] {
        let place = Place::new(server).await;
        let builder =
            PostgresStore::builder().max_connections(3).lock_wait(Duration::from_secs(30));
        let store = place.open_with(builder.call_limit(Duration::from_secs(60))).await;
        let request = Request::new("key");
        let mut holder = place.plain().await;
        run(&mut holder, "BEGIN").await;
        insert_by_hand(&mut holder, &request).await;
        for _ in 0..6 {
            let claiming = tokio::spawn({
                let (store, request) = (store.clone(), request.again());
                async move { request.send(&store).await }
            });
            until_somebody_waits(&mut place.plain().await).await;
            claiming.abort();
            assert!(claiming.await.unwrap_err().is_cancelled());
        }
        // The server still waits in six sessions; other keys do not.
        let other = Request::new("other");
        let soon = tokio::time::timeout(Duration::from_secs(10), other.acquire(&store));
        soon.await.expect("a claim of another key is answered soon");
        run(&mut holder, "ROLLBACK").await;
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_anywhere_has_written_or_not_and_the_next_is_whole() {
    for server in [Server::Postgres, Server::PgBouncer] {
        let place = Place::new(server).await;
        let store = place.open_with(PostgresStore::builder().max_connections(1)).await;
        let witness = place.open().await;
        for polls in 0..40 {
            let request = Request::new(format!("key-{polls}"));
            drop_at(polls, store.claim(&request.claim())).await;
            // Same owner: whatever became of the first call, this one says the truth.
            let fence = request.acquire(&store).await.fence;
            drop_at(polls, store.complete(&fence, &sealed("reply"))).await;
            store.complete(&fence, &sealed("reply")).await.unwrap();
            // Another session sees it: it is not in a transaction that somebody left open.
            let seen = request.again().send(&witness).await;
            assert!(matches!(seen, Claimed::Completed(_)), "{server:?} {polls}: seen {seen:?}");
        }
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND state LIKE 'idle in transaction%'";
        assert_eq!(number(&mut place.plain().await, open).await, 0, "{server:?}");
    }
}

#[tokio::test]
async fn keys_are_bytes() {
    for server in SERVERS {
        let place = Place::new(server).await;
        let store = place.open().await;
        let keys: Vec<Vec<u8>> = vec![
            b"key".to_vec(),
            b"Key".to_vec(),
            b"key ".to_vec(),
            b" key".to_vec(),
            b"key\0".to_vec(),
            b"ke\0y".to_vec(),
            "k\u{e9}y".into(),
            "ke\u{301}y".into(),
            b"key'; DROP TABLE idem_records; --".to_vec(),
            b"\\x6b6579".to_vec(),
            vec![0xff; 255],
            vec![0; 255],
            vec![0; 254],
        ];
        for (number, key) in keys.iter().enumerate() {
            let mut request = Request::new(key);
            request.input = Some(sealed(key));
            let fence = request.acquire(&store).await.fence;
            store.complete(&fence, &sealed([number as u8])).await.unwrap();
        }
        for (number, key) in keys.iter().enumerate() {
            match Request::new(key).send(&store).await {
                Claimed::Completed(replay) => {
                    assert_eq!(replay.reply.as_bytes(), [number as u8]);
                    assert_eq!(replay.fence.key.as_bytes(), key);
                }
                other => panic!("{server:?}: {key:?}: seen {other:?}"),
            }
        }
        let there = "SELECT count(*) FROM idem_records";
        assert_eq!(number(&mut place.plain().await, there).await, 13);
    }
}

#[tokio::test]
async fn a_big_reply_comes_back_whole() {
    for server in SERVERS {
        let place = Place::new(server).await;
        let store = place.open().await;
        let request = Request::new("key");
        let fence = request.acquire(&store).await.fence;
        let reply: Vec<u8> = (0..8 * 1024 * 1024).map(|at: u32| (at * 7 % 251) as u8).collect();
        store.complete(&fence, &sealed(&reply)).await.unwrap();
        match request.again().send(&store).await {
            Claimed::Completed(replay) => assert!(replay.reply.as_bytes() == reply, "{server:?}"),
            other => panic!("{server:?}: seen {other:?}"),
        }
    }
}

/// Polls `future` so many times, with time for the server in between, and drops it.
async fn drop_at<T>(polls: u32, future: impl Future<Output = T>) {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(future.as_mut().poll(context).is_ready())
        });
        if polled.await {
            return;
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
}

/// As a claim that is not committed yet.
async fn insert_by_hand(connection: &mut sqlx::PgConnection, request: &Request) {
    let insert = "INSERT INTO idem_records (scope, key, operation, scheme, digest, attempt, owner, \
         incarnation, created_at, retention, retention_after_completion, marks_begun, \
         locked_until, given_up, sweep_after) \
         VALUES ($1, $2, 'charge', 0, $3, 1, $4, $4, 1, 1, 1, false, 1, false, 1)";
    sqlx::query(insert)
        .bind(request.scope.as_bytes())
        .bind(request.key.as_bytes())
        .bind([0_u8; 32].as_slice())
        .bind([7_u8; 16].as_slice())
        .execute(connection)
        .await
        .unwrap();
}
