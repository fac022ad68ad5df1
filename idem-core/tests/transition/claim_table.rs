//! Each row of the claim table, in its order. Where two rows fit, the earlier one decides.

use std::time::Duration;

use idem_core::claim::{Claimed, Lapsed, Takeover};
use idem_core::error::ErrorKind;
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::record::{Retention, State};

use crate::world::{Ask, LEASE, RETENTION, SECOND, World, ask, bytes, point, print};

const A: u8 = 0xa;
const B: u8 = 0xb;

/// A record of A's in each state that a claim can find, and the world it stands in.
fn live() -> World {
    let mut world = World::new();
    world.acquire(&ask(A));
    world
}

fn lapsed() -> World {
    let mut world = live();
    world.pass(LEASE);
    world
}

fn lapsed_after_a_recovery_point() -> World {
    let mut world = World::new();
    let held = world.acquire(&ask(A).marking());
    world.checkpoint(&held.fence, &point(1, "begun")).unwrap();
    world.pass(LEASE);
    world
}

fn completed() -> World {
    let mut world = World::new();
    let held = world.acquire(&ask(A));
    world.complete(&held.fence, "reply of A").unwrap();
    world
}

fn expired() -> World {
    let mut world = completed();
    world.pass(RETENTION);
    world
}

/// Claims and expects that nothing was written.
fn answer(world: &mut World, ask: &Ask) -> Claimed {
    let before = world.record.clone();
    let claimed = world.claim(ask).unwrap();
    assert_eq!(world.record, before, "an answer writes nothing");
    claimed
}

#[test]
fn row_1_only_never_inserts() {
    for mut world in [World::new(), expired()] {
        let of_another = world.clone().acquire(&ask(A)).fence;
        assert_eq!(answer(&mut world, &ask(B).only(&of_another)), Claimed::Gone);
    }
}

#[test]
fn row_2_nothing_or_expired_is_inserted() {
    for mut world in [World::new(), expired()] {
        let before = world.record.as_ref().map(|record| record.incarnation);
        let acquired = world.acquire(&ask(B).marking());
        assert_eq!((acquired.fence.attempt, acquired.fence.owner), (1, ask(B).owner));
        assert_eq!((acquired.lease, acquired.age), (LEASE, Duration::ZERO));
        assert_eq!((acquired.recovery, acquired.input), (None, Some(bytes("input of 11"))));
        assert_eq!((acquired.fingerprint, acquired.replaced), (print(1), false));
        let record = world.standing();
        assert_eq!(record.fence(), acquired.fence);
        assert_ne!(Some(record.incarnation), before, "a new life");
        assert_eq!((record.created_at, record.marks_begun), (world.now, true));
        assert_eq!(record.retention, Retention::of(RETENTION));
        let State::InProgress { locked_until, given_up, recovery } = &record.state else {
            panic!("in progress")
        };
        assert_eq!((*locked_until, *given_up), (world.now.after(LEASE), false));
        assert_eq!(*recovery, None);
    }
}

#[test]
fn row_3_the_same_owner_finds_its_own_with_the_lease_set_anew() {
    for (mut world, waited) in [(live(), SECOND), (live(), LEASE), (live(), LEASE * 3)] {
        let first = world.standing().clone();
        world.pass(waited);
        let again = world.acquire(&ask(A));
        assert_eq!((again.fence, again.lease, again.age), (first.fence(), LEASE, waited));
        assert_eq!(world.locked_until(), world.now.after(LEASE));
    }
}

#[test]
fn row_3_comes_before_every_comparison() {
    let mut world = lapsed_after_a_recovery_point();
    let mut again = ask(A).body(2).policy(Takeover::Never);
    again.operation = "refund";
    let acquired = world.acquire(&again);
    assert_eq!((acquired.fence.attempt, acquired.fingerprint), (1, print(1)));
    assert_eq!(acquired.recovery, Some(point(1, "begun")));
    assert_eq!(world.standing().operation.as_str(), "charge");
}

#[test]
fn row_3_is_for_work_in_progress_only() {
    let mut world = completed();
    assert!(matches!(answer(&mut world, &ask(A)), Claimed::Completed(_)));
}

#[test]
fn row_4_an_unknown_scheme_is_an_error_whatever_the_state() {
    let newer = Fingerprint::from_parts(Scheme::from_byte(9), [1; 32]);
    for mut world in [live(), lapsed(), lapsed_after_a_recovery_point(), completed()] {
        world.record.as_mut().unwrap().fingerprint = newer;
        let before = world.record.clone();
        assert_eq!(world.claim(&ask(B)), Err(ErrorKind::WrongSchema));
        let other = Ask { operation: "refund", ..ask(B) };
        assert_eq!(world.claim(&other), Err(ErrorKind::WrongSchema), "before the operation");
        assert_eq!(world.record, before);

        let knows = Ask { fingerprints: Fingerprints::new(print(7)).also(newer), ..ask(B) };
        assert!(!matches!(world.claim(&knows), Err(_) | Ok(Claimed::Mismatch { .. })));
    }
}

#[test]
fn row_5_another_request_replaces_what_never_began() {
    let mut world = World::new();
    let first = world.acquire(&ask(A).marking());
    let other = ask(B).body(2);
    let before_the_lease_ends = world.claim(&other).unwrap();
    assert_eq!(before_the_lease_ends, Claimed::Mismatch { completed: false });

    world.pass(LEASE);
    let acquired = world.acquire(&other);
    assert!(acquired.replaced, "it is told, to be counted and logged");
    assert_eq!((acquired.fence.attempt, acquired.fingerprint), (1, print(2)));
    assert_eq!((acquired.age, acquired.input), (Duration::ZERO, Some(bytes("input of 11"))));
    assert_ne!(acquired.fence.incarnation, first.fence.incarnation, "a new life");
    assert_eq!(world.checkpoint(&first.fence, &point(1, "late")), Err(ErrorKind::FenceLost));
}

#[test]
fn row_5_another_request_replaces_what_has_outlived_its_retention() {
    let mut world = lapsed();
    world.pass(RETENTION - LEASE - SECOND);
    let other = ask(B).body(2);
    assert_eq!(answer(&mut world, &other), Claimed::Mismatch { completed: false });
    world.pass(SECOND);
    assert!(world.acquire(&other).replaced);
}

#[test]
fn row_5_needs_no_recovery_point_another_request_and_a_policy_that_inserts() {
    let mut world = lapsed_after_a_recovery_point();
    world.pass(RETENTION);
    let other = ask(B).body(2);
    assert_eq!(answer(&mut world, &other), Claimed::Mismatch { completed: false });

    let mut unbegun = World::new();
    let listed = unbegun.acquire(&ask(A).marking()).fence;
    unbegun.pass(RETENTION);
    let only = other.only(&listed);
    assert_eq!(answer(&mut unbegun, &only), Claimed::Mismatch { completed: false });
    let same_request = unbegun.acquire(&ask(B).marking());
    assert_eq!((same_request.fence.attempt, same_request.replaced), (2, false));
}

#[test]
fn row_6_another_operation_or_request_is_a_mismatch() {
    let other_operation = Ask { operation: "refund", ..ask(B) };
    for other in [ask(B).body(2), other_operation] {
        for mut world in [live(), lapsed(), lapsed_after_a_recovery_point()] {
            assert_eq!(answer(&mut world, &other), Claimed::Mismatch { completed: false });
        }
        assert_eq!(answer(&mut completed(), &other), Claimed::Mismatch { completed: true });
    }
}

#[test]
fn row_6_compares_with_the_like_and_not_what_is_not_compared() {
    let older = Fingerprint::from_parts(Scheme::from_byte(7), [3; 32]);
    let mut world = completed();
    world.record.as_mut().unwrap().fingerprint = older;
    let both = |old| Ask { fingerprints: Fingerprints::new(print(1)).also(old), ..ask(B) };
    assert!(matches!(answer(&mut world, &both(older)), Claimed::Completed(_)));
    let differs = Fingerprint::from_parts(Scheme::from_byte(7), [4; 32]);
    assert_eq!(answer(&mut world, &both(differs)), Claimed::Mismatch { completed: true });

    let not_compared = Ask { fingerprints: Fingerprints::not_compared(), ..ask(B) };
    assert!(matches!(answer(&mut world, &not_compared), Claimed::Completed(_)));
    world.record.as_mut().unwrap().fingerprint = Fingerprint::not_compared();
    assert!(matches!(answer(&mut world, &ask(B).body(2)), Claimed::Completed(_)));
}

#[test]
fn row_7_live_is_in_progress() {
    let mut world = live();
    world.pass(SECOND * 4);
    let remaining = SECOND * 6;
    assert_eq!(answer(&mut world, &ask(B)), Claimed::InProgress { remaining });
    let listed = world.standing().fence();
    assert_eq!(answer(&mut world, &ask(B).only(&listed)), Claimed::InProgress { remaining });
}

#[test]
fn row_8_a_lapsed_record_is_taken_over_as_it_stands() {
    let mut world = lapsed_after_a_recovery_point();
    let before = world.standing().clone();
    let acquired = world.acquire(&ask(B).marking());
    assert_eq!((acquired.fence.attempt, acquired.fence.owner), (2, ask(B).owner));
    assert_eq!(acquired.fence.incarnation, before.incarnation, "the same life");
    assert_eq!((acquired.lease, acquired.age), (LEASE, LEASE));
    assert_eq!(acquired.recovery, Some(point(1, "begun")));
    assert_eq!(acquired.input, Some(bytes("input of 10")), "the stored one");
    let after = world.standing();
    assert_eq!((&after.operation, after.fingerprint), (&before.operation, before.fingerprint));
    assert_eq!((after.created_at, after.retention), (before.created_at, before.retention));
    assert_eq!(world.locked_until(), world.now.after(LEASE));
}

#[test]
fn row_8_policies() {
    let below = |attempts, younger_than| Takeover::Below { attempts, younger_than };
    let listed = lapsed().standing().fence();
    let only = |younger_than| Takeover::Only {
        incarnation: listed.incarnation,
        attempt: listed.attempt,
        younger_than,
    };
    for allowed in [
        Takeover::Never, // No recovery point stands.
        below(2, LEASE + SECOND),
        below(u32::MAX, Duration::MAX),
        only(None),
        only(Some(LEASE + SECOND)),
    ] {
        assert_eq!(lapsed().acquire(&ask(B).policy(allowed)).fence.attempt, 2, "{allowed:?}");
    }
}

#[test]
fn row_9_what_the_policy_forbids_is_lapsed() {
    let listed = lapsed().standing().fence();
    let mut other_life = listed.clone();
    other_life.incarnation = idem_core::record::Incarnation::from_bytes([0xee; 16]);
    let mut other_attempt = listed.clone();
    other_attempt.attempt = 2;
    let too_old = Takeover::Only {
        incarnation: listed.incarnation,
        attempt: 1,
        younger_than: Some(LEASE + SECOND),
    };
    for forbidden in [
        ask(B).policy(Takeover::Below { attempts: 1, younger_than: Duration::MAX }),
        ask(B).policy(Takeover::Below { attempts: 9, younger_than: LEASE + SECOND }),
        ask(B).only(&other_life),
        ask(B).only(&other_attempt),
        ask(B).policy(too_old),
    ] {
        let mut world = lapsed();
        world.pass(SECOND);
        let since = SECOND;
        assert_eq!(answer(&mut world, &forbidden), Claimed::Lapsed(Lapsed::new(1, since)));
    }
    let mut begun = lapsed_after_a_recovery_point();
    let never = ask(B).policy(Takeover::Never);
    assert!(matches!(answer(&mut begun, &never), Claimed::Lapsed(_)));
}

#[test]
fn row_10_completed_is_replayed_to_every_policy() {
    let mut world = completed();
    world.pass(SECOND);
    let fence = world.standing().fence();
    for claim in [ask(B), ask(B).policy(Takeover::Never), ask(B).only(&fence)] {
        let Claimed::Completed(replay) = answer(&mut world, &claim) else { panic!("completed") };
        assert_eq!((&replay.reply, &replay.fence), (&bytes("reply of A"), &fence));
        assert_eq!(replay.expires_in, Some(RETENTION - SECOND));
    }
    let Claimed::Completed(own) = answer(&mut world, &ask(A)) else { panic!("completed") };
    assert_eq!(own.fence.owner, ask(A).owner, "an execution can tell its own");
}
