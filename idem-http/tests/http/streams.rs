//! Answers that are too large, too slow, or endless (cases 58, 59, 65).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use idem_core::operation::Operation;
use idem_http::{Disposition, IdempotencyLayer, Scoped};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::support::gate::PATIENCE;
use crate::support::world::Effects;
use crate::support::{World, post, send};

/// Longer than a test waits for anything.
const NEVER: Duration = Duration::from_secs(3_600);

fn request() -> Request<Body> {
    post("/charges", "k").body(Body::from("100")).unwrap()
}

fn app<F>(layer: IdempotencyLayer<Scoped, Operation>, effects: &Effects, answer: F) -> Router
where
    F: Fn() -> Response + Clone + Send + Sync + 'static,
{
    let effects = effects.clone();
    let handler = move || async move {
        effects.happen();
        answer()
    };
    Router::new().route("/charges", on_post(handler).layer(layer))
}

/// These chunks, and then whatever `end` gives.
fn chunks(
    first: &'static [&'static str],
    end: impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Body {
    let first = stream::iter(first.iter().map(|chunk| Ok(Bytes::from(*chunk))));
    Body::from_stream(first.chain(end))
}

async fn not_kept(app: &Router, world: &World, status: u16) {
    let again = send(app, request()).await;
    assert_eq!(again.problem(), (410, "reply-not-kept".into()));
    assert_eq!(again.json()["original_status"], status);
    assert_eq!((world.effects.count(), world.stats().await.completed), (1, 1));
}

#[tokio::test]
async fn one_byte_over_the_limit_is_delivered_whole_and_not_kept() {
    let world = World::new();
    let layer = world.layer_with(|operation| operation.max_reply_bytes(10));
    for (key, body, kept) in
        [("fits", &["12345", "67890"][..], true), ("k", &["12345", "678901", "end"], false)]
    {
        let app = app(layer.clone(), &world.effects, move || {
            let body = body.iter().map(|chunk| Ok::<_, io::Error>(Bytes::from(*chunk)));
            (StatusCode::CREATED, Body::from_stream(stream::iter(body.collect::<Vec<_>>())))
                .into_response()
        });
        let request = || post("/charges", key).body(Body::empty()).unwrap();
        let first = send(&app, request()).await;
        assert_eq!((first.status.as_u16(), &first.body[..]), (201, body.concat().as_bytes()));
        assert_eq!(first.header("idempotency-stored"), None, "the key is taken for good");
        let again = send(&app, request()).await;
        assert_eq!(again.is_replay(), kept);
        assert_eq!(again.status == 410, !kept);
    }
    assert_eq!(world.effects.count(), 2);
}

#[tokio::test]
async fn no_body_is_ever_kept_in_part() {
    let world = World::new();
    // The limit falls into the middle of a character.
    let layer = world.layer_with(|operation| operation.max_reply_bytes(1_001));
    let app = app(layer, &world.effects, || "é".repeat(600).into_response());
    assert_eq!(send(&app, request()).await.body, "é".repeat(600));
    not_kept(&app, &world, 200).await;
}

#[tokio::test]
async fn an_endless_event_stream_starts_at_once_and_takes_the_key() {
    let world = World::new();
    let app = app(world.layer().stream_after(NEVER), &world.effects, || {
        let headers = [("content-type", "Text/Event-Stream; charset=utf-8")];
        (headers, chunks(&["data: 1\n\n"], stream::pending())).into_response()
    });
    let response =
        timeout(PATIENCE, app.clone().oneshot(request())).await.expect("its head").unwrap();
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let frame = timeout(PATIENCE, body.frame()).await.expect("its first event").unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "data: 1\n\n");
    not_kept(&app, &world, 200).await;
    drop(body);
    not_kept(&app, &world, 200).await;
}

#[tokio::test]
async fn a_stream_that_is_marked_starts_at_once_too() {
    let world = World::new();
    let app = app(world.layer().stream_after(NEVER), &world.effects, || {
        let body = chunks(&["row 1\n"], stream::pending());
        (StatusCode::ACCEPTED, Disposition::Stream, body).into_response()
    });
    let response =
        timeout(PATIENCE, app.clone().oneshot(request())).await.expect("its head").unwrap();
    assert_eq!(response.status(), 202);
    not_kept(&app, &world, 202).await;
}

/// A body that says how long it is, and has not started yet.
struct Announced;

impl http_body::Body for Announced {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(1 << 40)
    }
}

#[tokio::test]
async fn a_body_that_says_that_it_is_too_large_is_not_waited_for() {
    let world = World::new();
    let app = app(world.layer().stream_after(NEVER), &world.effects, || {
        Body::new(Announced).into_response()
    });
    let answered = timeout(PATIENCE, app.clone().oneshot(request())).await.expect("its head");
    assert_eq!(answered.unwrap().headers()["content-length"], (1_u64 << 40).to_string());
    not_kept(&app, &world, 200).await;
}

#[tokio::test]
async fn a_body_that_takes_too_long_is_streamed_from_where_it_stands() {
    let world = World::new();
    let layer = world.layer().stream_after(Duration::from_millis(50));
    let app = app(layer, &world.effects, || chunks(&["a", "b"], stream::pending()).into_response());
    let response =
        timeout(PATIENCE, app.clone().oneshot(request())).await.expect("its head").unwrap();
    let mut body = response.into_body();
    let frame = timeout(PATIENCE, body.frame()).await.expect("what was read").unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "ab");
    not_kept(&app, &world, 200).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_before_it_was_delivered_is_an_unknown_outcome() {
    let world = World::new();
    let app = app(world.layer(), &world.effects, || {
        let broken = stream::iter([Err(io::Error::other("upstream hung up"))]);
        chunks(&["half"], broken).into_response()
    });
    assert_eq!(send(&app, request()).await.problem(), (409, "outcome-unknown".into()));
    assert_eq!(send(&app, request()).await.problem(), (409, "key-in-use".into()));
    assert_eq!((world.effects.count(), world.stats().await.live), (1, 1));
}

#[tokio::test]
async fn a_body_that_panics_is_an_unknown_outcome() {
    let world = World::new();
    let app = app(world.layer(), &world.effects, || {
        let panics = stream::poll_fn(|_| panic!("the body panics on purpose"));
        chunks(&["half"], panics).into_response()
    });
    assert_eq!(send(&app, request()).await.problem(), (409, "outcome-unknown".into()));
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn a_large_body_that_breaks_off_later_breaks_off_for_the_client_and_is_not_run_again() {
    let world = World::new();
    let layer = world.layer_with(|operation| operation.max_reply_bytes(3));
    let app = app(layer, &world.effects, || {
        let broken = stream::iter([Err(io::Error::other("upstream hung up"))]);
        chunks(&["half", "more"], broken).into_response()
    });
    let response = app.clone().oneshot(request()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.into_body().collect().await.is_err());
    not_kept(&app, &world, 200).await;
}

#[tokio::test]
async fn a_rejection_that_is_too_large_to_keep_takes_the_key() {
    let world = World::new();
    let layer = world.layer_with(|operation| operation.max_reply_bytes(3));
    let app = app(layer, &world.effects, || {
        (StatusCode::BAD_REQUEST, Disposition::Release, "too long a story").into_response()
    });
    assert_eq!(send(&app, request()).await.body, "too long a story");
    not_kept(&app, &world, 400).await;
}

#[tokio::test]
async fn a_switch_of_protocols_is_delivered_once() {
    let world = World::new();
    let app = app(world.layer(), &world.effects, || {
        (StatusCode::SWITCHING_PROTOCOLS, [("upgrade", "h2c")]).into_response()
    });
    let first = send(&app, request()).await;
    assert_eq!((first.status.as_u16(), first.header("upgrade")), (101, Some("h2c")));
    not_kept(&app, &world, 101).await;
}
