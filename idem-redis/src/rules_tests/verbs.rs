//! Each verb on each sort of record.

use idem_core::claim::{Claim, Claimed};
use idem_core::error::StoreError;
use idem_core::key::{Key, Scope};
use idem_core::record::{Incarnation, Record};
use idem_core::store::Renewed;
use idem_core::time::Timestamp;
use idem_core::transition::{self, Change, Decision};

use super::draw::{Draw, fresh_seed};
use super::plant::{Standing, look, plant, server_time};
use super::{stores, told};
use crate::answer::Answer;
use crate::ask;
use crate::store::RedisStore;

/// How many records on each server. The records differ in each run; the seed is printed.
const ROUNDS: usize = 1_500;

#[tokio::test(flavor = "multi_thread")]
async fn the_scripts_decide_as_the_pure_rules_do() {
    let seed = fresh_seed();
    println!("seed {seed}: set IDEM_SEED to it to run this again");
    for (server, store) in stores().await {
        let mut draw = Draw::new(seed);
        let mut kinds = std::collections::BTreeMap::<&str, usize>::new();
        for round in 0..ROUNDS {
            let now = server_time(&store).await;
            let place = format!("{server}, round {round}");
            let verb = one_round(&store, &mut draw, now, &place).await;
            *kinds.entry(verb).or_default() += 1;
        }
        println!("{server}: {kinds:?}");
        assert!(kinds.values().all(|&count| count > ROUNDS / 20), "{kinds:?}");
    }
}

/// On a clock that stands still, so that times meet it to the microsecond.
#[cfg(feature = "test-clock")]
#[tokio::test(flavor = "multi_thread")]
async fn the_scripts_decide_as_the_pure_rules_do_at_the_very_boundaries() {
    use idem_core::time::{Clock, ManualClock};

    let seed = fresh_seed();
    println!("seed {seed}: set IDEM_SEED to it to run this again");
    let clock = std::sync::Arc::new(ManualClock::new());
    for (server, store) in super::stores_judged_by(clock.clone()).await {
        let mut draw = Draw::new(seed);
        for round in 0..ROUNDS {
            let place = format!("{server}, round {round}");
            one_round(&store, &mut draw, clock.now(), &place).await;
        }
    }
}

/// The very same request again, as a network delivers it late: the life that it makes differs
/// from the first one although owner, randomness and, here, the time are the same (R8).
#[cfg(feature = "test-clock")]
#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_of_a_claim_makes_another_life() {
    use idem_core::error::Verb;
    use idem_core::store::Store;

    let clock = std::sync::Arc::new(idem_core::time::ManualClock::new());
    for (server, store) in super::stores_judged_by(clock).await {
        let mut draw = Draw::new(fresh_seed());
        let (scope, key) = (Scope::new("s").unwrap(), Key::new("k").unwrap());
        let (operation, prints) = (draw.operation(), draw.fingerprints());
        let (owner, lease) = (draw.owner(), std::time::Duration::from_secs(9));
        let (retention, takeover) = (draw.retention(), idem_core::claim::Takeover::Never);
        let claim =
            Claim::new(&scope, &key, owner, &operation, &prints, lease, retention, takeover);
        let request = ask::claim_arguments(&claim, false).unwrap();
        let mut lives = std::collections::BTreeSet::new();
        for copy in 0..100 {
            let script = &crate::script::CLAIM;
            let identity = (&scope, &key);
            let sent = store.on_record(Verb::Claim, script, identity, request.clone()).await;
            let Claimed::Acquired(acquired) = ask::claimed(&claim, sent.unwrap()).unwrap() else {
                panic!("{server}: not acquired");
            };
            assert!(lives.insert(acquired.fence.incarnation), "{server}: copy {copy}");
            store.release(&acquired.fence).await.unwrap();
        }
    }
}

async fn one_round(
    store: &RedisStore,
    draw: &mut Draw,
    now: Timestamp,
    place: &str,
) -> &'static str {
    let scope = Scope::new(draw.pick(&["s", "S", "s\0", "{x}"])).unwrap();
    let key = Key::opaque(draw.pick(&[&b"k"[..], b"K", b"k ", b"}\0"])).unwrap();
    let found = (!draw.one_in(8)).then(|| draw.record(&scope, &key, now));
    plant(store, &scope, &key, found.as_ref()).await;
    let found = found.as_ref();
    let fence = draw.fence(&scope, &key, found);
    let (verb, change) = match draw.below(6) {
        0..=1 => ("claim", claim(store, draw, &scope, &key, found, place).await),
        2 => {
            let lease = draw.duration();
            let (now, answer) = timed(store.ask_renew(&fence, lease).await);
            let decided = transition::renew(found, &fence, lease, now);
            let seen = ask::renewed(answer);
            ("renew", agree(place, seen, decided, |seen: &Renewed, said| seen == said))
        }
        3 => {
            let (recovery, lease) = (draw.recovery(), draw.duration());
            let (now, answer) = timed(store.ask_checkpoint(&fence, &recovery, lease).await);
            let decided = transition::checkpoint(found, &fence, &recovery, lease, now);
            let seen = ask::checkpointed(answer);
            ("checkpoint", agree(place, seen, decided, |seen, (_, said)| seen == said))
        }
        4 => {
            let reply = draw.sealed();
            let (now, answer) = timed(store.ask_complete(&fence, &reply).await);
            let decided = transition::complete(found, &fence, &reply, now);
            ("complete", agree(place, ask::completed(answer), decided, |(), _| true))
        }
        _ if draw.one_in(2) => {
            let (_, answer) = timed(store.ask_remove(&fence).await);
            let decided = transition::remove(found, &fence);
            ("release or remove", agree(place, ask::gone(answer), decided, |(), ()| true))
        }
        _ => {
            let (now, answer) = timed(store.ask_release(&fence).await);
            let decided = transition::release(found, &fence, now);
            ("release or remove", agree(place, ask::gone(answer), decided, |(), ()| true))
        }
    };
    let mut standing = look(store, &scope, &key).await;
    let expected = expected(found, &change);
    if !store.expires_natively() {
        standing.expires_natively = expected.expires_natively;
    }
    assert_eq!(standing, expected, "{verb}, {place}, on {found:?}");
    verb
}

async fn claim(
    store: &RedisStore,
    draw: &mut Draw,
    scope: &Scope,
    key: &Key,
    found: Option<&Record>,
    place: &str,
) -> Change {
    let (operation, prints, input) = (draw.operation(), draw.fingerprints(), draw.sealed());
    let (owner, lease, retention) = (draw.owner(), draw.duration(), draw.retention());
    let takeover = draw.takeover(found);
    let claim = Claim::new(scope, key, owner, &operation, &prints, lease, retention, takeover)
        .with_input(draw.one_in(2).then_some(&input))
        .marking_begun(draw.one_in(2));
    let (now, answer) = timed(store.ask_claim(&claim).await);
    let seen = ask::claimed(&claim, answer);
    // The incarnation of a new life is the store's own: it must be new, and is then taken as given.
    let fresh = match &seen {
        Ok(Claimed::Acquired(acquired)) => acquired.fence.incarnation,
        _ => Incarnation::from_bytes([0xee; 16]),
    };
    let decided = transition::claim(found, &claim, now, fresh);
    if let (Change::Put(record), Some(found)) = (&decided.change, found)
        && (record.created_at, record.attempt) == (now, 1)
        && found.created_at != now
    {
        assert_ne!(fresh, found.incarnation, "{place}: the life is not new");
    }
    agree(place, seen, decided, |seen: &Claimed, said| seen == said)
}

/// The answers agree, or the errors' kinds and sentences; gives the change to compare with.
fn agree<T: std::fmt::Debug, U: std::fmt::Debug>(
    place: &str,
    seen: Result<T, StoreError>,
    decided: Decision<U>,
    same: impl Fn(&T, &U) -> bool,
) -> Change {
    match (&seen, &decided.outcome) {
        (Ok(seen), Ok(said)) => assert!(same(seen, said), "{place}: {seen:?}, not {said:?}"),
        (Err(seen), Err(said)) => {
            assert_eq!((seen.kind(), seen.detail()), (said.kind, said.detail), "{place}");
        }
        _ => panic!("{place}: {seen:?}, not {:?}", decided.outcome),
    }
    decided.change
}

fn expected(found: Option<&Record>, change: &Change) -> Standing {
    match change {
        Change::None => Standing::of(found),
        Change::Put(record) => Standing::of(Some(record)),
        Change::Delete => Standing::of(None),
    }
}

fn timed(answer: Result<Answer, StoreError>) -> (Timestamp, Answer) {
    let answer = answer.unwrap();
    (told(answer.peek(1)), answer)
}
