//! One deadline over everything, and the lifetime of the key.

use idem_retry::{AttemptTimeout, Budget, CallOptions, Policy, Why};

use crate::support::{Bench, FULL, NONE, Step, answered, ms, status, unknown, why, with};

fn policy(deadline: u64, attempts: u32) -> Policy {
    Policy::builder()
        .base(ms(1_000))
        .deadline(ms(deadline))
        .attempts(attempts)
        .attempt_timeout(AttemptTimeout::Fixed(ms(400)))
        .build()
        .unwrap()
}

#[test]
fn sleeps_count() {
    let mut bench = Bench::new(policy(3_500, 10), Budget::unlimited(), FULL);
    // 1 s and 2 s of sleep; the third would be 4 s.
    let outcome = unknown(bench.call(&[status(502), status(502), status(502)]));
    assert_eq!(why(&outcome), (Why::Deadline, 3));
    assert_eq!(outcome.elapsed, ms(3_000));
}

#[test]
fn attempts_count_and_the_last_one_gets_what_is_left() {
    let mut bench = Bench::new(policy(1_000, 10), Budget::unlimited(), NONE);
    let outcome = unknown(bench.call(&[Step::Hang, Step::Hang, Step::Hang]));
    assert_eq!(why(&outcome), (Why::Deadline, 3));
    assert_eq!(outcome.elapsed, ms(1_000));
    let timeouts: Vec<_> = bench.sent.iter().map(|attempt| attempt.timeout()).collect();
    assert_eq!(timeouts, [400, 400, 200].map(ms));
}

#[test]
fn a_sleep_that_took_too_long_is_followed_by_nothing() {
    let mut bench = Bench::new(policy(3_000, 10), Budget::unlimited(), FULL);
    bench.clock.oversleep(ms(2_000));
    let outcome = unknown(bench.call(&[status(502)]));
    assert_eq!(why(&outcome), (Why::Deadline, 1));
}

#[test]
fn no_retry_after_the_contracts_key_lifetime() {
    let mut bench = Bench::new(policy(60_000, 10), Budget::unlimited(), FULL);
    bench.options = CallOptions::default().key_lifetime(ms(2_000));
    let outcome = unknown(bench.call(&[status(502), status(502)]));
    assert_eq!(why(&outcome), (Why::KeyLifetime, 2));
}

#[test]
fn an_attempt_ends_with_the_key() {
    let mut bench = Bench::new(policy(60_000, 3), Budget::unlimited(), FULL);
    bench.options = CallOptions::default().key_lifetime(ms(1_100));
    let _ = bench.call(&[status(502), Step::Hang]);
    assert_eq!(bench.sent[1].timeout(), ms(100));
}

#[test]
fn no_retry_after_the_lifetime_that_the_server_published() {
    let published = [("idempotency-key-lifetime", "2"), ("idempotency-stored", "false")];
    let mut bench = Bench::new(policy(60_000, 10), Budget::unlimited(), FULL);
    let outcome = unknown(bench.call(&[with(502, &published), status(502)]));
    assert_eq!(why(&outcome), (Why::KeyLifetime, 2));
    // The shorter one of both counts.
    bench.options = CallOptions::default().key_lifetime(ms(86_400_000));
    let outcome = unknown(bench.call(&[with(502, &published), status(502)]));
    assert_eq!(why(&outcome), (Why::KeyLifetime, 2));
}

#[test]
fn settings_out_of_range_are_refused() {
    use idem_retry::PolicyError;
    use idem_retry::latency::Measured;
    let refused = |builder: idem_retry::PolicyBuilder| builder.build().unwrap_err();
    assert_eq!(refused(Policy::builder().attempts(0)), PolicyError::Attempts);
    assert_eq!(refused(Policy::builder().attempts(101)), PolicyError::Attempts);
    assert_eq!(refused(Policy::builder().deadline(ms(0))), PolicyError::Deadline);
    let too_long = idem_retry::MAX_SPAN + ms(1);
    assert_eq!(refused(Policy::builder().deadline(too_long)), PolicyError::Deadline);
    assert_eq!(refused(Policy::builder().cap(too_long)), PolicyError::Backoff);
    let timeout = |timeout| Policy::builder().attempt_timeout(timeout);
    let infinite = AttemptTimeout::Fixed(std::time::Duration::MAX);
    assert_eq!(refused(timeout(infinite)), PolicyError::AttemptTimeout);
    let none = AttemptTimeout::Fixed(ms(0));
    assert_eq!(refused(timeout(none)), PolicyError::AttemptTimeout);
    let measured = Measured { shortest: ms(2), longest: ms(1), ..Measured::default() };
    let swapped = AttemptTimeout::Measured(measured);
    assert_eq!(refused(timeout(swapped)), PolicyError::AttemptTimeout);
    let measured = Measured { per_100_000: 0, ..Measured::default() };
    assert_eq!(refused(timeout(AttemptTimeout::Measured(measured))), PolicyError::Quantile);
}

#[test]
fn time_to_spare_is_no_reason_to_stop() {
    let mut bench = Bench::new(policy(60_000, 3), Budget::unlimited(), FULL);
    bench.options = CallOptions::default().key_lifetime(ms(60_000));
    assert_eq!(answered(&bench.call(&[status(502), status(502), status(201)])), (201, 3));
}
