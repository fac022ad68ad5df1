//! The HTTP table of the design, each row by its name.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Request};
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::OnUnknown;
use idem_http::Disposition;

use crate::support::app::{answering, charges, gated};
use crate::support::{Gate, LEASE, World, post, send};

#[tokio::test]
async fn key_missing_where_required_is_400() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let request = Request::post("/charges").header("authorization", "Bearer alice");
    let answer = send(&app, request.body(Body::from("100")).unwrap()).await;
    assert_eq!(answer.problem(), (400, "key-missing".into()));
    assert!(answer.json()["detail"].as_str().unwrap().contains("idempotency-key"));
    assert_eq!((world.effects.count(), world.records().await), (0, 0));
}

#[tokio::test]
async fn key_malformed_empty_too_long_or_sent_twice_is_400() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    for (key, code) in [
        (&b""[..], "key-invalid"),
        (b"\"\"", "key-invalid"),
        (b"a b", "key-invalid"),
        (b"\"a", "key-invalid"),
        (b"a;b", "key-invalid"),
        (b"caf\xe9", "key-invalid"),
        (b"a\tb", "key-invalid"),
        ("k".repeat(256).as_bytes(), "key-invalid"),
        (b"a, b", "key-repeated"),
    ] {
        let key = HeaderValue::from_bytes(key).unwrap();
        let request = Request::post("/charges").header("authorization", "Bearer alice");
        let request = request.header("idempotency-key", &key).body(Body::from("100")).unwrap();
        let answer = send(&app, request).await;
        assert_eq!(answer.problem(), (400, code.into()), "{key:?}");
    }
    let twice = post("/charges", "a").header("idempotency-key", "a");
    let answer = send(&app, twice.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.problem(), (400, "key-repeated".into()));
    assert_eq!((world.effects.count(), world.records().await), (0, 0));
}

#[tokio::test]
async fn same_key_other_fingerprint_is_422_in_flight_and_finished() {
    let (world, gate) = (World::new(), Gate::new());
    let app = gated(world.layer(), &world.effects, &gate);
    let first = tokio::spawn({
        let app = app.clone();
        async move { send(&app, post("/charges", "k").body(Body::from("100")).unwrap()).await }
    });
    gate.arrival().await;
    let other = || post("/charges", "k").body(Body::from("101")).unwrap();
    assert_eq!(send(&app, other()).await.problem(), (422, "key-reused".into()));

    gate.let_one_pass();
    assert_eq!(first.await.unwrap().status, 201);
    assert_eq!(send(&app, other()).await.problem(), (422, "key-reused".into()));
    // It did not poison the key.
    let again = send(&app, post("/charges", "k").body(Body::from("100")).unwrap()).await;
    assert!(again.is_replay());
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn first_one_still_running_is_409_with_retry_after() {
    let (world, gate) = (World::new(), Gate::new());
    let layer = world.layer().retry_hint(Duration::from_secs(3_600));
    let app = gated(layer, &world.effects, &gate);
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    let first = tokio::spawn({
        let app = app.clone();
        async move { send(&app, request()).await }
    });
    gate.arrival().await;
    for (passed, expected) in [(0, 20), (4_500, 16), (15_499, 1)] {
        world.clock.advance(Duration::from_millis(passed));
        let answer = send(&app, request()).await;
        assert_eq!(answer.problem(), (409, "key-in-use".into()));
        assert_eq!(answer.retry_after(), Some(expected), "whole seconds, from 1 to the lease");
    }
    gate.let_one_pass();
    let first = first.await.unwrap();
    let again = send(&app, request()).await;
    assert!(again.is_replay());
    assert_eq!(again.without_marks(), first.without_marks());
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn held_is_409_without_retry_after() {
    let world = World::new();
    let layer = world.layer_with(|operation| operation.on_unknown(OnUnknown::Hold));
    let app = answering(layer, &world.effects, |_, _| (Disposition::Unknown, "who knows"));
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    let first = send(&app, request()).await;
    assert_eq!(first.problem(), (409, "outcome-unknown".into()));
    assert_eq!(first.retry_after(), None);
    for _ in 0..3 {
        world.clock.advance(LEASE);
        let answer = send(&app, request()).await;
        assert_eq!(answer.problem(), (409, "outcome-held".into()));
        assert_eq!(answer.retry_after(), None);
    }
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn unknown_outcome_is_409_without_retry_after_and_goes_on_after_the_lease() {
    let world = World::new();
    let app = answering(world.layer(), &world.effects, |number, _| match number {
        1 => (Disposition::Unknown, "who knows"),
        _ => (Disposition::Store, "charged"),
    });
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    let first = send(&app, request()).await;
    assert_eq!(first.problem(), (409, "outcome-unknown".into()));
    assert_eq!(first.retry_after(), None);
    assert_eq!(send(&app, request()).await.problem(), (409, "key-in-use".into()));
    world.clock.advance(LEASE);
    assert_eq!(send(&app, request()).await.body, "charged");
    assert_eq!(world.effects.count(), 2);
}

#[tokio::test]
async fn scope_missing_is_401_and_nothing_runs() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let request = Request::post("/charges").header("idempotency-key", "k");
    let answer = send(&app, request.body(Body::from("100")).unwrap()).await;
    assert_eq!(answer.problem(), (401, "scope-missing".into()));
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    assert_eq!((world.effects.count(), world.records().await), (0, 0));
}

#[tokio::test]
async fn store_full_is_503_of_its_own_type_and_nothing_runs() {
    let world = World::with_capacity(1);
    let layer = world.layer_with(|operation| operation.claim_limit(Duration::from_millis(50)));
    let app = charges(layer, &world.effects);
    let request = |key| post("/charges", key).body(Body::from("100")).unwrap();
    assert_eq!(send(&app, request("a")).await.status, 201);
    let answer = send(&app, request("b")).await;
    assert_eq!(answer.problem(), (503, "store-full".into()));
    assert!(send(&app, request("a")).await.is_replay(), "what is stored still stands");
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn record_corrupt_is_503_of_its_own_type_and_nothing_runs() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    world.faults.fail(Verb::Claim, ErrorKind::CorruptRecord);
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    assert_eq!(send(&app, request()).await.problem(), (503, "record-corrupt".into()));
    assert_eq!(world.effects.count(), 0);
    world.faults.heal();
    world.faults.fail(Verb::Claim, ErrorKind::WrongSchema);
    assert_eq!(send(&app, request()).await.problem(), (503, "store-unusable".into()));
    assert_eq!(world.effects.count(), 0);
}

#[tokio::test]
async fn completed_is_replayed_byte_for_byte_and_marked() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    let first = send(&app, request()).await;
    assert_eq!((first.status.as_u16(), &first.body[..]), (201, &b"1 100"[..]));
    assert!(!first.is_replay() && first.header("idempotency-stored").is_none());
    world.clock.advance(Duration::from_secs(3_600));
    let again = send(&app, request()).await;
    assert!(again.is_replay());
    assert_eq!(again.without_marks(), first.without_marks());
    // 24 h less the longest run of 15 min, and an hour has passed.
    let seconds = |answer: &crate::support::Answer| -> u64 {
        answer.header("idempotency-key-lifetime").unwrap().parse().unwrap()
    };
    assert!((85_490..=85_500).contains(&seconds(&first)), "{}", seconds(&first));
    assert_eq!(seconds(&again), 85_500 - 3_600);
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn reply_over_the_limit_is_delivered_once_and_never_run_again() {
    let world = World::new();
    let layer = world.layer_with(|operation| operation.max_reply_bytes(10));
    let app = answering(layer, &world.effects, |number, _| format!("{number}{}", "x".repeat(10)));
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    let first = send(&app, request()).await;
    assert_eq!((first.status.as_u16(), &first.body[..]), (200, &b"1xxxxxxxxxx"[..]));
    for _ in 0..2 {
        let again = send(&app, request()).await;
        assert_eq!(again.problem(), (410, "reply-not-kept".into()));
        assert_eq!(again.json()["original_status"], 200);
        assert_eq!(again.retry_after(), None);
    }
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn body_over_the_limit_is_413_and_nothing_is_claimed() {
    let world = World::new();
    let app = charges(world.layer().max_body_bytes(3), &world.effects);
    let request = |body: &'static str| post("/charges", "k").body(Body::from(body)).unwrap();
    assert_eq!(send(&app, request("1000")).await.problem(), (413, "body-too-large".into()));
    assert_eq!((world.effects.count(), world.records().await), (0, 0));
    assert_eq!(send(&app, request("100")).await.status, 201);
}

#[tokio::test]
async fn store_unavailable_is_503_with_retry_after_and_nothing_runs() {
    for kind in [ErrorKind::NotApplied, ErrorKind::OutcomeUnknown] {
        let world = World::new();
        let layer = world.layer_with(|operation| operation.claim_limit(Duration::from_millis(50)));
        let app = charges(layer, &world.effects);
        world.faults.fail(Verb::Claim, kind);
        let request = || post("/charges", "k").body(Body::from("100")).unwrap();
        let answer = send(&app, request()).await;
        assert_eq!(answer.problem(), (503, "store-unavailable".into()));
        assert_eq!(answer.retry_after(), Some(1));
        assert_eq!(world.effects.count(), 0);
        world.faults.heal();
        assert_eq!(send(&app, request()).await.status, 201);
    }
}

#[tokio::test]
async fn key_on_a_method_that_needs_none_passes_untouched() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    for method in ["GET", "PUT", "DELETE"] {
        for _ in 0..2 {
            let mut request = post("/charges", "k").body(Body::empty()).unwrap();
            *request.method_mut() = method.parse().unwrap();
            let answer = send(&app, request).await;
            assert_eq!(answer.status, 201);
            assert_eq!(answer.without_marks(), answer, "it is not marked in any way");
        }
    }
    assert_eq!((world.effects.count(), world.records().await), (6, 0));
}
