//! Timeouts of attempts, from what was measured.

use idem_retry::classify::Safety;
use idem_retry::latency::{Latency, Measured};
use idem_retry::{AttemptTimeout, Budget, CallOptions, Policy};

use crate::support::{Bench, NONE, Step, ms, status};

fn policy(measured: Measured) -> Policy {
    Policy::builder()
        .attempts(1)
        .deadline(ms(60_000))
        .attempt_timeout(AttemptTimeout::Measured(measured))
        .build()
        .unwrap()
}

#[test]
fn the_fallback_holds_until_there_are_enough_samples() {
    let (latency, measured) = (Latency::new(), Measured::default());
    for _ in 0..999 {
        latency.record(ms(100));
        assert_eq!(latency.timeout(&measured), ms(10_000));
    }
    latency.record(ms(100));
    // Twice the 99.9th percentile; a bucket is a sixteenth wide.
    let timeout = latency.timeout(&measured);
    assert!((ms(200)..=ms(213)).contains(&timeout), "{timeout:?}");
}

#[test]
fn the_slowest_of_a_thousand_does_not_count_and_the_second_does() {
    let latency = Latency::new();
    (0..999).for_each(|_| latency.record(ms(10)));
    latency.record(ms(5_000));
    assert!(latency.quantile(99_900).unwrap() < ms(11));
    latency.record(ms(5_000));
    assert!(latency.quantile(99_900).unwrap() > ms(5_000));
}

#[test]
fn it_stays_within_its_bounds() {
    let measured = Measured { enough_samples: 1, ..Measured::default() };
    let fast = Latency::new();
    fast.record(ms(0));
    assert_eq!(fast.timeout(&measured), ms(100));
    let slow = Latency::new();
    slow.record(ms(100_000_000_000));
    assert_eq!(slow.timeout(&measured), ms(30_000));
}

#[test]
fn what_is_long_past_is_forgotten() {
    let latency = Latency::new();
    (0..20_000).for_each(|_| latency.record(ms(1_000)));
    (0..20_001).for_each(|_| latency.record(ms(10)));
    assert!(latency.quantile(99_900).unwrap() < ms(11));
    assert!(latency.samples() <= 20_000);
}

#[test]
fn answers_and_timeouts_are_measured_and_quick_failures_are_not() {
    let measured = Measured { enough_samples: 1, ..Measured::default() };
    let mut bench = Bench::new(policy(measured), Budget::unlimited(), NONE);
    let samples = |bench: &Bench| bench.destination.latency().samples();
    let _ = bench.call(&[status(503)]);
    let _ = bench.call(&[status(404)]);
    let _ = bench.call(&[Step::Fault(idem_retry::classify::Fault::NotSent)]);
    let _ = bench.call(&[crate::support::with(201, &[("idempotent-replayed", "true")])]);
    assert_eq!(samples(&bench), 0);
    let _ = bench.call(&[status(200)]);
    assert_eq!(samples(&bench), 1);
    let _ = bench.call(&[Step::Hang]);
    assert_eq!(samples(&bench), 2);
}

#[test]
fn a_destination_that_became_slow_is_waited_for_longer_each_time() {
    let measured = Measured { enough_samples: 1, ..Measured::default() };
    let mut bench = Bench::new(policy(measured), Budget::unlimited(), NONE);
    let _ = bench.call(&[status(200)]);
    let mut timeouts = Vec::new();
    for _ in 0..12 {
        let _ = bench.call(&[Step::Hang]);
        timeouts.push(bench.sent[0].timeout());
    }
    assert_eq!(timeouts[0], ms(100));
    assert!(timeouts.windows(2).all(|pair| pair[0] < pair[1] || pair[0] == ms(30_000)));
    assert_eq!(timeouts[11], ms(30_000));
}

#[test]
fn a_timeout_that_the_deadline_cut_short_is_no_sample() {
    let policy = Policy::builder().attempts(1).deadline(ms(50)).build().unwrap();
    let mut bench = Bench::new(policy, Budget::unlimited(), NONE);
    let _ = bench.call(&[Step::Hang]);
    assert_eq!(bench.sent[0].timeout(), ms(50));
    assert_eq!(bench.destination.latency().samples(), 0);
}

#[test]
fn a_write_is_not_cut_off_by_what_reads_take() {
    let mut bench = Bench::new(policy(Measured::default()), Budget::unlimited(), NONE);
    let of = |safety| CallOptions::default().safety(safety);
    bench.options = of(Safety::Safe);
    for _ in 0..1_000 {
        let _ = bench.call(&[status(200)]);
    }
    let _ = bench.call(&[status(200)]);
    assert_eq!(bench.sent[0].timeout(), ms(100), "reads take no time at all here");
    for options in [of(Safety::Idempotent), of(Safety::Neither), CallOptions::default()] {
        bench.options = options;
        let _ = bench.call(&[status(200)]);
        assert_eq!(bench.sent[0].timeout(), ms(10_000), "{options:?}");
    }
    assert_eq!(bench.destination.latency_of(Safety::Safe).samples(), 1_001);
    assert_eq!(bench.destination.latency_of(Safety::Idempotent).samples(), 1);
    assert_eq!(bench.destination.latency_of(Safety::Neither).samples(), 1);
    assert_eq!(bench.destination.latency().samples(), 1);
}
