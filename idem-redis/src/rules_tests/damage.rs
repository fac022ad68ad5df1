//! Records that cannot be read, and layouts of other releases: nothing runs on them.

use std::time::Duration;

use idem_core::admin::{Admin, Filter};
use idem_core::claim::{Claim, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::fingerprint::Fingerprints;
use idem_core::key::{Key, Scope};
use idem_core::record::{OperationName, Owner, Record, Retention, State};
use idem_core::store::Store;
use redis::{Cmd, cmd};

use super::draw::Draw;
use super::plant::{Standing, look, plant, server_time};
use super::stores;
use crate::schema::{Index, identity, partition};
use crate::store::RedisStore;

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_is_corrupt_to_every_verb_and_stays_as_it_is() {
    for (server, store) in stores().await {
        let scope = Scope::new("s").unwrap();
        let key = Key::new("k").unwrap();
        for completed in [false, true] {
            let record = sample(&store, &scope, &key, completed).await;
            for damage in damages(completed) {
                plant(&store, &scope, &key, Some(&record)).await;
                damage_with(&store, &scope, &key, &damage).await;
                for (verb, error) in every_verb(&store, &record).await {
                    let Err(error) = error else { panic!("{server}: {verb} ran on {damage:?}") };
                    let expected = match damage {
                        ("v", Some(_)) => ErrorKind::WrongSchema,
                        _ => ErrorKind::CorruptRecord,
                    };
                    assert_eq!(error.kind(), expected, "{server}: {verb} on {damage:?}");
                }
            }
        }
        // What is not even a hash.
        let record = sample(&store, &scope, &key, false).await;
        plant(&store, &scope, &key, Some(&record)).await;
        run(&store, cmd("SET").arg(name(&store, &scope, &key)).arg("x").to_owned()).await;
        for (verb, error) in every_verb(&store, &record).await {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::CorruptRecord, "{server}: {verb}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_does_not_hold_up_the_sweeper() {
    for (server, store) in stores().await {
        let now = server_time(&store).await;
        let scope = Scope::new("s").unwrap();
        for number in 0..3 {
            let key = Key::new(format!("k{number}")).unwrap();
            let mut record = sample(&store, &scope, &key, true).await;
            if let State::Completed { expires_at, .. } = &mut record.state {
                *expires_at = Some(now);
            }
            plant(&store, &scope, &key, Some(&record)).await;
            if number < 2 {
                damage_with(&store, &scope, &key, &("ow", Some(b"short"))).await;
            }
        }
        let (first, second) = (store.sweep(2).await.unwrap(), store.sweep(2).await.unwrap());
        assert_eq!(first.deleted + second.deleted, 1, "{server}");
        assert!(first.more && !second.more, "{server}");
    }
}

/// The record decides, not the index: between the two a holder may have renewed its lease.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_misleads_the_sweeper_costs_no_record() {
    for (server, store) in stores().await {
        let scope = Scope::new("s").unwrap();
        for (name, completed, index) in
            [("live", false, Index::Unbegun), ("kept", true, Index::Expiries)]
        {
            let key = Key::new(name).unwrap();
            let mut record = sample(&store, &scope, &key, completed).await;
            record.marks_begun = true;
            let later = record.created_at.after(Duration::from_secs(7_200));
            match &mut record.state {
                State::InProgress { locked_until, .. } => *locked_until = later,
                State::Completed { expires_at, .. } => *expires_at = Some(later),
            }
            plant(&store, &scope, &key, Some(&record)).await;
            mislead(&store, &scope, &key, index).await;
            assert_ne!(look(&store, &scope, &key).await, Standing::of(Some(&record)));
            assert_eq!(store.sweep(9).await.unwrap().deleted, 0, "{server}: {name}");
            assert_eq!(look(&store, &scope, &key).await, Standing::of(Some(&record)), "{server}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_layout_is_refused_at_the_door() {
    for (server, store) in stores().await {
        let mark = store.shared.names.layout();
        run(&store, cmd("SET").arg(&mark).arg("2").to_owned()).await;
        assert_eq!(store.migrate().await.unwrap_err().kind(), ErrorKind::WrongSchema, "{server}");
        let url = std::env::var(server).unwrap();
        let config = RedisStore::builder().namespace(&store.shared.settings.namespace);
        let error = config.connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongSchema, "{server}");
    }
}

type Damage = (&'static str, Option<&'static [u8]>);

/// A field to change, or to lose.
fn damages(completed: bool) -> Vec<Damage> {
    let mut damages: Vec<Damage> = vec![
        ("v", None),
        ("v", Some(b"2")),
        ("st", None),
        ("st", Some(b"x")),
        ("op", None),
        ("fs", Some(b"256")),
        ("fd", Some(b"short")),
        ("at", Some(b"0")),
        ("at", Some(b"1.5")),
        ("ow", None),
        ("ic", Some(b"short")),
        ("ca", Some(b"-1")),
        ("ca", Some(b"99999999999999999")),
        ("rt", None),
        ("ra", Some(b"?")),
        ("mb", Some(b"yes")),
    ];
    damages.extend::<[Damage; 3]>(if completed {
        [("re", None), ("co", None), ("ex", None)]
    } else {
        [("lu", Some(b"")), ("gu", None), ("rp", Some(b"half a recovery point"))]
    });
    damages
}

async fn every_verb(store: &RedisStore, record: &Record) -> Vec<(Verb, Result<(), StoreError>)> {
    let fence = record.fence();
    let operation = OperationName::new("charge").unwrap();
    let prints = Fingerprints::not_compared();
    let lease = Duration::from_secs(9);
    let claim = Claim::new(
        &record.scope,
        &record.key,
        Owner::random(),
        &operation,
        &prints,
        lease,
        Retention::Forever,
        Takeover::Below { attempts: 9, younger_than: Duration::MAX },
    );
    let reply = Sealed::from_bytes(b"reply".to_vec());
    let before = look_raw(store, record).await;
    let mut seen = vec![
        (Verb::Claim, store.claim(&claim).await.map(drop)),
        (Verb::Renew, store.renew(&fence, lease).await.map(drop)),
        (Verb::Complete, store.complete(&fence, &reply).await),
        (Verb::Release, store.release(&fence).await),
        (Verb::Remove, store.remove(&fence).await),
        (Verb::Get, store.get(&record.scope, &record.key).await.map(drop)),
        (Verb::List, store.list(&Filter::all(), None, 9).await.map(drop)),
        (Verb::Forget, store.forget(&record.scope, 9).await.map(drop)),
    ];
    if matches!(record.state, State::InProgress { .. }) {
        seen.push((Verb::Lapsed, store.lapsed(None, 9).await.map(drop)));
    }
    assert_eq!(look_raw(store, record).await, before, "something was written");
    seen
}

async fn look_raw(store: &RedisStore, record: &Record) -> redis::Value {
    let name = name(store, &record.scope, &record.key);
    store.shared.link.run_plain(cmd("DUMP").arg(name)).await.unwrap()
}

/// A lapsed record in progress, or a completed one that is kept.
async fn sample(store: &RedisStore, scope: &Scope, key: &Key, completed: bool) -> Record {
    let now = server_time(store).await;
    let mut draw = Draw::new(1);
    let mut record = draw.record(scope, key, now);
    record.operation = OperationName::new("charge").unwrap();
    record.retention = Retention::of(Duration::from_secs(3_600));
    record.attempt = 1;
    record.state = if completed {
        let reply = Sealed::from_bytes(b"reply".to_vec());
        State::Completed { reply, completed_at: now, expires_at: None }
    } else {
        State::InProgress { locked_until: now, given_up: false, recovery: None }
    };
    record
}

async fn damage_with(store: &RedisStore, scope: &Scope, key: &Key, (field, value): &Damage) {
    let name = name(store, scope, key);
    let command = match value {
        None => cmd("HDEL").arg(name).arg(field).to_owned(),
        Some(value) => cmd("HSET").arg(name).arg(field).arg(*value).to_owned(),
    };
    run(store, command).await;
}

/// Sets a record's place in an index to long ago.
async fn mislead(store: &RedisStore, scope: &Scope, key: &Key, index: Index) {
    let id = identity(scope, key);
    let index = store.shared.names.index(partition(&id), index);
    run(store, cmd("ZADD").arg(index).arg(1).arg(id).to_owned()).await;
}

fn name(store: &RedisStore, scope: &Scope, key: &Key) -> Vec<u8> {
    let id = identity(scope, key);
    store.shared.names.record(partition(&id), &id)
}

async fn run(store: &RedisStore, command: Cmd) {
    store.shared.link.run_plain(&command).await.unwrap();
}
