//! Every order in which a few threads can lock the memory store, tried by loom.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p idem-core --test loom --release
//! ```
//!
//! Under `cfg(loom)` the store's own source is compiled with loom's mutex in place of the standard
//! library's; nothing else is replaced. What this shows: no verb lets go of the lock between its
//! read and its write, whatever the other threads do at that moment, and what one verb wrote is
//! what the next one finds. What it does not show: anything about the clock, which stands still
//! here, or about the engine around the store. The store wakes nobody: who waits asks again, and
//! that an answer given is there for whoever is told of it is the last test.

#![cfg(loom)]

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use idem_core::claim::{Acquired, Claim, Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::fingerprint::Fingerprints;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::record::{OperationName, Owner, Record, Recovery, Retention, State};
use idem_core::store::{Renewed, Store};
use idem_core::time::ManualClock;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::{self, JoinHandle};

const LEASE: Duration = Duration::from_secs(30);

/// A store with one key that everybody wants, and the clock that it is judged by.
#[derive(Clone)]
struct World {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        Self { store: MemoryStore::with_clock(clock.clone()), clock }
    }

    /// One in which `owner(0)` holds the key and its lease is over.
    fn with_a_dead_holder() -> (Self, Acquired) {
        let world = Self::new();
        let held = acquired(world.claim(owner(0)));
        world.clock.advance(LEASE);
        (world, held)
    }

    fn claim(&self, owner: Owner) -> Claimed {
        let (scope, key) = (scope(), key());
        let operation = OperationName::new("charge").unwrap();
        let prints = Fingerprints::not_compared();
        let retention = Retention::of(Duration::from_secs(60));
        let takeover = Takeover::Below { attempts: u32::MAX, younger_than: Duration::MAX };
        let claim =
            Claim::new(&scope, &key, owner, &operation, &prints, LEASE, retention, takeover);
        now(self.store.claim(&claim)).unwrap()
    }

    fn complete(&self, held: &Acquired, reply: &'static str) -> Result<(), StoreError> {
        now(self.store.complete(&held.fence, &sealed(reply)))
    }

    fn record(&self) -> Option<Record> {
        now(self.store.get(&scope(), &key())).unwrap().map(|seen| seen.record)
    }

    fn reply(&self) -> Option<Sealed> {
        match self.record()?.state {
            State::Completed { reply, .. } => Some(reply),
            State::InProgress { .. } => None,
        }
    }

    /// Runs `act` on a thread of its own.
    fn spawn<T: 'static>(&self, act: impl FnOnce(&Self) -> T + 'static) -> JoinHandle<T> {
        let world = self.clone();
        thread::spawn(move || act(&world))
    }
}

/// The memory store never waits, so each of its futures is ready at its first poll.
fn now<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never().expect("the memory store never waits")
}

fn scope() -> Scope {
    Scope::new("s").unwrap()
}

fn key() -> Key {
    Key::new("k").unwrap()
}

fn owner(number: u8) -> Owner {
    Owner::from_bytes([number; 16])
}

fn sealed(text: &'static str) -> Sealed {
    Sealed::from_bytes(text)
}

fn acquired(claimed: Claimed) -> Acquired {
    match claimed {
        Claimed::Acquired(acquired) => acquired,
        other => panic!("not acquired: {other:?}"),
    }
}

fn is_fence_lost<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::FenceLost)
}

fn winners(claims: &[Claimed]) -> usize {
    assert!(
        claims
            .iter()
            .all(|claimed| matches!(claimed, Claimed::Acquired(_) | Claimed::InProgress { .. })),
        "{claims:?}"
    );
    claims.iter().filter(|claimed| matches!(claimed, Claimed::Acquired(_))).count()
}

#[test]
fn of_three_claims_one_wins() {
    loom::model(|| {
        let world = World::new();
        let others = [1, 2].map(|number| world.spawn(move |world| world.claim(owner(number))));
        let mut claims = vec![world.claim(owner(0))];
        claims.extend(others.map(|other| other.join().unwrap()));
        assert_eq!(winners(&claims), 1, "{claims:?}");
    });
}

#[test]
fn a_claim_that_arrives_twice_is_one() {
    loom::model(|| {
        let world = World::new();
        let twin = world.spawn(|world| acquired(world.claim(owner(0))));
        let first = acquired(world.claim(owner(0)));
        assert_eq!(twin.join().unwrap().fence, first.fence);
    });
}

#[test]
fn of_three_takers_one_wins() {
    loom::model(|| {
        let (world, dead) = World::with_a_dead_holder();
        let others = [1, 2].map(|number| world.spawn(move |world| world.claim(owner(number))));
        let mut claims = vec![world.claim(owner(3))];
        claims.extend(others.map(|other| other.join().unwrap()));
        assert_eq!(winners(&claims), 1, "{claims:?}");
        let record = world.record().unwrap();
        assert_eq!((record.attempt, record.incarnation), (2, dead.fence.incarnation));
    });
}

#[test]
fn a_completion_and_a_takeover_never_both_win() {
    loom::model(|| {
        let (world, dead) = World::with_a_dead_holder();
        let taker = world.spawn(|world| world.claim(owner(1)));
        let completed = world.complete(&dead, "first");
        match taker.join().unwrap() {
            Claimed::Completed(replay) => {
                assert!(completed.is_ok());
                assert_eq!(replay.reply, sealed("first"));
            }
            Claimed::Acquired(taken) => {
                assert!(is_fence_lost(&completed), "{completed:?}");
                assert_eq!(taken.fence.attempt, 2);
                assert_eq!(world.reply(), None);
                world.complete(&taken, "second").unwrap();
                assert_eq!(world.reply(), Some(sealed("second")));
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_completion_that_arrives_twice_is_one() {
    loom::model(|| {
        let world = World::new();
        let held = acquired(world.claim(owner(0)));
        let twin = {
            let held = held.clone();
            world.spawn(move |world| world.complete(&held, "done"))
        };
        let other = world.complete(&held, "done");
        assert!(other.is_ok() && twin.join().unwrap().is_ok());
        assert_eq!(world.reply(), Some(sealed("done")));
    });
}

#[test]
fn of_two_different_completions_one_stands() {
    loom::model(|| {
        let world = World::new();
        let held = acquired(world.claim(owner(0)));
        let other = {
            let held = held.clone();
            world.spawn(move |world| world.complete(&held, "one"))
        };
        let (two, one) = (world.complete(&held, "two"), other.join().unwrap());
        assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
        let stands = if one.is_ok() { "one" } else { "two" };
        assert_eq!(world.reply(), Some(sealed(stands)));
    });
}

#[test]
fn a_renewal_and_a_takeover_never_both_win() {
    loom::model(|| {
        let (world, dead) = World::with_a_dead_holder();
        let taker = world.spawn(|world| world.claim(owner(1)));
        let renewed = now(world.store.renew(&dead.fence, LEASE));
        match taker.join().unwrap() {
            Claimed::InProgress { remaining } => {
                assert_eq!(remaining, LEASE);
                assert!(matches!(renewed, Ok(Renewed::Held(_))), "{renewed:?}");
            }
            Claimed::Acquired(_) => assert!(is_fence_lost(&renewed), "{renewed:?}"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_taker_finds_a_recovery_point_that_was_written_and_no_other() {
    loom::model(|| {
        let (world, dead) = World::with_a_dead_holder();
        let taker = world.spawn(|world| world.claim(owner(1)));
        let point = Recovery { number: 1, payload: sealed("charged") };
        // A checkpoint sets the lease too, so a taker that comes after it waits for its end.
        let written = now(world.store.checkpoint(&dead.fence, &point, LEASE));
        match taker.join().unwrap() {
            Claimed::InProgress { .. } => assert!(written.is_ok()),
            Claimed::Acquired(taken) => {
                assert!(is_fence_lost(&written), "{written:?}");
                assert_eq!(taken.recovery, None);
            }
            other => panic!("{other:?}"),
        }
        let stands = world.record().unwrap().recovery().cloned();
        assert_eq!(stands, written.is_ok().then_some(point));
    });
}

#[test]
fn a_release_frees_the_key_or_is_not_seen_yet() {
    loom::model(|| {
        let world = World::new();
        let held = acquired(world.claim(owner(0)));
        let next = world.spawn(|world| world.claim(owner(1)));
        now(world.store.release(&held.fence)).unwrap();
        match next.join().unwrap() {
            Claimed::InProgress { .. } => assert_eq!(world.record(), None),
            Claimed::Acquired(next) => {
                assert_ne!(next.fence.incarnation, held.fence.incarnation);
                assert!(world.record().unwrap().is_under(&next.fence));
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_sweep_never_takes_a_new_life() {
    loom::model(|| {
        let world = World::new();
        let old = acquired(world.claim(owner(0)));
        world.complete(&old, "old").unwrap();
        world.clock.advance(Duration::from_secs(60));
        let sweeper = world.spawn(|world| now(world.store.sweep(10)).unwrap().deleted);
        let new = acquired(world.claim(owner(1)));
        assert!(sweeper.join().unwrap() <= 1);
        assert!(world.record().unwrap().is_under(&new.fence));
    });
}

#[test]
fn whoever_is_told_of_a_completion_finds_the_reply() {
    loom::model(|| {
        let world = World::new();
        let held = acquired(world.claim(owner(0)));
        let told = Arc::new(AtomicBool::new(false));
        let waiter = {
            let told = told.clone();
            world.spawn(move |world| (told.load(Ordering::Acquire), world.claim(owner(1))))
        };
        world.complete(&held, "done").unwrap();
        told.store(true, Ordering::Release);
        match waiter.join().unwrap() {
            (_, Claimed::Completed(replay)) => assert_eq!(replay.reply, sealed("done")),
            (false, Claimed::InProgress { .. }) => {}
            other => panic!("{other:?}"),
        }
    });
}
