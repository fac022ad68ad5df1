//! The store fails, the engine is full, the service shuts down (cases 29, 43, 48).

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post as on_post;
use http::Request;
use idem_core::engine::Engine;
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::{Operation, StoreDown, Unstored};
use idem_core::reply::Reply;
use idem_http::handler::Done;

use crate::support::app::{charges, gated};
use crate::support::world::layer_on;
use crate::support::{Gate, LEASE, World, post, send};

fn request() -> Request<Body> {
    post("/charges", "k").body(Body::from("100")).unwrap()
}

#[tokio::test]
async fn a_reply_that_cannot_be_stored_is_delivered_and_says_so() {
    let world = World::new();
    let quick = Duration::from_millis(20);
    let app =
        charges(world.layer_with(|operation| operation.reply_delay_limit(quick)), &world.effects);
    world.faults.fail(Verb::Complete, ErrorKind::OutcomeUnknown);
    let first = send(&app, request()).await;
    assert_eq!((first.status.as_u16(), &first.body[..]), (201, &b"1 100"[..]));
    assert_eq!(first.header("idempotency-stored"), Some("false"));
    // The key is not freed: what was done is done.
    assert_eq!(send(&app, request()).await.problem(), (409, "key-in-use".into()));
    world.clock.advance(LEASE);
    let after = send(&app, request()).await;
    assert_eq!(
        (&after.body[..], after.header("idempotency-stored")),
        (&b"2 100"[..], Some("false"))
    );
}

#[tokio::test]
async fn an_operation_may_refuse_to_deliver_what_is_not_stored() {
    let world = World::new();
    let quick = Duration::from_millis(20);
    let layer =
        world.layer_with(|operation| operation.reply_delay_limit(quick).unstored(Unstored::Refuse));
    let app = charges(layer.retry_hint(LEASE), &world.effects);
    world.faults.fail(Verb::Complete, ErrorKind::OutcomeUnknown);
    let answer = send(&app, request()).await;
    assert_eq!(answer.problem(), (503, "reply-not-stored".into()));
    assert_eq!((answer.retry_after(), world.effects.count()), (Some(20), 1));
}

#[tokio::test]
async fn a_service_may_choose_to_run_unprotected_where_the_claim_never_left() {
    let world = World::new();
    let layer = world.layer_with(|operation| {
        let open = operation.store_down(StoreDown::RunWithoutProtection);
        open.claim_limit(Duration::from_millis(20))
    });
    let app = charges(layer, &world.effects);
    world.faults.fail(Verb::Claim, ErrorKind::NotApplied);
    for number in 1..=2 {
        let answer = send(&app, request()).await;
        assert_eq!(&answer.body[..], format!("{number} 100").as_bytes());
        assert_eq!(answer.header("idempotency-stored"), Some("false"));
        assert_eq!(answer.header("idempotency-key-lifetime"), Some("0"), "no retry is safe");
    }
    world.faults.heal();
    world.faults.fail(Verb::Claim, ErrorKind::OutcomeUnknown);
    assert_eq!(send(&app, request()).await.problem(), (503, "store-unavailable".into()));
    assert_eq!(world.effects.count(), 2);
}

#[tokio::test]
async fn a_reply_that_is_no_http_response_is_an_error_and_is_not_run_again() {
    let world = World::new();
    let effects = world.effects.clone();
    let handler = move || async move {
        effects.happen();
        Done(Reply::new(200).unwrap().with_header("not a name", "1"))
    };
    let app = Router::new().route("/charges", on_post(handler).layer(world.layer()));
    for _ in 0..2 {
        assert_eq!(send(&app, request()).await.problem(), (503, "record-corrupt".into()));
    }
    assert_eq!((world.effects.count(), world.stats().await.completed), (1, 1));
}

#[tokio::test]
async fn too_many_at_once_and_a_shutdown_are_503_with_retry_after_and_claim_nothing() {
    let (world, gate) = (World::new(), Gate::new());
    let engine = Engine::builder(world.store.clone())
        .namespace("test")
        .unwrap()
        .max_in_flight(1)
        .admission_limit(Duration::from_millis(20))
        .build()
        .unwrap();
    let operation = Operation::builder("charge").build().unwrap();
    let app = gated(layer_on(&engine, &operation), &world.effects, &gate);
    let first = tokio::spawn({
        let app = app.clone();
        async move { send(&app, request()).await }
    });
    gate.arrival().await;
    let other = || post("/charges", "other").body(Body::empty()).unwrap();
    let busy = send(&app, other()).await;
    assert_eq!((busy.problem(), busy.retry_after()), ((503, "busy".into()), Some(1)));

    let still_running = engine.drain(Duration::ZERO).await;
    assert_eq!(still_running, 1);
    let draining = send(&app, other()).await;
    assert_eq!((draining.problem(), draining.retry_after()), ((503, "draining".into()), Some(1)));
    gate.let_one_pass();
    assert_eq!(first.await.unwrap().status, 201, "what runs is finished");
    assert_eq!(engine.drain(Duration::from_secs(30)).await, 0);
    assert_eq!((world.effects.count(), world.records().await), (1, 1));
}

#[tokio::test]
async fn an_operation_that_the_engine_cannot_run_is_a_500_before_anything_runs() {
    use idem_core::operation::LocalForm;
    let world = World::new();
    // The engine was given no store that lends a transaction.
    let layer = world.layer_with(|operation| operation.local_form(LocalForm::OneCommit));
    let app = charges(layer, &world.effects);
    assert_eq!(send(&app, request()).await.problem(), (500, "misconfigured".into()));
    assert_eq!((world.effects.count(), world.records().await), (0, 0));
}
