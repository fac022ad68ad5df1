//! A server that dies at work: what it is told until its lease is over.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use idem_retry::classify::{Answer, Fault, HttpRules, Traits};
use idem_retry::clock::Clock as _;
use idem_retry::random::SplitMix;
use idem_retry::{
    Attempted, Budget, Destination, MAX_SPAN, Outcome, Policy, PolicyError, Retry, Why,
};

use crate::support::StepClock;

const IN_USE: &str = "urn:idem:problem:key-in-use";

/// What it does until its lease is over.
#[derive(Clone, Copy)]
enum Until {
    /// Another instance answers 409, and to come back in a second.
    InUse,
    /// Nobody listens.
    Closed,
}

/// A call whose first attempt dies with its server. Its outcome, and how often it was sent.
async fn call(
    policy: Policy,
    lease: Duration,
    until: Until,
    seed: u64,
) -> (Outcome<u16, Fault>, u32) {
    let clock = StepClock::default();
    let retry = Retry::new(policy).clock(clock.clone()).random(SplitMix::from_seed(seed));
    let (rules, traits) = (HttpRules::new(), Traits::of(&Method::POST, true));
    let sent = AtomicU32::new(0);
    let classify = |attempted: Attempted<'_, u16, Fault>| match attempted {
        Attempted::Answer(status) => {
            let mut headers = HeaderMap::new();
            let is_in_use = *status == 409;
            if is_in_use {
                headers.insert("retry-after", HeaderValue::from_static("1"));
            }
            let status = StatusCode::from_u16(*status).unwrap();
            let answer = Answer::new(status, &headers, clock.time_of_day());
            rules.answer(traits, &answer.problem_type(is_in_use.then_some(IN_USE)))
        }
        Attempted::Error(fault) => rules.fault(traits, *fault),
        _ => rules.fault(traits, Fault::Lost),
    };
    let op = |_| {
        let is_first = sent.fetch_add(1, Ordering::Relaxed) == 0;
        std::future::ready(match until {
            _ if is_first => Err(Fault::Lost),
            _ if clock.now() >= lease => Ok(201),
            Until::InUse => Ok(409),
            Until::Closed => Err(Fault::NotSent),
        })
    };
    // The budget of a destination as it is unless configured.
    let destination = Destination::separate("outlasting", Budget::default());
    let outcome = retry.call(&destination, classify, op).await;
    let sent = sent.load(Ordering::Relaxed);
    (outcome, sent)
}

#[tokio::test]
async fn it_learns_the_outcome_of_a_server_that_died() {
    for lease in [5, 30, 120, 3_600].map(Duration::from_secs) {
        for until in [Until::InUse, Until::Closed] {
            for seed in 0..200 {
                let policy = Policy::outlasting(lease).unwrap();
                let deadline = policy.deadline();
                let (outcome, sent) = call(policy, lease, until, seed).await;
                let Outcome::Answered(answered) = outcome else {
                    panic!("lease {lease:?}, seed {seed}: {outcome:?}")
                };
                assert!(answered.elapsed >= lease && answered.elapsed < deadline, "seed {seed}");
                assert!(sent <= 40, "lease {lease:?}, seed {seed}: {sent} attempts");
            }
        }
    }
}

#[tokio::test]
async fn the_default_policy_does_not_and_says_so() {
    let lease = Duration::from_secs(30);
    for seed in 0..50 {
        let (outcome, sent) = call(Policy::default(), lease, Until::InUse, seed).await;
        let Outcome::Unknown(unfinished) = outcome else { panic!("seed {seed}: {outcome:?}") };
        assert_eq!((unfinished.why, sent), (Why::Attempts, 3), "seed {seed}");
    }
}

#[tokio::test]
async fn the_deadline_ends_it_and_not_the_attempts() {
    for lease in [0, 5, 30, 120, 3_600].map(Duration::from_secs) {
        for until in [Until::InUse, Until::Closed] {
            for seed in 0..50 {
                let policy = Policy::outlasting(lease).unwrap();
                let (outcome, _) = call(policy, MAX_SPAN, until, seed).await;
                let Outcome::Unknown(unfinished) = outcome else { panic!("{outcome:?}") };
                let is_over = matches!(unfinished.why, Why::Deadline | Why::HintBeyondDeadline);
                assert!(is_over, "lease {lease:?}, seed {seed}: {unfinished}");
            }
        }
    }
}

#[test]
fn a_lease_that_no_deadline_outlasts_is_refused() {
    for lease in [MAX_SPAN / 2, Duration::MAX] {
        assert_eq!(Policy::outlasting(lease), Err(PolicyError::Deadline));
    }
    assert!(Policy::outlasting(MAX_SPAN / 3).is_ok());
}
