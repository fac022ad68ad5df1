//! The shortest traces known to break a store that leaves a rule out. Each plays the trace and
//! expects the rule to hold. What the engine must add is tested with the engine.

use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};
use idem_core::error::ErrorKind;
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::store::Renewed;
use idem_core::transition::{Applied, is_forgettable, is_lapsed, is_sweepable};

use crate::world::{LEASE, RETENTION, SECOND, World, ask, bytes, point};

const A: u8 = 0xa;
const B: u8 = 0xb;
const C: u8 = 0xc;

/// R8. A's claim was resent and a copy delayed. The record completes and expires; the copy brings
/// back a record with A's owner and attempt 1. A's old completion must not match it.
#[test]
fn a_late_claim_that_recreates_the_record_does_not_revive_an_old_completion() {
    let mut world = World::new();
    let first = world.acquire(&ask(A)).fence;
    world.pass(LEASE);
    let taken = world.acquire(&ask(B)).fence;
    world.complete(&taken, "reply of B").unwrap();
    world.pass(RETENTION);

    let recreated = world.acquire(&ask(A)).fence;
    assert_eq!((recreated.attempt, recreated.owner), (first.attempt, first.owner));
    assert_eq!(world.complete(&first, "reply of A"), Err(ErrorKind::FenceLost));
    assert_eq!(world.renew(&first, LEASE), Err(ErrorKind::FenceLost));
    assert_eq!(world.standing().fence(), recreated);
}

/// R8. A releases; the copy of its claim recreates the record; a second copy of the release must
/// not delete it under whoever holds it now.
#[test]
fn a_late_release_does_not_delete_the_next_life() {
    let mut world = World::new();
    let first = world.acquire(&ask(A)).fence;
    world.release(&first).unwrap();
    let recreated = world.acquire(&ask(A)).fence;
    assert_eq!(world.release(&first), Err(ErrorKind::FenceLost));
    assert_eq!(world.standing().fence(), recreated);
}

/// R8. Checkpoint 1 is sent twice and one copy delayed; checkpoint 2 lands, then the copy.
#[test]
fn a_late_recovery_point_does_not_move_back() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    world.checkpoint(&fence, &point(1, "charged")).unwrap();
    world.checkpoint(&fence, &point(2, "shipped")).unwrap();
    assert_eq!(world.checkpoint(&fence, &point(1, "charged")).err(), Some(ErrorKind::Refused));
    assert_eq!(world.standing().recovery(), Some(&point(2, "shipped")));
}

/// R14. A claims, charges and pauses; B takes over, finds the request invalid by now, and asks to
/// free the key. A corrected request would then charge again.
#[test]
fn the_key_is_not_freed_once_an_attempt_may_have_acted() {
    let mut world = World::new();
    world.acquire(&ask(A));
    world.pass(LEASE);
    let second = world.acquire(&ask(B)).fence;
    assert_eq!(world.release(&second), Err(ErrorKind::Refused));
    assert_eq!(world.claim(&ask(C).body(2)), Ok(Claimed::Mismatch { completed: false }));
}

/// R26. A claims a held operation and crashes before its handler: nothing began, so the next
/// claim goes on; with another request it starts anew.
#[test]
fn hold_does_not_wedge_a_key_under_which_nothing_began() {
    let mut world = World::new();
    world.acquire(&ask(A).marking().policy(Takeover::Never));
    world.pass(LEASE);
    let never = ask(B).marking().policy(Takeover::Never);
    assert_eq!(world.clone().acquire(&never).fence.attempt, 2);
    assert!(world.clone().acquire(&never.body(2)).replaced);
}

/// R26, the other way round: once something began, hold holds.
#[test]
fn hold_holds_what_began() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A).marking().policy(Takeover::Never)).fence;
    world.checkpoint(&fence, &point(1, "begun")).unwrap();
    world.pass(LEASE);
    let never = ask(B).marking().policy(Takeover::Never);
    assert!(matches!(world.claim(&never), Ok(Claimed::Lapsed(_))));
    world.pass(RETENTION * 9);
    assert!(matches!(world.claim(&never), Ok(Claimed::Lapsed(_))), "for ever");
}

/// R26, R10. A late copy of a claim recreates a record that nobody asks for: it has no recovery
/// point, by which a reconciler leaves it alone, and it can be swept once it has outlived its
/// retention. What began is never swept.
#[test]
fn what_a_late_claim_recreated_is_told_apart_and_swept() {
    let mut world = World::new();
    let ghost = world.acquire(&ask(A).marking()).fence;
    world.pass(RETENTION - SECOND);
    assert_eq!(world.recovery_number(), None);
    assert!(!world.sweep(), "not before its retention is over");
    world.pass(SECOND);
    assert!(world.clone().sweep());

    world.checkpoint(&ghost, &point(1, "begun")).unwrap();
    world.pass(RETENTION * 9);
    assert!(!world.sweep());
}

/// R10. A record that does not mark begun may have begun: it is never swept.
#[test]
fn work_that_does_not_mark_begun_is_never_swept() {
    let mut world = World::new();
    world.acquire(&ask(A));
    world.pass(RETENTION * 9);
    assert!(is_lapsed(world.standing(), world.now));
    assert!(!is_sweepable(world.standing(), world.now));
}

/// R26 across releases. One release marks begun, the next does not and takes over: from then on
/// the missing recovery point says nothing, so another request does not replace the record, and
/// no sweep takes it.
#[test]
fn a_takeover_that_does_not_mark_ends_the_promise_that_nothing_began() {
    let mut world = World::new();
    world.acquire(&ask(A).marking());
    world.pass(LEASE);
    world.acquire(&ask(B)); // Acts without marking, and dies.
    world.pass(LEASE);
    let other = world.claim(&ask(C).marking().body(2));
    assert_eq!(other, Ok(Claimed::Mismatch { completed: false }));
    assert_eq!(world.acquire(&ask(C).marking()).fence.attempt, 3, "the same request goes on");
    world.pass(LEASE);
    assert!(!world.standing().marks_begun, "and it is not promised anew");
}

/// Claim table, row 3. The claim is applied, its reply lost, the lease lapses; the same call
/// again must not be told of a lease that is over.
#[test]
fn a_repeated_claim_never_gets_a_dead_lease() {
    let mut world = World::new();
    world.acquire(&ask(A));
    world.pass(LEASE * 2);
    assert_eq!(world.acquire(&ask(A)).lease, LEASE);
    assert!(!is_lapsed(world.standing(), world.now));
}

/// Claim table. A reconciler lists a lapsed record; the holder completes it; it expires; the key
/// is claimed anew and lapses at the same attempt. The reconciler must not take that over.
#[test]
fn a_reconciler_does_not_take_over_another_life() {
    let mut world = World::new();
    let listed = world.acquire(&ask(A)).fence;
    world.checkpoint(&listed, &point(1, "begun")).unwrap();
    world.pass(LEASE);
    let reconciler = ask(B).only(&listed);
    world.complete(&listed, "reply").unwrap();
    assert!(matches!(world.claim(&reconciler), Ok(Claimed::Completed(_))));
    world.pass(RETENTION);
    assert_eq!(world.claim(&reconciler), Ok(Claimed::Gone));

    let next = world.acquire(&ask(C)).fence;
    world.checkpoint(&next, &point(1, "begun")).unwrap();
    world.pass(LEASE);
    assert_eq!(next.attempt, listed.attempt);
    assert!(matches!(world.claim(&reconciler), Ok(Claimed::Lapsed(_))));
    assert_eq!(world.standing().fence(), next);
}

/// R27. The holder has sent its completion; a takeover that is too old to go on would only fence
/// it out, so the age is judged inside the claim.
#[test]
fn a_takeover_that_may_not_go_on_does_not_fence_out_the_holder() {
    let window = LEASE * 2;
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    world.pass(window);
    let too_late = Takeover::Below { attempts: 9, younger_than: window };
    let listed = Takeover::Only {
        incarnation: fence.incarnation,
        attempt: fence.attempt,
        younger_than: Some(window),
    };
    for policy in [too_late, listed] {
        assert!(matches!(world.claim(&ask(B).policy(policy)), Ok(Claimed::Lapsed(_))));
    }
    assert_eq!(world.complete(&fence, "reply"), Ok(Applied::Now));
}

/// R5. A's transaction committed and the acknowledgement was lost; A runs its rows and the
/// completion again. A transaction must learn that it was done before, or the rows stand twice.
#[test]
fn a_repeated_completion_is_told_apart_from_the_first() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    assert_eq!(world.complete(&fence, "reply"), Ok(Applied::Now));
    assert_eq!(world.complete(&fence, "reply"), Ok(Applied::Already));
}

/// A scope is forgotten while a claim is live or lapsed: what is in progress stays.
#[test]
fn forgetting_a_scope_does_not_free_a_key_in_progress() {
    let mut world = World::new();
    world.acquire(&ask(A));
    assert!(!is_forgettable(world.standing()));
    world.pass(LEASE);
    assert!(!is_forgettable(world.standing()));
}

/// R23. After a downgrade the record holds a scheme that this build does not know: a different
/// body must not be answered with the stored reply.
#[test]
fn a_reply_under_an_unknown_scheme_is_not_replayed() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    world.complete(&fence, "reply").unwrap();
    let newer = Fingerprint::from_parts(Scheme::from_byte(200), [1; 32]);
    world.record.as_mut().unwrap().fingerprint = newer;
    assert_eq!(world.claim(&ask(B).body(2)), Err(ErrorKind::WrongSchema));
    assert_eq!(world.reply(), &bytes("reply"));
}

/// R8. A late heartbeat lands after the lease was given up: a dead holder must not look alive.
#[test]
fn a_late_heartbeat_does_not_revive_a_lease_that_was_given_up() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    world.renew(&fence, Duration::ZERO).unwrap();
    assert_eq!(world.renew(&fence, LEASE), Ok(Renewed::GivenUp));
    world.checkpoint(&fence, &point(1, "late")).unwrap();
    assert!(is_lapsed(world.standing(), world.now));
}

/// R8. Nor does a late copy of the claim, beyond the one lease that the claim table gives it.
#[test]
fn a_late_claim_after_giving_up_gets_one_lease_and_no_heartbeats() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    world.renew(&fence, Duration::ZERO).unwrap();
    world.acquire(&ask(A));
    let end = world.locked_until();
    world.pass(LEASE - SECOND);
    assert_eq!(world.renew(&fence, LEASE), Ok(Renewed::GivenUp));
    assert_eq!(world.locked_until(), end);
}

/// R8. A late heartbeat with a shorter lease must not make a live holder lapse.
#[test]
fn a_late_heartbeat_does_not_shorten_a_lease() {
    let mut world = World::new();
    let fence = world.acquire(&ask(A)).fence;
    world.renew(&fence, LEASE * 4).unwrap();
    world.renew(&fence, LEASE).unwrap();
    world.pass(LEASE * 4 - SECOND);
    assert!(matches!(world.claim(&ask(B)), Ok(Claimed::InProgress { .. })));
}
