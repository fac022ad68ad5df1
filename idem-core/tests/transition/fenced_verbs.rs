//! Each verb that is conditional on a fence, in each state: absent, live, lapsed, given up,
//! completed, expired, and under every fence that is not the record's.

use std::time::Duration;

use idem_core::error::ErrorKind;
use idem_core::record::{Fence, Incarnation, Record, Retention, State};
use idem_core::store::{Lease, Renewed};
use idem_core::transition::{Applied, is_forgettable, is_lapsed};

use crate::world::{Ask, LEASE, RETENTION, SECOND, World, ask, bytes, point};

const A: u8 = 0xa;
const B: u8 = 0xb;

fn held() -> (World, Fence) {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    (world, fence)
}

fn completed() -> (World, Fence) {
    let (mut world, fence) = held();
    world.complete(&fence, "reply").unwrap();
    (world, fence)
}

/// The fence with one of its parts another: each must be compared.
fn foreign(fence: &Fence) -> Vec<Fence> {
    let other_scope = idem_core::key::Scope::new("t").unwrap();
    let other_key = idem_core::key::Key::new("l").unwrap();
    vec![
        Fence { incarnation: Incarnation::from_bytes([0xee; 16]), ..fence.clone() },
        Fence { attempt: fence.attempt + 1, ..fence.clone() },
        Fence { owner: ask(B).owner, ..fence.clone() },
        Fence { scope: other_scope, ..fence.clone() },
        Fence { key: other_key, ..fence.clone() },
    ]
}

/// Every verb but `remove` and `release`, as the kind of its error.
fn refusals(world: &mut World, fence: &Fence) -> Vec<Option<ErrorKind>> {
    vec![
        world.renew(fence, LEASE).err(),
        world.renew(fence, Duration::ZERO).err(),
        world.checkpoint(fence, &point(1, "p")).err(),
        world.complete(fence, "reply").err(),
        world.hold(fence).err(),
    ]
}

fn unchanged<T>(world: &mut World, act: impl FnOnce(&mut World) -> T) -> T {
    let before: Option<Record> = world.record.clone();
    let result = act(world);
    assert_eq!(world.record, before);
    result
}

#[test]
fn nothing_is_held_where_nothing_stands() {
    let (mut world, fence) = held();
    world.record = None;
    for refusal in refusals(&mut world, &fence) {
        assert_eq!(refusal, Some(ErrorKind::FenceLost));
    }
    assert_eq!(world.release(&fence), Ok(()), "released before");
    assert_eq!(world.remove(&fence), Ok(()), "removed before");
    assert_eq!(world.record, None);
}

#[test]
fn an_expired_record_counts_as_absent() {
    let (mut world, fence) = completed();
    world.pass(RETENTION);
    for refusal in unchanged(&mut world, |world| refusals(world, &fence)) {
        assert_eq!(refusal, Some(ErrorKind::FenceLost));
    }
    assert_eq!(unchanged(&mut world, |world| world.release(&fence)), Ok(()));
    assert_eq!(world.remove(&fence), Ok(()));
    assert_eq!(world.record, None, "an operator may still take it away");
}

#[test]
fn every_part_of_the_fence_is_compared() {
    for finished in [false, true] {
        let (mut world, fence) = if finished { completed() } else { held() };
        for foreign in foreign(&fence) {
            for refusal in unchanged(&mut world, |world| refusals(world, &foreign)) {
                assert_eq!(refusal, Some(ErrorKind::FenceLost), "{foreign:?}");
            }
            let lost = Err(ErrorKind::FenceLost);
            assert_eq!(unchanged(&mut world, |world| world.release(&foreign)), lost);
            assert_eq!(unchanged(&mut world, |world| world.remove(&foreign)), lost);
        }
    }
}

#[test]
fn renew_sets_the_lease_from_now_and_never_shortens_it() {
    let (mut world, fence) = held();
    world.pass(SECOND * 4);
    let longer = Renewed::Held(Lease { remaining: LEASE });
    assert_eq!(world.renew(&fence, LEASE), Ok(longer));
    assert_eq!(world.locked_until(), world.now.after(LEASE));

    let kept = Renewed::Held(Lease { remaining: LEASE });
    assert_eq!(world.renew(&fence, SECOND), Ok(kept), "what stands is longer");
    assert_eq!(world.locked_until(), world.now.after(LEASE));
}

#[test]
fn a_lapsed_lease_may_be_renewed_until_somebody_takes_over() {
    let (mut world, fence) = held();
    world.pass(LEASE * 2);
    assert_eq!(world.renew(&fence, LEASE), Ok(Renewed::Held(Lease { remaining: LEASE })));
    world.pass(LEASE);
    world.acquire(&ask(B));
    assert_eq!(world.renew(&fence, LEASE), Err(ErrorKind::FenceLost));
}

#[test]
fn a_lease_that_was_given_up_stays_so_for_its_holder() {
    let (mut world, fence) = held();
    world.pass(SECOND);
    assert_eq!(world.renew(&fence, Duration::ZERO), Ok(Renewed::GivenUp));
    assert_eq!(world.locked_until(), world.now, "lapsed at once");
    assert!(is_lapsed(world.standing(), world.now));
    assert_eq!(unchanged(&mut world, |w| w.renew(&fence, LEASE)), Ok(Renewed::GivenUp));
    assert_eq!(unchanged(&mut world, |w| w.renew(&fence, Duration::ZERO)), Ok(Renewed::GivenUp));

    let (applied, lease) = world.checkpoint(&fence, &point(1, "p")).unwrap();
    assert_eq!((applied, lease.remaining), (Applied::Now, Duration::ZERO));
    assert!(is_lapsed(world.standing(), world.now));
    assert_eq!(world.complete(&fence, "reply"), Ok(Applied::Now), "what it found out counts");
}

#[test]
fn giving_up_a_lapsed_lease_does_not_move_its_end() {
    let (mut world, fence) = held();
    world.pass(LEASE * 3);
    let ended = world.locked_until();
    world.renew(&fence, Duration::ZERO).unwrap();
    assert_eq!(world.locked_until(), ended);
}

#[test]
fn the_next_holder_of_a_lease_that_was_given_up_renews_it() {
    let (mut world, fence) = held();
    world.renew(&fence, Duration::ZERO).unwrap();
    let taken = world.acquire(&ask(B)).fence;
    assert_eq!(world.renew(&taken, LEASE), Ok(Renewed::Held(Lease { remaining: LEASE })));
}

#[test]
fn renewing_a_completed_record_says_so_and_writes_nothing() {
    let (mut world, fence) = completed();
    for lease in [LEASE, Duration::ZERO] {
        assert_eq!(unchanged(&mut world, |w| w.renew(&fence, lease)), Ok(Renewed::Completed));
    }
}

#[test]
fn recovery_points_follow_each_other() {
    let (mut world, fence) = held();
    let refused = Err(ErrorKind::Refused);
    let kind = |result: Result<(Applied, Lease), ErrorKind>| result.map(|(applied, _)| applied);
    for early in [0, 2, u32::MAX] {
        assert_eq!(
            kind(unchanged(&mut world, |w| w.checkpoint(&fence, &point(early, "")))),
            refused
        );
    }
    world.pass(SECOND * 4);
    assert_eq!(kind(world.checkpoint(&fence, &point(1, "one"))), Ok(Applied::Now));
    assert_eq!(world.locked_until(), world.now.after(LEASE), "the lease is in the same write");
    assert_eq!(kind(world.checkpoint(&fence, &point(1, "one"))), Ok(Applied::Already));
    let other_bytes = unchanged(&mut world, |w| w.checkpoint(&fence, &point(1, "uno")));
    assert_eq!(kind(other_bytes), refused);
    assert_eq!(kind(world.checkpoint(&fence, &point(2, "two"))), Ok(Applied::Now));
    assert_eq!(kind(unchanged(&mut world, |w| w.checkpoint(&fence, &point(1, "one")))), refused);
    assert_eq!(world.standing().recovery(), Some(&point(2, "two")));
}

#[test]
fn the_next_attempt_goes_on_counting() {
    let (mut world, fence) = held();
    world.checkpoint(&fence, &point(1, "one")).unwrap();
    world.pass(LEASE);
    let taken = world.acquire(&ask(B)).fence;
    assert_eq!(world.checkpoint(&taken, &point(1, "one")).unwrap().0, Applied::Already);
    assert_eq!(world.checkpoint(&taken, &point(2, "two")).unwrap().0, Applied::Now);
    assert_eq!(world.checkpoint(&fence, &point(2, "two")).err(), Some(ErrorKind::FenceLost));
}

#[test]
fn completing_ends_the_execution_and_forgets_its_input() {
    let (mut world, fence) = held();
    world.checkpoint(&fence, &point(1, "one")).unwrap();
    world.pass(LEASE * 2);
    assert_eq!(world.complete(&fence, "reply"), Ok(Applied::Now), "lapsed, and not taken over");
    assert_eq!((world.standing().input.as_ref(), world.reply()), (None, &bytes("reply")));
    assert_eq!(world.standing().fence(), fence);
    assert_eq!(world.hold(&fence), Err(ErrorKind::FenceLost), "nothing to hold any more");
    assert_eq!(world.checkpoint(&fence, &point(2, "two")).err(), Some(ErrorKind::FenceLost));
    assert_eq!(world.release(&fence), Err(ErrorKind::FenceLost));
}

#[test]
fn a_repeated_completion_is_ok_with_the_same_bytes_only() {
    let (mut world, fence) = completed();
    assert_eq!(unchanged(&mut world, |w| w.complete(&fence, "reply")), Ok(Applied::Already));
    let other = unchanged(&mut world, |w| w.complete(&fence, "other"));
    assert_eq!(other, Err(ErrorKind::FenceLost));
}

#[test]
fn the_expiry_counts_from_the_first_claim_with_a_least_after_completion() {
    let expiry = |retention, ran: Duration| {
        let mut world = World::new();
        let fence = world.acquire(&Ask { retention, ..ask(A) }).fence;
        let created = world.now;
        world.pass(ran);
        world.complete(&fence, "reply").unwrap();
        let State::Completed { expires_at, .. } = world.standing().state else { panic!() };
        expires_at.map(|at| at.since(created))
    };
    let of = |total, least| Retention::at_least(SECOND * total, SECOND * least);
    assert_eq!(expiry(of(100, 10), SECOND * 50), Some(SECOND * 100));
    assert_eq!(expiry(of(100, 10), SECOND * 95), Some(SECOND * 105));
    assert_eq!(expiry(of(100, 0), SECOND * 150), Some(SECOND * 150), "at once");
    assert_eq!(expiry(Retention::Forever, SECOND * 150), None);
}

#[test]
fn release_is_for_the_first_attempt_before_anything_stands() {
    let (mut world, fence) = held();
    assert_eq!(world.release(&fence), Ok(()));
    assert_eq!(world.record, None);
    assert_eq!(world.release(&fence), Ok(()), "again");

    let (mut world, fence) = held();
    world.pass(LEASE);
    assert_eq!(world.release(&fence), Ok(()), "lapsed, and not taken over");

    let (mut world, fence) = held();
    world.checkpoint(&fence, &point(1, "begun")).unwrap();
    assert_eq!(unchanged(&mut world, |w| w.release(&fence)), Err(ErrorKind::Refused));

    let (mut world, first) = held();
    world.pass(LEASE);
    let second = world.acquire(&ask(B)).fence;
    assert_eq!(unchanged(&mut world, |w| w.release(&second)), Err(ErrorKind::Refused));
    assert_eq!(unchanged(&mut world, |w| w.release(&first)), Err(ErrorKind::FenceLost));
}

#[test]
fn remove_takes_away_whatever_stands_under_its_fence() {
    let (mut world, fence) = held();
    world.checkpoint(&fence, &point(1, "begun")).unwrap();
    assert_eq!(world.remove(&fence), Ok(()));
    let (mut world, fence) = completed();
    assert_eq!(world.remove(&fence), Ok(()));
    assert_eq!(world.record, None);
}

#[test]
fn forgetting_leaves_what_is_in_progress() {
    let (mut world, fence) = held();
    assert!(!is_forgettable(world.standing()));
    world.pass(LEASE);
    assert!(!is_forgettable(world.standing()), "lapsed work is work");
    world.complete(&fence, "reply").unwrap();
    assert!(is_forgettable(world.standing()));
}
