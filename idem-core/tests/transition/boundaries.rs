//! The instant itself, the smallest and the largest: `until <= now` is over, in every verb.

use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};
use idem_core::error::ErrorKind;
use idem_core::record::{Retention, State};
use idem_core::store::Renewed;
use idem_core::time::{MAX_DURATION, MIN_LEASE, Timestamp};
use idem_core::transition::{is_lapsed, is_sweepable, visible};

use crate::world::{Ask, LEASE, RETENTION, SECOND, World, ask, bytes, point};

const A: u8 = 0xa;
const B: u8 = 0xb;
const MICRO: Duration = Duration::from_micros(1);

#[test]
fn a_lease_is_over_at_its_very_end() {
    let mut world = World::new();
    world.acquire(&ask(A));
    world.pass(LEASE - MICRO);
    assert_eq!(world.claim(&ask(B)), Ok(Claimed::InProgress { remaining: MICRO }));
    assert!(!is_lapsed(world.standing(), world.now));
    world.pass(MICRO);
    assert!(is_lapsed(world.standing(), world.now));
    assert_eq!(world.acquire(&ask(B)).fence.attempt, 2);
}

#[test]
fn a_reply_is_gone_at_its_very_expiry() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    world.complete(&fence, "reply").unwrap();
    world.pass(RETENTION - MICRO);
    let Ok(Claimed::Completed(replay)) = world.claim(&ask(B)) else { panic!("completed") };
    assert_eq!(replay.expires_in, Some(MICRO));
    assert!(!is_sweepable(world.standing(), world.now));
    world.pass(MICRO);
    assert!(is_sweepable(world.standing(), world.now));
    assert_eq!(visible(world.record.as_ref(), world.now), None, "swept or not");
    assert_eq!(world.acquire(&ask(B)).fence.attempt, 1);
}

#[test]
fn the_age_of_a_takeover_is_over_at_its_very_end() {
    let younger_than = LEASE * 2;
    let policy = Takeover::Below { attempts: 9, younger_than };
    let mut world = World::new();
    world.acquire(&ask(A));
    world.pass(younger_than - MICRO);
    assert_eq!(world.clone().acquire(&ask(B).policy(policy)).fence.attempt, 2);
    world.pass(MICRO);
    assert!(matches!(world.claim(&ask(B).policy(policy)), Ok(Claimed::Lapsed(_))));
}

#[test]
fn a_lease_of_zero_is_a_very_short_one() {
    let mut world = World::new();
    let acquired = world.acquire(&Ask { lease: Duration::ZERO, ..ask(A) });
    assert_eq!(acquired.lease, MIN_LEASE);
    assert_eq!(world.locked_until(), world.now.after(MIN_LEASE));
    world.pass(MIN_LEASE);
    let taken = world.acquire(&Ask { lease: Duration::ZERO, ..ask(B) });
    assert_eq!((taken.fence.attempt, taken.lease), (2, MIN_LEASE));
}

#[test]
fn the_longest_durations_do_not_overflow() {
    let mut world = World::new();
    let retention = Retention::For { total: Duration::MAX, after_completion: Duration::MAX };
    let longest = Ask { lease: Duration::MAX, retention, ..ask(A) };
    let acquired = world.acquire(&longest);
    assert_eq!(acquired.lease, MAX_DURATION);
    let renewed = world.renew(&acquired.fence, Duration::MAX).unwrap();
    assert!(matches!(renewed, Renewed::Held(lease) if lease.remaining == MAX_DURATION));
    world.complete(&acquired.fence, "reply").unwrap();
    let State::Completed { expires_at, .. } = world.standing().state else { panic!() };
    assert_eq!(expires_at, Some(world.now.after(MAX_DURATION)));
    world.now = Timestamp::from_unix_micros(i64::MAX - 5);
    world.record = None;
    assert!(world.acquire(&longest).lease > Duration::ZERO, "at the end of time");
}

#[test]
fn attempts_end_and_never_wrap_round() {
    let mut world = World::new();
    world.acquire(&ask(A));
    world.record.as_mut().unwrap().attempt = u32::MAX - 1;
    world.pass(LEASE);
    let any = Takeover::Below { attempts: u32::MAX, younger_than: Duration::MAX };
    let last = world.acquire(&ask(B).policy(any));
    assert_eq!(last.fence.attempt, u32::MAX);
    world.pass(LEASE);
    for policy in [any, Takeover::Never, ask(A).only(&last.fence).takeover] {
        let claimed = world.claim(&ask(A).policy(policy));
        assert!(matches!(claimed, Ok(Claimed::Lapsed(_))), "{policy:?}: {claimed:?}");
    }
    assert_eq!(world.standing().fence(), last.fence);
    world.complete(&last.fence, "reply").unwrap();
}

#[test]
fn a_cap_of_no_attempts_takes_nothing_over() {
    let mut world = World::new();
    let none = Takeover::Below { attempts: 0, younger_than: Duration::MAX };
    world.acquire(&ask(A).policy(none));
    world.pass(LEASE);
    assert!(matches!(world.claim(&ask(B).policy(none)), Ok(Claimed::Lapsed(_))));
}

#[test]
fn a_recovery_point_of_the_last_number_stays() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    world.checkpoint(&fence, &point(1, "p")).unwrap();
    let State::InProgress { recovery, .. } = &mut world.record.as_mut().unwrap().state else {
        panic!()
    };
    *recovery = Some(point(u32::MAX, "last"));
    for number in [0, 1, u32::MAX] {
        let refused = world.checkpoint(&fence, &point(number, "next"));
        assert_eq!(refused.err(), Some(ErrorKind::Refused), "{number}");
    }
    assert_eq!(world.recovery_number(), Some(u32::MAX));
}

#[test]
fn a_clock_that_steps_back_lengthens_a_lease_and_breaks_nothing() {
    let mut world = World::new();
    let first = world.acquire(&ask(A)).fence;
    world.step_back(SECOND * 30);
    let remaining = LEASE + SECOND * 30;
    assert_eq!(world.claim(&ask(B)), Ok(Claimed::InProgress { remaining }));
    let Ok(Renewed::Held(lease)) = world.renew(&first, LEASE) else { panic!("held") };
    assert_eq!(lease.remaining, remaining, "never shortened");
    let again = world.acquire(&ask(A));
    assert_eq!((again.lease, again.age), (remaining, Duration::ZERO), "no negative age");
    world.complete(&first, "reply").unwrap();
    let Ok(Claimed::Completed(replay)) = world.claim(&ask(B)) else { panic!("completed") };
    assert_eq!(replay.expires_in, Some(RETENTION + SECOND * 30));
}

#[test]
fn a_reply_that_expired_is_back_when_the_clock_is_and_nobody_swept() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    world.complete(&fence, "reply").unwrap();
    world.pass(RETENTION);
    world.step_back(SECOND);
    let Ok(Claimed::Completed(replay)) = world.claim(&ask(B)) else { panic!("completed") };
    assert_eq!(replay.reply, bytes("reply"));
}

#[test]
fn a_retention_of_zero_keeps_nothing() {
    let mut world = World::new();
    let brief = Ask { retention: Retention::of(Duration::ZERO), ..ask(A) };
    let fence = world.acquire(&brief).fence;
    assert_eq!(world.claim(&ask(B)), Ok(Claimed::InProgress { remaining: LEASE }), "work stays");
    world.complete(&fence, "reply").unwrap();
    assert_eq!(world.acquire(&ask(B)).fence.attempt, 1);
}
