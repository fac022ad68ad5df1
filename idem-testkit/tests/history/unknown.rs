//! Histories with calls of which nobody knows whether they took effect, or when.

use std::time::Duration;

use idem_core::error::ErrorKind;
use idem_testkit::history::{Answer, Call, History, Operation, check};

use crate::words::*;

/// Nobody heard of it again.
fn unknown(from: u64, of: Call) -> Operation {
    call(from, from, of, Answer::Unknown)
}

fn release(life: u8, attempt: u32, owner: u8) -> Call {
    Call::Release { fence: fence(life, attempt, owner) }
}

/// A claim whose lease is over when others claim half a second later.
fn brief_claim() -> Operation {
    call(0, 1, claim(1, Duration::from_millis(10)), acquired(1, 1, 1))
}

fn first_claim() -> Operation {
    call(0, 1, claim(1, HOUR), acquired(1, 1, 1))
}

#[test]
fn a_claim_may_never_arrive() {
    good(vec![unknown(0, claim(1, HOUR)), call(5, 6, claim(2, HOUR), acquired(2, 1, 2))]);
}

#[test]
fn a_claim_may_have_been_applied_under_an_incarnation_that_nobody_saw() {
    good(vec![
        unknown(0, claim(1, HOUR)),
        call(5, 6, claim(2, HOUR), in_progress()),
        call(7, 8, claim(1, HOUR), acquired(1, 1, 1)),
        call(9, 10, complete(1, 1, 1, "done"), Answer::Done),
    ]);
}

#[test]
fn a_claim_may_arrive_after_another_life_has_come_and_gone() {
    good(vec![
        unknown(0, claim(1, HOUR)),
        call(5, 6, claim(2, HOUR), acquired(2, 1, 2)),
        call(7, 8, release(2, 1, 2), Answer::Done),
        call(9, 10, claim(3, HOUR), in_progress()),
    ]);
}

#[test]
fn a_claim_may_arrive_after_its_own_repeat_was_released_but_under_a_life_of_its_own() {
    let repeated = || {
        vec![
            unknown(0, claim(1, HOUR)),
            call(5, 6, claim(1, HOUR), acquired(1, 1, 1)),
            call(7, 8, release(1, 1, 1), Answer::Done),
            call(9, 10, claim(2, HOUR), in_progress()),
        ]
    };
    good(repeated());
    // The late copy has the same owner and the same attempt, and another incarnation (R8).
    let mut old_fence = repeated();
    old_fence.push(call(11, 12, complete(1, 1, 1, "late"), Answer::Done));
    assert_eq!(moments(&bad(old_fence)), [11]);
}

/// The repeat asks for a life that is over, and is told of the one that its owner began (R5).
#[test]
fn a_claim_of_one_life_may_be_told_of_another_that_its_own_late_copy_began() {
    let first = || vec![first_claim(), call(2, 5, release(1, 1, 1), Answer::Done)];
    let repeat = || call(4, 6, claim_only(2, fence(1, 1, 1)), acquired(2, 1, 2));
    let mut late = first();
    late.insert(1, unknown(1, claim(2, HOUR)));
    late.push(repeat());
    good(late.clone());
    // What it was told of is known from then on.
    late.push(call(7, 8, complete(3, 1, 2, "done"), Answer::Done));
    assert_eq!(moments(&bad(late)), [7]);
    // What was never answered is shown apart where it explains nothing.
    let mut other = first();
    other.insert(1, unknown(3, claim(3, HOUR)));
    other.push(repeat());
    let violation = check(&History::new(other)).unwrap_err();
    assert_eq!(moments(violation.window()), [2, 4]);
    assert!(violation.to_string().contains("-> unknown"), "{violation}");
    // Nobody else's, and where there was no copy, it began a life that nobody asked for (R2).
    let mut alone = first();
    alone.push(repeat());
    bad(alone);
}

#[test]
fn a_claim_that_was_seen_cannot_be_gone_again_by_itself() {
    let window = bad(vec![
        unknown(0, claim(1, HOUR)),
        call(1, 2, claim(3, HOUR), in_progress()),
        call(3, 4, get(), Answer::Seen(None)),
    ]);
    assert_eq!(moments(&window), [3]);
}

#[test]
fn a_completion_may_take_effect_long_after_it_was_sent() {
    good(vec![
        first_claim(),
        unknown(2, complete(1, 1, 1, "done")),
        call(5, 6, claim(2, HOUR), in_progress()),
        call(500, 501, claim(3, HOUR), in_progress()),
        call(900, 901, claim(4, HOUR), replay(1, 1, 1, "done")),
    ]);
}

#[test]
fn a_completion_that_was_seen_stays() {
    let window = bad(vec![
        first_claim(),
        unknown(2, complete(1, 1, 1, "done")),
        call(5, 6, claim(2, HOUR), replay(1, 1, 1, "done")),
        call(7, 8, claim(3, HOUR), in_progress()),
    ]);
    assert_eq!(moments(&window), [7]);
}

#[test]
fn a_completion_is_not_seen_before_it_was_sent() {
    let window = bad(vec![
        first_claim(),
        call(2, 3, claim(2, HOUR), replay(1, 1, 1, "done")),
        unknown(5, complete(1, 1, 1, "done")),
    ]);
    assert_eq!(moments(&window), [2]);
}

#[test]
fn a_completion_that_comes_after_a_takeover_is_refused() {
    let taken_over = || {
        vec![
            brief_claim(),
            unknown(2, complete(1, 1, 1, "late")),
            call(500, 501, claim(2, HOUR), acquired(1, 2, 2)),
        ]
    };
    let mut other = taken_over();
    other.push(call(502, 503, complete(1, 2, 2, "other"), Answer::Done));
    other.push(call(504, 505, claim(3, HOUR), replay(1, 2, 2, "other")));
    good(other);
    let mut late = taken_over();
    late.push(call(502, 503, claim(3, HOUR), replay(1, 1, 1, "late")));
    assert_eq!(moments(&bad(late)), [502]);
}

#[test]
fn of_two_completions_only_one_can_stand() {
    let two = |last| {
        vec![
            first_claim(),
            unknown(2, complete(1, 1, 1, "one")),
            unknown(3, complete(1, 1, 1, "two")),
            call(5, 6, claim(2, HOUR), replay(1, 1, 1, "two")),
            call(7, 8, claim(3, HOUR), replay(1, 1, 1, last)),
        ]
    };
    good(two("two"));
    assert_eq!(moments(&bad(two("one"))), [7]);
}

#[test]
fn a_release_may_take_effect_late_but_not_on_a_reply_or_on_a_taker() {
    good(vec![
        first_claim(),
        unknown(2, release(1, 1, 1)),
        call(5, 6, claim(2, HOUR), in_progress()),
        call(7, 8, claim(3, HOUR), acquired(3, 1, 3)),
    ]);
    let window = bad(vec![
        first_claim(),
        unknown(2, release(1, 1, 1)),
        call(3, 4, complete(1, 1, 1, "done"), Answer::Done),
        call(5, 6, claim(2, HOUR), acquired(2, 1, 2)),
    ]);
    assert_eq!(moments(&window), [5]);
    let window = bad(vec![
        brief_claim(),
        unknown(2, release(1, 1, 1)),
        call(500, 501, claim(2, HOUR), acquired(1, 2, 2)),
        call(502, 503, get(), Answer::Seen(None)),
    ]);
    assert_eq!(moments(&window), [502]);
}

#[test]
fn giving_up_may_take_effect_late() {
    let give_up = Call::Renew { fence: fence(1, 1, 1), lease: Duration::ZERO };
    good(vec![
        first_claim(),
        unknown(2, give_up),
        call(5, 6, claim(2, HOUR), in_progress()),
        call(7, 8, claim(3, HOUR), acquired(1, 2, 3)),
    ]);
    // Without it nobody may take over.
    let window = bad(vec![
        first_claim(),
        call(5, 6, claim(2, HOUR), in_progress()),
        call(7, 8, claim(3, HOUR), acquired(1, 2, 3)),
    ]);
    assert_eq!(moments(&window), [7]);
}

#[test]
fn a_takeover_of_which_nobody_heard_fences_out_the_holder() {
    let refused = Answer::Refused(ErrorKind::FenceLost);
    good(vec![
        brief_claim(),
        unknown(500, claim(2, HOUR)),
        call(502, 503, complete(1, 1, 1, "late"), refused.clone()),
    ]);
    // The holder was refused, so the takeover had been applied, and the old fence is lost for good.
    let window = bad(vec![
        brief_claim(),
        unknown(500, claim(2, HOUR)),
        call(502, 503, complete(1, 1, 1, "late"), refused),
        call(504, 505, complete(1, 1, 1, "late"), Answer::Done),
    ]);
    assert_eq!(moments(&window), [504]);
}
