//! Histories in which every call was answered.

use std::time::Duration;

use idem_core::error::ErrorKind;
use idem_core::record::Retention;
use idem_core::store::{Lease, Renewed};
use idem_testkit::history::{Answer, Call, History, check};

use crate::words::*;

#[test]
fn a_life_in_order_is_explained() {
    good(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 3, claim(2, HOUR), in_progress()),
        call(4, 5, complete(1, 1, 1, "done"), Answer::Done),
        call(6, 7, complete(1, 1, 1, "done"), Answer::Done),
        call(8, 9, claim(3, HOUR), replay(1, 1, 1, "done")),
    ]);
}

#[test]
fn calls_that_overlap_may_take_effect_in_either_order() {
    // The loser was made first and answered last; the winner lies inside it.
    good(vec![
        call(0, 9, claim(1, HOUR), in_progress()),
        call(3, 5, claim(2, HOUR), acquired(1, 1, 2)),
    ]);
    // A replay may be told before the completion is acknowledged.
    good(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 9, complete(1, 1, 1, "done"), Answer::Done),
        call(3, 5, claim(2, HOUR), replay(1, 1, 1, "done")),
    ]);
}

#[test]
fn two_winners_are_not_explained_and_the_window_is_the_two_claims() {
    let window = bad(vec![
        call(0, 1, claim(9, HOUR), acquired(9, 1, 9)),
        call(2, 3, Call::Release { fence: fence(9, 1, 9) }, Answer::Done),
        call(4, 8, claim(1, HOUR), acquired(1, 1, 1)),
        call(5, 9, claim(2, HOUR), acquired(2, 1, 2)),
        call(5, 9, claim(3, HOUR), in_progress()),
        call(10, 11, claim(4, HOUR), in_progress()),
    ]);
    let owners: Vec<_> = window.iter().map(|operation| operation.invoked.as_millis()).collect();
    assert_eq!(owners, [4, 5], "only the two claims are needed");
}

#[test]
fn an_answer_from_the_past_is_not_explained() {
    // It was acknowledged before the reading was made.
    bad(vec![call(0, 1, claim(1, HOUR), acquired(1, 1, 1)), call(2, 3, get(), Answer::Seen(None))]);
    bad(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 3, complete(1, 1, 1, "done"), Answer::Done),
        call(4, 5, claim(2, HOUR), in_progress()),
    ]);
}

#[test]
fn another_reply_than_the_stored_one_is_not_explained() {
    bad(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 3, complete(1, 1, 1, "done"), Answer::Done),
        call(4, 5, claim(2, HOUR), replay(1, 1, 1, "other")),
    ]);
    bad(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 9, complete(1, 1, 1, "one"), Answer::Done),
        call(2, 9, complete(1, 1, 1, "two"), Answer::Done),
    ]);
}

#[test]
fn a_write_under_a_lost_fence_is_not_explained() {
    let lapsed = Duration::from_millis(10);
    let takeover = call(500, 501, claim(2, HOUR), acquired(1, 2, 2));
    let start = || call(0, 1, claim(1, lapsed), acquired(1, 1, 1));
    good(vec![
        start(),
        takeover.clone(),
        call(502, 503, complete(1, 1, 1, "late"), Answer::Refused(ErrorKind::FenceLost)),
    ]);
    bad(vec![start(), takeover, call(502, 503, complete(1, 1, 1, "late"), Answer::Done)]);
}

#[test]
fn a_lease_runs_for_as_long_as_it_was_set() {
    // Taken over after a second, although it was set for an hour.
    bad(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(1_000, 1_001, claim(2, HOUR), acquired(1, 2, 2)),
    ]);
    // Still in progress after a minute, although it was set for a second.
    bad(vec![
        call(0, 1, claim(1, Duration::from_secs(1)), acquired(1, 1, 1)),
        call(60_000, 60_001, claim(2, HOUR), in_progress()),
    ]);
    // Renewed meanwhile, it does run on.
    let held = Answer::Renewed(Renewed::Held(Lease { remaining: HOUR }));
    good(vec![
        call(0, 1, claim(1, Duration::from_secs(1)), acquired(1, 1, 1)),
        call(2, 3, Call::Renew { fence: fence(1, 1, 1), lease: HOUR }, held),
        call(60_000, 60_001, claim(2, HOUR), in_progress()),
    ]);
}

#[test]
fn a_reply_is_kept_for_as_long_as_was_asked() {
    let kept = |retention| {
        vec![
            call(0, 1, claim_kept(1, HOUR, retention), acquired(1, 1, 1)),
            call(2, 3, complete(1, 1, 1, "done"), Answer::Done),
            call(60_000, 60_001, claim(2, HOUR), acquired(2, 1, 2)),
        ]
    };
    bad(kept(Retention::Forever));
    bad(kept(Retention::of(HOUR)));
    good(kept(Retention::of(Duration::from_secs(1))));
    bad(kept(Retention::at_least(Duration::from_secs(1), HOUR)));
}

#[test]
fn a_call_that_was_known_not_to_be_applied_explains_itself() {
    let refused = call(2, 3, claim(2, HOUR), Answer::Refused(ErrorKind::NotApplied));
    let operations = vec![call(0, 1, claim(1, HOUR), acquired(1, 1, 1)), refused];
    assert_eq!(check(&History::new(operations)).unwrap().operations, 1);
}

#[test]
fn a_life_is_never_named_like_an_earlier_one_of_the_same_owner() {
    let again = |life| {
        vec![
            call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
            call(2, 3, Call::Release { fence: fence(1, 1, 1) }, Answer::Done),
            call(4, 5, claim(1, HOUR), acquired(life, 1, 1)),
        ]
    };
    good(again(2));
    // A write that was sent under the first life would reach the second one (R8).
    assert_eq!(moments(&bad(again(1))), [4]);
}
