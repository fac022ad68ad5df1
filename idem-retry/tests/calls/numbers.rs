//! The published numeric cases of the AWS SDKs' standard mode (2.1), jitter pinned to its most,
//! where they are about what we do too: the backoff, the bucket, the order of the checks.
//!
//! One rule of theirs is not ours. They cap a server's hint at five seconds above their own delay,
//! and so come back earlier than told; we never do, and spread above the hint.

use std::time::Duration;

use idem_retry::budget::Deposits;
use idem_retry::{Budget, Load, Policy, PolicyBuilder, Why};

use crate::support::{Bench, FULL, NONE, answered, gave_up, ms, status, unknown, why, with};

const THROTTLED: u16 = 429;

fn bucket(capacity: u32) -> Budget {
    Budget::builder()
        .capacity(capacity)
        .initial(capacity)
        .floor(0, Duration::ZERO)
        .retry_cost(14)
        .throttled_cost(5)
        .deposits(Deposits::EachSuccess(1))
        .build()
        .unwrap()
}

fn bench(policy: PolicyBuilder, capacity: u32) -> Bench {
    let mut bench = Bench::new(policy.build().unwrap(), bucket(capacity), FULL);
    bench.rules = bench.rules.retry_500(true);
    bench
}

fn standard() -> PolicyBuilder {
    Policy::builder().base(ms(50)).throttled_base(ms(1_000)).cap(ms(20_000)).attempts(3)
}

#[test]
fn two_failures_then_success() {
    let mut bench = bench(standard(), 500);
    let outcome = bench.call(&[status(500), status(500), status(200)]);
    assert_eq!(answered(&outcome), (200, 3));
    assert_eq!(bench.clock.slept(), [ms(50), ms(100)]);
    // 486, 472, and the last retry's cost comes back.
    assert_eq!(bench.balance(), 486);
}

#[test]
fn three_failures_stop_at_the_attempts() {
    let mut bench = bench(standard(), 500);
    let outcome = unknown(bench.call(&[status(500), status(500), status(500)]));
    assert_eq!(why(&outcome), (Why::Attempts, 3));
    assert_eq!(bench.balance(), 472);
}

#[test]
fn a_bucket_for_one_retry_allows_one() {
    let mut bench = bench(standard().attempts(5), 14);
    let outcome = unknown(bench.call(&[status(500), status(502)]));
    assert_eq!(why(&outcome), (Why::Budget, 2));
    assert_eq!((bench.balance(), bench.clock.slept()), (0, vec![ms(50)]));
    assert_eq!(bench.destination.stats().refused_by_budget, 1);
}

#[test]
fn an_empty_bucket_allows_none() {
    let mut bench = bench(standard(), 0);
    let outcome = unknown(bench.call(&[status(500)]));
    assert_eq!(why(&outcome), (Why::Budget, 1));
    assert_eq!(bench.clock.slept(), []);
}

#[test]
fn what_is_left_of_a_token_is_not_enough() {
    let mut bench = bench(standard().attempts(5), 20);
    let outcome = unknown(bench.call(&[status(500), status(502)]));
    assert_eq!((why(&outcome), bench.balance()), ((Why::Budget, 2), 6));
}

#[test]
fn successes_give_back_what_their_last_retry_took() {
    let mut bench = bench(standard(), 30);
    let outcome = bench.call(&[status(500), status(502), status(200)]);
    assert_eq!((answered(&outcome), bench.balance()), ((200, 3), 16));
    let outcome = bench.call(&[status(500), status(200)]);
    assert_eq!((answered(&outcome), bench.balance()), ((200, 2), 16));
}

#[test]
fn the_balance_between_the_attempts() {
    let budget = bucket(30);
    let withdrawn = |load| {
        let withdrawn = budget.withdraw(load, Duration::ZERO);
        (withdrawn, budget.balance(Duration::ZERO))
    };
    assert_eq!(withdrawn(Load::Normal).1, 16);
    let (last, left) = withdrawn(Load::Normal);
    assert_eq!(left, 2);
    budget.succeed(last, Duration::ZERO);
    assert_eq!(withdrawn(Load::Normal).1, 2);
    assert_eq!(withdrawn(Load::Throttled), (None, 2));
}

#[test]
fn throttling_waits_longer_and_costs_less() {
    let mut bench = bench(standard(), 500);
    let outcome = bench.call(&[status(THROTTLED), status(200)]);
    assert_eq!((answered(&outcome), bench.balance()), ((200, 2), 500));
    assert_eq!(bench.clock.slept(), [ms(1_000)]);
    let outcome = gave_up(bench.call(&[status(THROTTLED), status(THROTTLED), status(THROTTLED)]));
    assert_eq!((why(&outcome), bench.balance()), ((Why::Attempts, 3), 490));
}

#[test]
fn the_cap_bounds_the_backoff() {
    let mut bench = bench(standard().cap(ms(200)).attempts(5), 500);
    let _ = bench.call(&[500, 500, 500, 500, 500].map(status));
    assert_eq!(bench.clock.slept(), [50, 100, 200, 200].map(ms));
}

#[test]
fn the_ceiling_doubles_up_to_the_cap() {
    let policy = standard().build().unwrap();
    let expected = [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 20_000, 20_000].map(ms);
    for (retry, expected) in expected.into_iter().enumerate() {
        let retry = u32::try_from(retry).unwrap();
        assert_eq!(policy.ceiling(retry, Load::Normal), expected);
        assert_eq!(policy.sleep(retry, Load::Normal, None, &FULL), expected);
        assert_eq!(policy.sleep(retry, Load::Normal, None, &NONE), Duration::ZERO);
    }
    assert_eq!(policy.ceiling(u32::MAX, Load::Normal), ms(20_000));
    // However late: a base of zero stays zero, and a nanosecond doubles as anything does.
    let never = standard().base(Duration::ZERO).build().unwrap();
    assert_eq!(never.ceiling(u32::MAX, Load::Normal), Duration::ZERO);
    let slow = standard().base(Duration::from_nanos(1)).cap(idem_retry::MAX_SPAN);
    let slow = slow.build().unwrap();
    assert_eq!(slow.ceiling(40, Load::Normal), Duration::from_nanos(1 << 40));
    assert_eq!(slow.ceiling(50, Load::Normal), idem_retry::MAX_SPAN);
}

#[test]
fn hints_are_lower_bounds() {
    let policy = standard().build().unwrap();
    // (hint, with no jitter, with the most jitter)
    let cases = [
        (Some(1_500), 1_500, 1_550),
        (Some(0), 0, 50),
        // Theirs would come after 5,050 ms; told 10,000, we come no earlier.
        (Some(10_000), 10_000, 10_050),
        // What makes no sense was read as no hint.
        (None, 0, 50),
    ];
    for (hint, least, most) in cases {
        let hint = hint.map(ms);
        assert_eq!(policy.sleep(0, Load::Normal, hint, &NONE), ms(least));
        assert_eq!(policy.sleep(0, Load::Normal, hint, &FULL), ms(most));
    }
}

#[test]
fn hints_that_make_no_sense_are_ignored() {
    for text in ["-100", "invalid", "1.5"] {
        let mut bench = bench(standard(), 500);
        let _ = bench.call(&[with(500, &[("retry-after", text)]), status(200)]);
        assert_eq!(bench.clock.slept(), [ms(50)], "{text}");
    }
}

#[test]
fn what_is_not_retried_moves_nothing() {
    let mut bench = bench(standard(), 500);
    let _ = bench.call(&[status(500), status(500), status(500)]);
    assert_eq!(answered(&bench.call(&[status(400)])), (400, 1));
    assert_eq!(bench.balance(), 472);
    // A success at once puts one in.
    assert_eq!(answered(&bench.call(&[status(200)])), (200, 1));
    assert_eq!(bench.balance(), 473);
}
