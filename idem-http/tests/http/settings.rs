//! What can be set, and the switch.

use std::time::Duration;

use axum::body::Body;
use http::header::HeaderName;
use http::{Method, Request};
use idem_core::engine::Engine;
use idem_core::key::Scope;
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;
use idem_http::{IdempotencyLayer, Switch, scope};

use crate::support::app::{charges, gated};
use crate::support::{Gate, World, post, send};

#[tokio::test]
async fn the_headers_names_are_settings_in_any_case() {
    let world = World::new();
    let layer = world
        .layer()
        .key_header(HeaderName::from_static("paypal-request-id"))
        .replayed_header(HeaderName::from_static("x-replayed"));
    let app = charges(layer, &world.effects);
    let request = || {
        Request::post("/charges")
            .header("authorization", "Bearer alice")
            .header("PayPal-Request-Id", "k")
            .body(Body::from("100"))
            .unwrap()
    };
    assert_eq!(send(&app, request()).await.header("x-replayed"), None);
    let again = send(&app, request()).await;
    assert_eq!((again.header("x-replayed"), again.is_replay()), (Some("true"), false));
    let other_name = post("/charges", "k").body(Body::from("100")).unwrap();
    let answer = send(&app, other_name).await;
    assert_eq!(answer.problem(), (400, "key-missing".into()));
    assert!(answer.json()["detail"].as_str().unwrap().contains("paypal-request-id"));
}

#[tokio::test]
async fn the_methods_are_a_setting() {
    let world = World::new();
    let layer = world.layer().methods([Method::POST, Method::DELETE]);
    let app = charges(layer, &world.effects);
    for (method, protected) in [("POST", true), ("DELETE", true), ("PATCH", false)] {
        for _ in 0..2 {
            let mut request = post("/charges", method).body(Body::empty()).unwrap();
            *request.method_mut() = method.parse().unwrap();
            send(&app, request).await;
        }
        assert_eq!(world.effects.count(), if protected { world.records().await as u32 } else { 4 });
    }
}

#[tokio::test]
async fn the_base_of_problem_types_is_a_setting() {
    let world = World::new();
    let layer = world.layer().problem_base("https://docs.example.com/problems/");
    let app = charges(layer, &world.effects);
    let answer = send(&app, post("/charges", "a b").body(Body::empty()).unwrap()).await;
    assert_eq!(answer.json()["type"], "https://docs.example.com/problems/key-invalid");
}

#[tokio::test]
async fn a_header_that_is_asked_for_tells_requests_apart() {
    let world = World::new();
    let layer = world.layer().fingerprint_headers([HeaderName::from_static("api-version")]);
    let app = charges(layer, &world.effects);
    let request = |version: &str| {
        post("/charges", "k").header("api-version", version).body(Body::from("100")).unwrap()
    };
    assert_eq!(send(&app, request("1")).await.status, 201);
    assert!(send(&app, request("1")).await.is_replay());
    assert_eq!(send(&app, request("2")).await.problem(), (422, "key-reused".into()));
}

#[tokio::test]
async fn an_operation_that_does_not_compare_takes_any_request_for_the_first() {
    let world = World::new();
    let layer = world.layer_with(|operation| operation.without_comparison());
    let app = charges(layer, &world.effects);
    let request = |body: &'static str| post("/charges", "k").body(Body::from(body)).unwrap();
    assert_eq!(send(&app, request("100")).await.body, "1 100");
    let again = send(&app, request("101")).await;
    assert_eq!((again.is_replay(), &again.body[..]), (true, &b"1 100"[..]));
}

#[tokio::test]
async fn the_retry_hint_is_one_second_unless_told_otherwise_and_never_over_the_lease() {
    for (hint, lease, expected) in [
        (None, 20_000, 1),
        (Some(5_000), 20_000, 5),
        (Some(60_000), 2_500, 2),
        (Some(0), 20_000, 1),
        (None, 200, 1),
    ] {
        let (world, gate) = (World::new(), Gate::new());
        let lease = Duration::from_millis(lease);
        let mut layer = world.layer_with(|operation| operation.lease(lease));
        if let Some(hint) = hint {
            layer = layer.retry_hint(Duration::from_millis(hint));
        }
        let app = gated(layer, &world.effects, &gate);
        let request = || post("/charges", "k").body(Body::empty()).unwrap();
        let first = tokio::spawn({
            let app = app.clone();
            async move { send(&app, request()).await }
        });
        gate.arrival().await;
        assert_eq!(send(&app, request()).await.retry_after(), Some(expected), "{hint:?}");
        gate.let_one_pass();
        first.await.unwrap();
    }
}

#[tokio::test]
async fn a_constant_scope_is_a_choice_with_a_name() {
    let engine = Engine::builder(MemoryStore::new()).namespace("test").unwrap().build().unwrap();
    let charge = Operation::builder("charge").build().unwrap();
    let everyone = Scope::new("the only caller").unwrap();
    let layer = IdempotencyLayer::new(engine).operation(&charge).scope(scope::constant(everyone));
    let world = World::new();
    let app = charges(layer, &world.effects);
    for caller in ["Bearer alice", "Bearer bob"] {
        let request = Request::post("/charges").header("authorization", caller);
        let request = request.header("idempotency-key", "k").body(Body::empty()).unwrap();
        assert_eq!(send(&app, request).await.body, "1 ");
    }
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn while_the_switch_is_off_requests_run_unprotected_and_say_so() {
    let (world, switch) = (World::new(), Switch::new());
    let app = charges(world.layer().switch(&switch), &world.effects);
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    assert_eq!(send(&app, request()).await.body, "1 100");
    switch.turn_off();
    for number in 2..=3 {
        let answer = send(&app, request()).await;
        assert_eq!(&answer.body[..], format!("{number} 100").as_bytes());
        assert_eq!(answer.header("idempotency-stored"), Some("false"));
        assert_eq!(answer.header("idempotency-key-lifetime"), None);
    }
    let without_key = Request::post("/charges").body(Body::from("100")).unwrap();
    assert_eq!(send(&app, without_key).await.status, 201);
    switch.turn_on();
    let answer = send(&app, request()).await;
    assert_eq!((answer.is_replay(), &answer.body[..]), (true, &b"1 100"[..]));
}
