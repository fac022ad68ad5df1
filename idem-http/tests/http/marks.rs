//! What services say about their answers: rejections, failures, panics (cases 37, 38, 42, 63).

use std::time::Duration;

use axum::body::Body;
use axum::extract::Path;
use axum::routing::post as on_post;
use axum::{Json, Router};
use http::{Request, StatusCode};
use idem_core::engine::Failure;
use idem_core::operation::{OnUnknown, Operation};
use idem_http::handler::{Checked, Exec, Fault};
use idem_http::{Disposition, IdempotencyLayer, Scoped};

use crate::support::app::answering;
use crate::support::{Answer, LEASE, World, post, send};

fn json(path: &str, key: &str, body: &'static str) -> Request<Body> {
    post(path, key).header("content-type", "application/json").body(Body::from(body)).unwrap()
}

/// Takes a number in the path and one in the body, and refuses more than 100.
fn checking(layer: IdempotencyLayer<Scoped, Operation>, world: &World) -> Router {
    let effects = world.effects.clone();
    let handler = |Checked(Path(account)): Checked<Path<u8>>,
                   Checked(Json(amount)): Checked<Json<u64>>| async move {
        if amount > 100 {
            return Err(Fault::reject((StatusCode::UNPROCESSABLE_ENTITY, "too much")));
        }
        effects.happen();
        Ok(format!("{amount} to {account}"))
    };
    Router::new().route("/accounts/{id}", on_post(handler).layer(layer))
}

#[tokio::test]
async fn a_rejection_found_before_execution_frees_the_key_for_the_corrected_request() {
    let world = World::new();
    let app = checking(world.layer(), &world);
    for (path, body, status) in [
        ("/accounts/7", "1,", 400),
        ("/accounts/7", "\"10\"", 422),
        ("/accounts/x", "10", 400),
        ("/accounts/7", "101", 422),
    ] {
        let answer = send(&app, json(path, "k", body)).await;
        assert_eq!(answer.status, status, "{path} {body}");
        assert_eq!(answer.header("idempotency-stored"), Some("false"));
        assert_eq!(answer.header("idempotency-key-lifetime"), None);
        assert_ne!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!((world.effects.count(), world.records().await), (0, 0));
    }
    let answer = send(&app, json("/accounts/7", "k", "10")).await;
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"10 to 7"[..]));
    assert_eq!(answer.header("idempotency-stored"), None);
    assert!(send(&app, json("/accounts/7", "k", "10")).await.is_replay());
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn an_extractor_that_is_not_wrapped_leaves_an_answer_like_any_other() {
    let world = World::new();
    let handler = |Json(amount): Json<u64>| async move { format!("charged {amount}") };
    let app = Router::new().route("/charges", on_post(handler).layer(world.layer()));
    assert_eq!(send(&app, json("/charges", "k", "1,")).await.status, 400);
    assert!(send(&app, json("/charges", "k", "1,")).await.is_replay());
    let corrected = send(&app, json("/charges", "k", "10")).await;
    assert_eq!(corrected.problem(), (422, "key-reused".into()));
}

#[tokio::test]
async fn an_answer_that_is_marked_as_passing_is_not_pinned() {
    for status in [StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY] {
        let world = World::new();
        let app = answering(world.layer(), &world.effects, move |number, _| match number {
            1 => (status, Disposition::Release, "later"),
            _ => (StatusCode::OK, Disposition::Store, "now"),
        });
        assert_eq!(send(&app, json("/charges", "k", "1")).await.status, status);
        let second = send(&app, json("/charges", "k", "1")).await;
        assert_eq!((second.status.as_u16(), second.is_replay()), (200, false));
    }
}

#[tokio::test]
async fn a_rejection_after_something_may_have_been_done_is_stored() {
    let world = World::new();
    let effects = world.effects.clone();
    let handler = move |exec: Exec| async move {
        effects.happen();
        exec.downstream_key("charge").await?;
        Err::<(), _>(Fault::reject((StatusCode::PAYMENT_REQUIRED, "card declined")))
    };
    let app = Router::new().route("/charges", on_post(handler).layer(world.layer()));
    let first = send(&app, json("/charges", "k", "1")).await;
    assert_eq!((first.status.as_u16(), &first.body[..]), (402, &b"card declined"[..]));
    let again = send(&app, json("/charges", "k", "1")).await;
    assert!(again.is_replay());
    assert_eq!((again.body, world.effects.count()), (first.body, 1));
}

#[tokio::test]
async fn an_unmarked_5xx_is_what_the_service_says() {
    for (disposition, second) in [
        (Disposition::Store, "replay of 1"),
        (Disposition::Release, "run 2"),
        (Disposition::Unknown, "key-in-use"),
    ] {
        let world = World::new();
        let layer = world.layer().unmarked_server_errors(disposition);
        let app = answering(layer, &world.effects, |number, _| {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{number}"))
        });
        let said = |answer: &Answer| match answer.status.as_u16() {
            500 if answer.is_replay() => {
                format!("replay of {}", String::from_utf8_lossy(&answer.body))
            }
            500 => format!("run {}", String::from_utf8_lossy(&answer.body)),
            _ => answer.problem().1,
        };
        let expected = match disposition {
            Disposition::Unknown => "outcome-unknown",
            _ => "run 1",
        };
        assert_eq!(said(&send(&app, json("/charges", "k", "1")).await), expected);
        assert_eq!(said(&send(&app, json("/charges", "k", "1")).await), second);
    }
}

async fn failing_app(world: &World, on_unknown: OnUnknown, panics: bool) -> Router {
    let effects = world.effects.clone();
    let handler = move |_: Exec| async move {
        match effects.happen() {
            1 if panics => panic!("the handler panics on purpose"),
            1 => Err(Fault::from(Failure::unknown("the gateway hung up"))),
            number => Ok(format!("run {number}")),
        }
    };
    let layer = world.layer_with(|operation| operation.on_unknown(on_unknown));
    Router::new().route("/charges", on_post(handler).layer(layer))
}

#[tokio::test]
async fn a_panic_and_a_failure_end_as_the_operation_chooses() {
    for panics in [true, false] {
        for on_unknown in [OnUnknown::Resume, OnUnknown::Hold, OnUnknown::StoreServerError] {
            let world = World::new();
            let app = failing_app(&world, on_unknown, panics).await;
            let first = send(&app, json("/charges", "k", "1")).await;
            world.clock.advance(LEASE + Duration::from_secs(1));
            let second = send(&app, json("/charges", "k", "1")).await;
            match on_unknown {
                OnUnknown::Resume => {
                    assert_eq!(first.problem(), (409, "outcome-unknown".into()));
                    assert_eq!((&second.body[..], world.effects.count()), (&b"run 2"[..], 2));
                }
                OnUnknown::Hold => {
                    assert_eq!(first.problem(), (409, "outcome-unknown".into()));
                    assert_eq!(second.problem(), (409, "outcome-held".into()));
                    assert_eq!(world.effects.count(), 1);
                }
                _ => {
                    // What is stored is a problem document like every other.
                    assert_eq!(first.problem(), (500, "handler-failed".into()));
                    assert_eq!(first.header("content-type"), Some("application/problem+json"));
                    assert_eq!(first.json()["error"]["code"], "idempotency_handler_failed");
                    assert!(second.is_replay());
                    assert_eq!(first.body, second.body);
                    assert_eq!((second.status.as_u16(), world.effects.count()), (500, 1));
                }
            }
        }
    }
}

#[tokio::test]
async fn an_error_of_the_service_inside_is_an_unknown_outcome() {
    use tower::{Layer, service_fn};
    let world = World::new();
    let effects = world.effects.clone();
    let service = service_fn(move |_: Request<idem_http::RequestBody<Body>>| {
        effects.happen();
        async { Err::<http::Response<Body>, _>(std::io::Error::other("broken pipe")) }
    });
    let service = world.layer().layer(service);
    let answer = send(&service, json("/charges", "k", "1")).await;
    assert_eq!(answer.problem(), (409, "outcome-unknown".into()));
    assert!(!String::from_utf8_lossy(&answer.body).contains("broken pipe"));
    assert_eq!((world.effects.count(), world.stats().await.live), (1, 1));
}

#[tokio::test]
async fn a_service_outside_axum_says_the_same_with_marks() {
    use idem_core::reply::Reply;
    use tower::{Layer, service_fn};
    let world = World::new();
    let effects = world.effects.clone();
    let service = service_fn(move |_: Request<idem_http::RequestBody<Body>>| {
        let response: http::Response<Body> = match effects.happen() {
            1 => idem_http::failed(Failure::unknown("the gateway hung up")),
            _ => idem_http::replied(Reply::new(201).unwrap().with_body("charged")),
        };
        async { Ok::<_, std::convert::Infallible>(response) }
    });
    let service = world.layer().layer(service);
    let first = send(&service, json("/charges", "k", "1")).await;
    assert_eq!(first.problem(), (409, "outcome-unknown".into()));
    world.clock.advance(LEASE);
    let second = send(&service, json("/charges", "k", "1")).await;
    assert_eq!((second.status.as_u16(), &second.body[..]), (201, &b"charged"[..]));
    let again = send(&service, json("/charges", "k", "1")).await;
    assert!(again.is_replay());
    assert_eq!(again.without_marks(), second.without_marks());
}

#[tokio::test]
async fn a_fault_without_a_layer_is_a_500_that_tells_nothing() {
    let handler = || async { Err::<(), Fault>(std::io::Error::other("hunter2").into()) };
    let app: Router = Router::new().route("/charges", on_post(handler));
    let answer = send(&app, json("/charges", "k", "1")).await;
    assert_eq!(answer.problem(), (500, "handler-failed".into()));
    assert!(!String::from_utf8_lossy(&answer.body).contains("hunter2"));
}

#[tokio::test]
async fn a_handler_that_needs_its_execution_does_not_run_without() {
    let needs: Router = Router::new().route("/charges", on_post(|_: Exec| async { "it ran" }));
    let answer = send(&needs, json("/charges", "k", "1")).await;
    assert_eq!(answer.problem(), (500, "misconfigured".into()));

    let handler = |exec: Option<Exec>| async move { format!("{}", exec.is_some()) };
    let bare: Router = Router::new().route("/charges", on_post(handler));
    assert_eq!(send(&bare, json("/charges", "k", "1")).await.body, "false");
    let world = World::new();
    let layered = Router::new().route("/charges", on_post(handler).layer(world.layer()));
    assert_eq!(send(&layered, json("/charges", "k", "1")).await.body, "true");
}

#[tokio::test]
async fn two_layers_around_one_handler_are_refused_and_the_key_stays_free() {
    let world = World::new();
    let effects = world.effects.clone();
    let handler = move || async move { effects.happen().to_string() };
    let app = Router::new()
        .route("/charges", on_post(handler).layer(world.layer()))
        .layer(world.layer_with(|operation| operation));
    let answer = send(&app, json("/charges", "k", "1")).await;
    assert_eq!(answer.problem(), (500, "misconfigured".into()));
    assert_eq!((world.effects.count(), world.records().await), (0, 0));
}
