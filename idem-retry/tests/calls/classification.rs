//! The table, every status of it, against a second reading of the same table.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use idem_retry::classify::{Answer, Fault, HttpRules, Safety, Traits};
use idem_retry::{Applied, Class, Reason};

const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::TRACE,
    Method::PUT,
    Method::DELETE,
    Method::POST,
    Method::PATCH,
    Method::CONNECT,
];

fn every_request() -> impl Iterator<Item = Traits> {
    METHODS.into_iter().flat_map(|method| [false, true].map(|keyed| Traits::of(&method, keyed)))
}

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
        .collect()
}

/// What the table says of a status by itself; `None` where it is the answer.
fn in_the_table(status: u16, has_hint: bool, retries_500: bool) -> Option<Applied> {
    match (status, has_hint) {
        (425, _) => Some(Applied::No),
        (408 | 429, _) | (503, true) => Some(Applied::Unlikely),
        (502 | 504, _) | (503, false) => Some(Applied::Maybe),
        (500, _) if retries_500 => Some(Applied::Maybe),
        _ => None,
    }
}

#[test]
fn every_status_for_every_request() {
    let now = UNIX_EPOCH + Duration::from_secs(1);
    for retries_500 in [false, true] {
        let rules = HttpRules::new().retry_500(retries_500);
        for (status, request) in (100..=599).flat_map(|s| every_request().map(move |r| (s, r))) {
            for has_hint in [false, true] {
                let lines: &[_] = if has_hint { &[("retry-after", "1")] } else { &[] };
                let (code, headers) = (StatusCode::from_u16(status).unwrap(), headers(lines));
                let class = rules.answer(request, &Answer::new(code, &headers, now));
                let entry = in_the_table(status, has_hint, retries_500);
                check(status, request, class, entry);
            }
        }
    }
}

fn check(status: u16, request: Traits, class: Class, entry: Option<Applied>) {
    let about = format!("{status} {request:?}: {class:?}");
    let is_safe = request.safety() == Safety::Safe;
    match (class, entry) {
        (Class::Transient(transient), Some(applied)) => {
            assert!(request.is_protected() || applied == Applied::No, "{about}");
            assert_eq!(transient.applied(), if is_safe { Applied::No } else { applied }, "{about}");
        }
        (Class::Permanent { applied, reason: Reason::Unprotected }, Some(expected)) => {
            assert!(!request.is_protected() && applied != Applied::No, "{about}");
            assert_eq!(applied, expected, "{about}");
        }
        (Class::Permanent { applied: Applied::Maybe, reason: Reason::WouldFailAgain }, None) => {
            assert!(status >= 500 && !is_safe && ![501, 505].contains(&status), "{about}");
        }
        (Class::Answered { settles }, None) => {
            assert_eq!(settles, status < 300 || status == 303, "{about}");
            assert!(status < 500 || is_safe || [501, 505].contains(&status), "{about}");
        }
        _ => panic!("{about}"),
    }
}

#[test]
fn every_failure_for_every_request() {
    let rules = HttpRules::new();
    for request in every_request() {
        for (fault, applied) in [
            (Fault::NotSent, Applied::No),
            (Fault::NotProcessed, Applied::No),
            (Fault::Lost, Applied::Maybe),
            (Fault::AnswerCut, Applied::Likely),
        ] {
            match rules.fault(request, fault) {
                Class::Transient(_) => {
                    assert!(request.is_protected() || applied == Applied::No, "{request:?}");
                }
                Class::Permanent { applied: found, reason: Reason::Unprotected } => {
                    assert!(!request.is_protected(), "{request:?}");
                    assert_eq!(found, applied);
                }
                other => panic!("{request:?} {fault:?}: {other:?}"),
            }
        }
        let unusable = rules.fault(request, Fault::Unusable);
        assert_eq!(unusable, Class::permanent(Applied::No));
    }
}

#[test]
fn methods_promise_what_the_rfc_says() {
    let promise = |method: Method| Traits::of(&method, false).safety();
    for method in METHODS {
        let expected = match method.as_str() {
            "GET" | "HEAD" | "OPTIONS" | "TRACE" => Safety::Safe,
            "PUT" | "DELETE" => Safety::Idempotent,
            _ => Safety::Neither,
        };
        assert_eq!(promise(method.clone()), expected, "{method}");
    }
    assert_eq!(promise(Method::from_bytes(b"QUERY-ISH").unwrap()), Safety::Neither);
    assert!(Traits::new(Safety::Safe, false).is_protected());
}

#[test]
fn a_408_on_a_fresh_connection_did_not_arrive() {
    let (rules, headers) = (HttpRules::new(), HeaderMap::new());
    let request = Traits::of(&Method::POST, false);
    let answer = Answer::new(StatusCode::REQUEST_TIMEOUT, &headers, UNIX_EPOCH);
    assert!(matches!(rules.answer(request, &answer.fresh_connection(true)), Class::Transient(_)));
    assert!(matches!(
        rules.answer(request, &answer),
        Class::Permanent { reason: Reason::Unprotected, .. }
    ));
}

#[test]
fn the_marks_are_read_with_care() {
    let request = Traits::of(&Method::POST, true);
    let class = |lines: &[_], rules: HttpRules| {
        let headers = headers(lines);
        rules.answer(request, &Answer::new(StatusCode::BAD_GATEWAY, &headers, UNIX_EPOCH))
    };
    let replayed = |lines: &[_]| class(lines, HttpRules::new()) == Class::Replayed;
    assert!(replayed(&[("idempotent-replayed", "true")]));
    assert!(replayed(&[("idempotent-replayed", " TRUE")]));
    assert!(!replayed(&[("idempotent-replayed", "false")]));
    assert!(!replayed(&[("idempotency-replayed", "true")]));
    let rules = HttpRules::new().replayed_header("idempotency-replayed".parse().unwrap());
    assert_eq!(class(&[("idempotency-replayed", "true")], rules), Class::Replayed);
    // A word that means nothing is not obeyed.
    let class = class(&[("x-should-retry", "perhaps")], HttpRules::new());
    assert!(matches!(class, Class::Transient(_)), "{class:?}");
}

#[test]
fn the_body_is_asked_for_only_where_it_matters() {
    let rules = HttpRules::new();
    let problem = headers(&[("content-type", "application/problem+json")]);
    assert!(rules.needs_problem(StatusCode::CONFLICT, &problem));
    assert!(!rules.needs_problem(StatusCode::CONFLICT, &HeaderMap::new()));
    assert!(!rules.needs_problem(StatusCode::UNPROCESSABLE_ENTITY, &problem));
}

#[test]
fn the_servers_names_for_what_is_stored_can_be_set() {
    let request = Traits::of(&Method::POST, true);
    let class = |rules: &HttpRules, lines: &[_]| {
        let headers = headers(lines);
        rules.answer(request, &Answer::new(StatusCode::BAD_GATEWAY, &headers, UNIX_EPOCH))
    };
    let stored = Class::Answered { settles: true };
    let (ours, own) = (HttpRules::new(), HttpRules::new().lifetime_header(name("x-kept")));
    let own = own.stored_header(name("x-stored"));
    assert_eq!(class(&ours, &[("idempotency-key-lifetime", "60")]), stored);
    assert_eq!(class(&own, &[("x-kept", "60")]), stored);
    for (rules, lines) in [
        (&ours, [("idempotency-key-lifetime", "60"), ("idempotency-stored", "false")]),
        (&ours, [("x-kept", "60"), ("x-stored", "true")]),
        (&own, [("x-kept", "60"), ("x-stored", "false")]),
        (&own, [("idempotency-key-lifetime", "60"), ("idempotency-stored", "true")]),
    ] {
        assert!(matches!(class(rules, &lines), Class::Transient(_)), "{lines:?}");
    }
}

fn name(name: &str) -> http::HeaderName {
    name.parse().unwrap()
}
