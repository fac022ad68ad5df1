//! Settings of server, session and pool that a store must not stumble over.

mod support;

use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::record::Recovery;
use idem_core::store::{Renewed, Store};
use idem_core::transactional::TransactionalStore;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use idem_mysql::{Isolation, MysqlStore};
use support::{LEASE, Place, Request, kind_of, point, run, sealed, until_waiting};

/// Bytes that no character set leaves alone.
const WILD: &[u8] = b"\x00\x80\xc3(\xff 'a\\\"\xe2\x28\xa1";

/// A pool of the caller's, on whose connections `setup` is run.
fn pool(place: &Place, setup: &[&str]) -> Pool {
    let setup: Vec<String> = setup.iter().rev().map(|text| (*text).to_owned()).collect();
    let opts = Opts::from_url(&place.url()).unwrap();
    let kept = PoolConstraints::new(1, 4).unwrap();
    let opts = OptsBuilder::from_opts(opts).prefer_socket(false).setup(setup);
    Pool::new(opts.pool_opts(PoolOpts::new().with_constraints(kept)))
}

/// A life with a recovery point, in verbs and then in transactions.
async fn live_through(store: &MysqlStore, key: &[u8]) {
    let request = Request { input: Some(sealed(WILD)), ..Request::new(key) };
    let acquired = request.acquire(store).await;
    assert_eq!(acquired.input, Some(sealed(WILD)));
    let again = request.again().send(store).await;
    assert!(matches!(again, Claimed::InProgress { .. }), "{again:?}");
    store.renew(&acquired.fence, LEASE * 2).await.unwrap();
    let recovery = Recovery { number: 1, payload: sealed(WILD) };
    store.checkpoint(&acquired.fence, &recovery, LEASE).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    store.hold_in(&mut tx, &acquired.fence).await.unwrap();
    store.complete_in(&mut tx, &acquired.fence, &sealed(WILD)).await.unwrap();
    store.commit(tx).await.unwrap();
    match request.again().send(store).await {
        Claimed::Completed(replay) => assert_eq!(replay.reply, sealed(WILD)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn sessions_of_every_sort_are_worked_on() {
    let place = Place::new().await;
    let setups: &[&[&str]] = &[
        &[],
        &["SET SESSION sql_mode = ''"],
        &["SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'"],
        &["SET SESSION autocommit = 0"],
        &["SET SESSION time_zone = '+13:00'"],
        &["SET SESSION time_zone = '-11:30'"],
        &["SET NAMES latin1 COLLATE latin1_german2_ci"],
        &["SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci"],
        &["SET NAMES binary"],
        &["SET SESSION completion_type = 1"],
        &["SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"],
        &["SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"],
        &["SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"],
        &["SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"],
    ];
    for (number, setup) in setups.iter().enumerate() {
        let pool = pool(&place, setup);
        let store = MysqlStore::new(pool).await.unwrap();
        println!("{setup:?}");
        for key in [WILD, b"a", b"A", b"a ", "\u{e1}".as_bytes()] {
            live_through(&store, &[number.to_string().as_bytes(), key].concat()).await;
        }
        store.close().await;
    }
}

#[tokio::test]
async fn each_isolation_of_transactions_works_with_heartbeats_inside() {
    let place = Place::new().await;
    for isolation in [
        Isolation::AsConfigured,
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ] {
        let builder = MysqlStore::builder().isolation(isolation);
        let store = builder.connect(&place.url()).await.unwrap();
        let acquired = Request::new(format!("{isolation:?}")).acquire(&store).await;
        let mut tx = store.begin().await.unwrap();
        let seen: Option<i64> = store
            .connection(&mut tx)
            .query_first("SELECT COUNT(*) FROM idem_records")
            .await
            .unwrap();
        assert!(seen >= Some(1));
        // The snapshot stands, and the record changes behind it.
        store.renew(&acquired.fence, LEASE * 3).await.unwrap_or_else(|error| panic!("{error}"));
        store.hold_in(&mut tx, &acquired.fence).await.unwrap();
        store.checkpoint_in(&mut tx, &acquired.fence, &point(1), LEASE).await.unwrap();
        store.complete_in(&mut tx, &acquired.fence, &sealed("r")).await.unwrap();
        store.commit(tx).await.unwrap();
        let renewed = store.renew(&acquired.fence, LEASE).await.unwrap();
        assert_eq!(renewed, Renewed::Completed);
    }
}

#[tokio::test]
async fn a_connection_that_rewrites_bytes_is_refused_for_transactions_and_right_for_verbs() {
    let place = Place::new().await;
    let setup = "SET character_set_client = utf8mb4, character_set_connection = latin1";
    let store = MysqlStore::new(pool(&place, &[setup])).await.unwrap();
    let acquired = Request::new(WILD).acquire(&store).await;
    store.complete(&acquired.fence, &sealed(WILD)).await.unwrap();
    assert_eq!(kind_of(store.begin().await), ErrorKind::WrongSchema);
    let seen = store.get(&acquired.fence.scope, &acquired.fence.key).await.unwrap().unwrap();
    assert_eq!(seen.record.key.as_bytes(), WILD);
}

#[tokio::test]
async fn a_pool_that_keeps_what_was_set_is_refused_before_anything_is_set() {
    let place = Place::new().await;
    let opts = OptsBuilder::from_opts(Opts::from_url(&place.url()).unwrap()).prefer_socket(false);
    let kept = PoolOpts::new().with_reset_connection(false);
    let mine = Pool::new(opts.pool_opts(kept));
    let opened = MysqlStore::new(mine.clone()).await;
    assert_eq!(kind_of(opened.map(drop)), ErrorKind::WrongSchema);
    let mut connection = mine.get_conn().await.unwrap();
    let set = "SELECT @@autocommit = @@GLOBAL.autocommit AND @@sql_mode = @@GLOBAL.sql_mode";
    assert_eq!(support::number(&mut connection, set).await, 1);
}

#[tokio::test]
async fn a_value_over_the_limit_is_refused_before_it_is_sent() {
    let place = Place::new().await;
    let store = MysqlStore::builder().max_value_bytes(1_000).connect(&place.url()).await.unwrap();
    let acquired = Request::new("k").acquire(&store).await;
    for (bytes, fits) in [(1_001, false), (1_000, true)] {
        let recovery = Recovery { number: 1, payload: sealed(vec![7; bytes]) };
        let written = store.checkpoint(&acquired.fence, &recovery, LEASE).await;
        assert_eq!(written.is_ok(), fits);
        let input = Some(sealed(vec![7; bytes]));
        let claimed =
            store.claim(&Request { input, ..Request::new(bytes.to_string()) }.claim()).await;
        assert_eq!(claimed.is_ok(), fits);
        let replied = store.complete(&acquired.fence, &sealed(vec![7; bytes])).await;
        assert_eq!(replied.is_ok(), fits);
        if let Err(error) = replied {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }
}

#[tokio::test]
async fn what_the_servers_packet_holds_comes_back_whole_and_more_is_refused() {
    let place = Place::new().await;
    let builder = MysqlStore::builder().max_value_bytes(usize::MAX);
    let store = builder.connect(&place.url()).await.unwrap();
    let most = store.max_value_bytes();
    assert!((100_000..usize::MAX / 2).contains(&most), "{most}");
    let input = Some(sealed(vec![1; most]));
    let request = Request { input: input.clone(), ..Request::new("k") };
    let acquired = request.acquire(&store).await;
    let recovery = Recovery { number: 1, payload: sealed(vec![2; most]) };
    store.checkpoint(&acquired.fence, &recovery, LEASE).await.unwrap();
    let seen = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
    assert_eq!((seen.input.clone(), seen.recovery().cloned()), (input, Some(recovery)));
    store.complete(&acquired.fence, &sealed(vec![3; most])).await.unwrap();
    let over = Request { input: Some(sealed(vec![1; most + 1])), ..Request::new("over") };
    assert_eq!(kind_of(store.claim(&over.claim()).await), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_deadlock_that_a_handler_passes_over_commits_nothing() {
    let place = Place::new().await;
    let mut plain = place.plain().await;
    run(&mut plain, "CREATE TABLE rows_of_mine (n INT PRIMARY KEY, v INT) ENGINE = InnoDB").await;
    run(&mut plain, "INSERT INTO rows_of_mine VALUES (1, 0), (2, 0)").await;
    let store = place.open().await;
    let acquired = Request::new("k").acquire(&store).await;
    let mut tx = store.begin().await.unwrap();
    let mine = store.connection(&mut tx);
    mine.query_drop("UPDATE rows_of_mine SET v = 1 WHERE n = 1").await.unwrap();
    // The other one is the heavier, so the server takes back the handler's.
    run(&mut plain, "BEGIN").await;
    run(&mut plain, "UPDATE rows_of_mine SET v = 2 WHERE n = 2").await;
    run(&mut plain, "INSERT INTO rows_of_mine VALUES (3, 2), (4, 2), (5, 2), (6, 2)").await;
    let other = tokio::spawn(async move {
        run(&mut plain, "UPDATE rows_of_mine SET v = 2 WHERE n = 1").await;
        run(&mut plain, "COMMIT").await;
        plain
    });
    until_waiting(&mut place.plain().await, 1).await;
    let hit =
        store.connection(&mut tx).query_drop("UPDATE rows_of_mine SET v = 1 WHERE n = 2").await;
    let mut plain = other.await.unwrap();
    assert!(hit.is_err(), "one of the two is taken back");
    // A handler that goes on all the same.
    let mine = store.connection(&mut tx);
    mine.query_drop("INSERT INTO rows_of_mine VALUES (7, 1)").await.unwrap();
    store.complete_in(&mut tx, &acquired.fence, &sealed("r")).await.unwrap();
    assert_eq!(kind_of(store.commit(tx).await), ErrorKind::OutcomeUnknown);
    let of_mine = "SELECT COUNT(*) FROM rows_of_mine WHERE v = 1";
    assert_eq!(support::number(&mut plain, of_mine).await, 0);
    store.complete(&acquired.fence, &sealed("later")).await.unwrap();
}
