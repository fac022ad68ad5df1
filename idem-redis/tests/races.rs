//! Many callers at once, over connections of their own, on every server.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{SERVERS, acquire, claim, fresh, key, reply, scope, variable};
use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::record::Owner;
use idem_core::store::{Renewed, Store};

const LEASE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_concurrent_claims_wins_and_losers_change_nothing() {
    for server in SERVERS {
        let config = fresh();
        let mut stores = Vec::new();
        for _ in 0..4 {
            stores.push(config.clone().connect(&variable(server)).await.unwrap());
        }
        for round in 0..25 {
            let key = key(format!("order-{round}"));
            let callers = (0..32).map(|caller| {
                let (store, key) = (stores[caller % stores.len()].clone(), key.clone());
                tokio::spawn(async move { claim(&store, &key, Owner::random(), LEASE).await })
            });
            let mut winners = Vec::new();
            for caller in callers.collect::<Vec<_>>() {
                match caller.await.unwrap().unwrap() {
                    Claimed::Acquired(acquired) => winners.push(acquired.fence),
                    Claimed::InProgress { remaining } => assert!(remaining <= LEASE),
                    other => panic!("{server}: {other:?}"),
                }
            }
            assert_eq!(winners.len(), 1, "{server}, round {round}");
            let standing = stores[0].get(&scope(), &key).await.unwrap().unwrap();
            assert_eq!(standing.record.fence(), winners[0], "{server}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_takers_wins_each_attempt() {
    for server in SERVERS {
        let store = fresh().connect(&variable(server)).await.unwrap();
        let key = key("dead");
        let first = acquire(&store, &key, LEASE).await;
        assert_eq!(store.renew(&first.fence, Duration::ZERO).await.unwrap(), Renewed::GivenUp);
        let takers = (0..32).map(|_| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { claim(&store, &key, Owner::random(), LEASE).await })
        });
        let mut attempts = Vec::new();
        for taker in takers.collect::<Vec<_>>() {
            if let Claimed::Acquired(acquired) = taker.await.unwrap().unwrap() {
                attempts.push(acquired.fence.attempt);
            }
        }
        assert_eq!(attempts, [2], "{server}");
        let late = store.complete(&first.fence, &reply("late")).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::FenceLost, "{server}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_differ_never_collide_and_none_steers_its_slot() {
    let longest = [b'{'; 255];
    let keys: [&[u8]; 16] = [
        b"a",
        b"A",
        b"a ",
        b" a",
        b"a\0",
        b"\0a",
        b"\0",
        b"{a}",
        b"{a}b",
        b"}{",
        b"\xe4",
        b"\xc3\xa4",
        b"a\r\n",
        b"0",
        b"00",
        &longest,
    ];
    for server in SERVERS {
        let store = fresh().connect(&variable(server)).await.unwrap();
        let mut lives = BTreeSet::new();
        for name in keys {
            let acquired = acquire(&store, &key(name), LEASE).await;
            lives.insert(acquired.fence.incarnation);
            store.complete(&acquired.fence, &reply(name)).await.unwrap();
        }
        assert_eq!(lives.len(), keys.len(), "{server}");
        for name in keys {
            let again = claim(&store, &key(name), Owner::random(), LEASE).await.unwrap();
            let Claimed::Completed(replay) = again else { panic!("{server}: {again:?}") };
            assert_eq!(replay.reply, reply(name), "{server}");
        }
    }
}

/// After release a delayed copy of the same claim makes another life, which the first fence does
/// not fit (R8).
#[tokio::test(flavor = "multi_thread")]
async fn every_life_of_a_key_has_an_incarnation_of_its_own() {
    for server in SERVERS {
        let store = fresh().connect(&variable(server)).await.unwrap();
        let (key, owner) = (key("again"), Owner::random());
        let mut lives = BTreeSet::new();
        for _ in 0..200 {
            let Claimed::Acquired(acquired) = claim(&store, &key, owner, LEASE).await.unwrap()
            else {
                panic!("{server}: not acquired");
            };
            assert!(lives.insert(acquired.fence.incarnation), "{server}: a life came back");
            store.release(&acquired.fence).await.unwrap();
        }
    }
}
