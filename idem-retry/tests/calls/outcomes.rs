//! What a call is told, and what it is never told.

use idem_retry::classify::Fault;
use idem_retry::{Applied, CallOptions, Last, Outcome, Reason, Why};

use crate::support::{
    Bench, Step, answered, gave_up, last_status, ms, replayed, status, unknown, why, with,
};

const REPLAYED: (&str, &str) = ("idempotent-replayed", "true");
const IN_USE: &str = "urn:idem:problem:key-in-use";

#[test]
fn a_lost_answer_is_followed_by_in_flight_and_then_by_the_replay() {
    let mut bench = Bench::keyed();
    let running = Step::Conflict(IN_USE, vec![("retry-after", "1")]);
    let steps = [Step::Fault(Fault::Lost), running, with(201, &[REPLAYED])];
    assert_eq!(replayed(&bench.call(&steps)), (201, 3));
    assert_eq!(bench.clock.slept(), [ms(0), ms(1_000)]);
}

#[test]
fn a_replay_is_final_whatever_its_status() {
    for code in [200, 302, 400, 402, 409, 429, 500, 503] {
        let mut bench = Bench::keyed();
        bench.rules = bench.rules.retry_500(true);
        let steps = [with(code, &[REPLAYED, ("x-should-retry", "true"), ("retry-after", "1")])];
        assert_eq!(replayed(&bench.call(&steps)), (code, 1));
    }
}

#[test]
fn a_post_without_a_key_is_not_repeated_once_it_may_have_left() {
    for step in [
        Step::Fault(Fault::Lost),
        Step::Fault(Fault::AnswerCut),
        Step::Hang,
        status(502),
        status(504),
        status(503),
    ] {
        let mut bench = Bench::unkeyed();
        let outcome = unknown(bench.call(&[step]));
        assert_eq!(why(&outcome), (Why::Final(Reason::Unprotected), 1));
    }
    // Told when to come back, it was normally not carried out; nobody guarantees it.
    let mut bench = Bench::unkeyed();
    let outcome = gave_up(bench.call(&[with(503, &[("retry-after", "1")])]));
    assert_eq!(why(&outcome), (Why::Final(Reason::Unprotected), 1));
    assert_eq!((outcome.applied, outcome.hint), (Applied::Unlikely, None));
}

#[test]
fn a_post_without_a_key_is_repeated_when_it_never_left() {
    for step in [Step::Fault(Fault::NotSent), Step::Fault(Fault::NotProcessed), status(425)] {
        let mut bench = Bench::unkeyed();
        assert_eq!(answered(&bench.call(&[step.clone(), step, status(201)])), (201, 3));
    }
}

#[test]
fn once_unknown_a_call_stays_so() {
    let mut bench = Bench::keyed();
    let not_sent = Step::Fault(Fault::NotSent);
    let outcome = unknown(bench.call(&[Step::Fault(Fault::Lost), not_sent.clone(), not_sent]));
    assert_eq!(why(&outcome), (Why::Attempts, 3));
    assert_eq!((outcome.applied, &outcome.last), (Applied::Maybe, &Last::Error(Fault::NotSent)));
    assert_eq!(bench.destination.stats().unknown, 1);
    assert!(outcome.to_string().ends_with("it may have been applied"), "{outcome}");
}

#[test]
fn what_never_left_is_given_up_and_not_unknown() {
    let mut bench = Bench::keyed();
    let outcome = gave_up(bench.call(&[0; 3].map(|_| Step::Fault(Fault::NotSent))));
    assert_eq!((why(&outcome), outcome.applied), ((Why::Attempts, 3), Applied::No));
    let stats = bench.destination.stats();
    assert_eq!((stats.gave_up, stats.unknown), (1, 0));
}

#[test]
fn a_refusal_at_the_door_does_not_settle_an_earlier_attempt() {
    let mut bench = Bench::keyed();
    let outcome = unknown(bench.call(&[Step::Fault(Fault::Lost), status(401)]));
    assert_eq!((why(&outcome), last_status(&outcome)), ((Why::NotSettled, 2), 401));
    // Without an earlier attempt it is simply the answer.
    assert_eq!(answered(&bench.call(&[status(401)])), (401, 1));
    // After one that never left, too.
    let steps = [Step::Fault(Fault::NotSent), status(401)];
    assert_eq!(answered(&bench.call(&steps)), (401, 2));
}

#[test]
fn an_answer_under_the_key_settles_an_earlier_attempt() {
    let mut bench = Bench::keyed();
    let lost = Step::Fault(Fault::Lost);
    let stored = with(402, &[("idempotency-key-lifetime", "86400")]);
    assert_eq!(answered(&bench.call(&[lost.clone(), stored])), (402, 2));
    let headers = [("idempotency-key-lifetime", "86400"), ("idempotency-stored", "false")];
    let outcome = unknown(bench.call(&[lost.clone(), with(402, &headers)]));
    assert_eq!(why(&outcome), (Why::NotSettled, 2));
    // Success settles it in any case.
    assert_eq!(answered(&bench.call(&[lost, status(200)])), (200, 2));
}

#[test]
fn a_stored_500_is_not_retried_since_a_retry_would_get_it_again() {
    let mut bench = Bench::keyed();
    bench.rules = bench.rules.retry_500(true);
    let stored = with(500, &[("idempotency-key-lifetime", "86400")]);
    assert_eq!(answered(&bench.call(&[stored])), (500, 1));
}

#[test]
fn the_server_is_obeyed() {
    let mut bench = Bench::keyed();
    for name in ["x-should-retry", "stripe-should-retry"] {
        let outcome = unknown(bench.call(&[with(502, &[(name, "false")])]));
        assert_eq!(why(&outcome), (Why::Final(Reason::ToldNotTo), 1));
        let outcome = bench.call(&[with(418, &[(name, "true")]), status(200)]);
        assert_eq!(answered(&outcome), (200, 2));
        // Whatever that server means by it, the first request may be under way.
        let busy = || with(409, &[(name, "true")]);
        let outcome = unknown(bench.call(&[busy(), busy(), busy()]));
        assert_eq!(why(&outcome), (Why::Attempts, 3));
    }
    // A key that is forgotten protects nothing.
    let outcome = unknown(bench.call(&[with(502, &[("idempotency-key-lifetime", "0")])]));
    assert_eq!(why(&outcome), (Why::Final(Reason::ToldNotTo), 1));
    // "Retry" does not make an unprotected call a safe one.
    let mut bench = Bench::unkeyed();
    let outcome = unknown(bench.call(&[with(500, &[("x-should-retry", "true")])]));
    assert_eq!(why(&outcome), (Why::Final(Reason::Unprotected), 1));
}

#[test]
fn only_our_own_409_is_retried() {
    let mut bench = Bench::keyed();
    assert_eq!(answered(&bench.call(&[status(409)])), (409, 1));
    let other = Step::Conflict("urn:idem:problem:other", vec![("retry-after", "1")]);
    assert_eq!(answered(&bench.call(&[other])), (409, 1));
    for held in ["urn:idem:problem:outcome-held", "urn:idem:problem:outcome-unknown"] {
        let outcome = unknown(bench.call(&[Step::Conflict(held, vec![])]));
        assert_eq!(
            (why(&outcome), last_status(&outcome)),
            ((Why::Final(Reason::WouldFailAgain), 1), 409)
        );
    }
    bench.rules = bench.rules.in_flight_type("https://bank.example/in-use");
    let theirs = Step::Conflict("https://bank.example/in-use", vec![]);
    assert_eq!(answered(&bench.call(&[theirs, status(201)])), (201, 2));
    bench.rules = idem_retry::classify::HttpRules::new().problem_base("https://shop.example/");
    let ours = Step::Conflict("https://shop.example/lease-lost", vec![]);
    assert_eq!(answered(&bench.call(&[ours, status(201)])), (201, 2));
    let held = Step::Conflict("https://shop.example/outcome-held", vec![]);
    assert_eq!(unknown(bench.call(&[held])).attempts, 1);
    assert_eq!(answered(&bench.call(&[Step::Conflict(IN_USE, vec![])])), (409, 1));
    // The first one runs: without a key it was not ours.
    let mut bench = Bench::unkeyed();
    assert_eq!(answered(&bench.call(&[Step::Conflict(IN_USE, vec![])])), (409, 1));
}

#[test]
fn a_body_that_can_be_sent_once_is_sent_once() {
    let mut bench = Bench::keyed();
    bench.options = CallOptions::default().one_shot(true);
    let outcome = gave_up(bench.call(&[with(503, &[("retry-after", "1")])]));
    assert_eq!((why(&outcome), last_status(&outcome)), ((Why::OneShot, 1), 503));
    let outcome = unknown(bench.call(&[Step::Fault(Fault::Lost)]));
    assert_eq!(why(&outcome), (Why::OneShot, 1));
    assert_eq!(answered(&bench.call(&[status(201)])), (201, 1));
    assert_eq!(bench.sent[0].announced().max, 1);
}

#[test]
fn attempts_are_numbered_and_announced() {
    let mut bench = Bench::keyed();
    let _ = bench.call(&[status(502), status(502), status(200)]);
    let numbers: Vec<_> = bench.sent.iter().map(|attempt| attempt.number()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    for (index, attempt) in bench.sent.iter().enumerate() {
        let mut headers = http::HeaderMap::new();
        attempt.announce(&mut headers);
        assert_eq!(headers[idem_retry::ATTEMPT_HEADER], format!("{};max=3", index + 1));
        assert_eq!(attempt.is_retry(), index > 0);
    }
}

#[test]
fn an_unusable_request_is_not_retried_and_not_unknown() {
    let mut bench = Bench::keyed();
    let outcome = gave_up(bench.call(&[Step::Fault(Fault::Unusable)]));
    assert_eq!(why(&outcome), (Why::Final(Reason::WouldFailAgain), 1));
}

#[test]
fn nothing_of_a_get_was_applied() {
    use idem_retry::classify::Traits;
    let mut bench = Bench::keyed();
    bench.traits = Traits::of(&http::Method::GET, false);
    let outcome = bench.call(&[Step::Hang, Step::Fault(Fault::AnswerCut), status(504)]);
    assert!(matches!(&outcome, Outcome::GaveUp(_)), "{outcome:?}");
    assert_eq!(gave_up(outcome).applied, Applied::No);
}
