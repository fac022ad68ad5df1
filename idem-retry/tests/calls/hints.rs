//! When the server says when to come back.

use idem_retry::{Budget, Policy, Why};

use crate::support::{
    Bench, FULL, NONE, Step, answered, gave_up, last_status, ms, status, why, with,
};

#[test]
fn never_earlier_than_told() {
    for jitter in [NONE, FULL] {
        let mut bench = Bench::new(Policy::default(), Budget::unlimited(), jitter);
        let outcome = bench.call(&[with(503, &[("retry-after", "7")]), status(200)]);
        assert_eq!(answered(&outcome), (200, 2));
        let most = if jitter.0 == 0 { ms(7_000) } else { ms(8_000) };
        assert_eq!(bench.clock.slept(), [most]);
    }
}

#[test]
fn a_date_counts_against_the_servers_own() {
    // The server's clock is an hour behind ours.
    let headers = [
        ("date", "Sun, 06 Nov 1994 07:49:37 GMT"),
        ("retry-after", "Sun, 06 Nov 1994 07:49:40 GMT"),
    ];
    let mut bench = Bench::keyed();
    let _ = bench.call(&[with(429, &headers), status(200)]);
    assert_eq!(bench.clock.slept(), [ms(3_000)]);
}

#[test]
fn a_hint_beyond_the_deadline_ends_it_at_once() {
    let budget = Budget::builder().initial(100).build().unwrap();
    let mut bench = Bench::new(Policy::default(), budget, NONE);
    let outcome = gave_up(bench.call(&[with(503, &[("retry-after", "30")])]));
    assert_eq!(why(&outcome), (Why::HintBeyondDeadline, 1));
    assert_eq!((outcome.hint, last_status(&outcome)), (Some(ms(30_000)), 503));
    assert_eq!(bench.clock.slept(), []);
    // The call's deposit, and no token taken.
    assert_eq!(bench.balance(), 101);
    // One second less fits.
    let mut bench = Bench::keyed();
    let outcome = bench.call(&[with(503, &[("retry-after", "29")]), status(200)]);
    assert_eq!(answered(&outcome), (200, 2));
}

#[test]
fn what_the_attempts_took_counts_against_a_hint() {
    let mut bench = Bench::keyed();
    let timeout = ms(10_000);
    let outcome = bench.call(&[Step::Hang, with(503, &[("retry-after", "20")])]);
    assert_eq!(bench.clock.slept(), [timeout, ms(0)]);
    assert!(outcome.is_unknown());
    assert_eq!(outcome.into_answer().unwrap_err().why, Why::HintBeyondDeadline);
}

#[test]
fn a_huge_hint_is_no_overflow() {
    let mut bench = Bench::keyed();
    let outcome = gave_up(bench.call(&[with(429, &[("retry-after", "99999999999999999999999")])]));
    assert_eq!(why(&outcome), (Why::HintBeyondDeadline, 1));
    assert_eq!(outcome.hint, Some(idem_retry::MAX_HINT));
}
