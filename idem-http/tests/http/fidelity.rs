//! A replay is the first answer byte for byte (cases 44, 45, 49 to 54).

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use idem_http::Disposition;
use proptest::prelude::*;

use crate::support::app::answering;
use crate::support::{Answer, World, post, send};

fn request() -> Request<Body> {
    post("/charges", "k").body(Body::from("100")).unwrap()
}

/// Sends the request twice; the first answer, and the second without what marks it.
async fn twice<F, R>(world: &World, answer: F) -> (Answer, Answer)
where
    F: Fn() -> R + Clone + Send + Sync + 'static,
    R: IntoResponse,
{
    let app = answering(world.layer(), &world.effects, move |_, _| answer());
    let first = send(&app, request()).await;
    let again = send(&app, request()).await;
    assert!(!first.is_replay() && again.is_replay());
    assert_eq!(world.effects.count(), 1);
    (first.without_marks(), again.without_marks())
}

fn lines(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[tokio::test]
async fn headers_keep_their_order_repeats_commas_and_bytes() {
    let world = World::new();
    let (first, again) = twice(&world, || {
        let mut response = (StatusCode::CREATED, "é").into_response();
        for (name, value) in [
            ("set-cookie", &b"a=1; Expires=Thu, 01 Jan 2026 00:00:00 GMT"[..]),
            ("location", b"/charges/1"),
            ("set-cookie", b"b=2"),
            ("content-disposition", b"attachment; filename=\"a, b.pdf\""),
            ("etag", b"\"1\""),
            ("x-name", b"caf\xe9"),
            ("x-empty", b""),
        ] {
            let value = HeaderValue::from_bytes(value).unwrap();
            response.headers_mut().append(name, value);
        }
        response
    })
    .await;
    assert_eq!(first.headers.get_all("set-cookie").iter().count(), 2);
    assert_eq!(first.headers["x-name"].as_bytes(), b"caf\xe9");
    assert_eq!(lines(&again.headers), lines(&first.headers));
    assert_eq!(again, first);
}

#[tokio::test]
async fn every_status_that_a_handler_can_give_comes_back() {
    for status in 200..=599 {
        let world = World::new();
        let status = StatusCode::from_u16(status).unwrap();
        let (first, again) = twice(&world, move || (status, format!("status:{status}"))).await;
        assert_eq!(first.status, status);
        assert_eq!(again, first);
    }
}

#[tokio::test]
async fn nothing_comes_back_as_nothing() {
    let world = World::new();
    let (first, again) = twice(&world, || ()).await;
    assert_eq!((first.status.as_u16(), first.body.len()), (200, 0));
    assert_eq!(first.header("content-length"), Some("0"));
    assert_eq!(again, first);
}

#[tokio::test]
async fn a_204_and_a_304_have_no_body_and_no_wrong_length() {
    for status in [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED] {
        let world = World::new();
        let (first, again) = twice(&world, move || (status, [("etag", "\"1\"")])).await;
        assert_eq!(first.body.len(), 0);
        assert_eq!(again, first);
    }
}

#[tokio::test]
async fn a_stream_of_unknown_length_comes_back_whole_and_with_its_length() {
    let world = World::new();
    let (first, again) = twice(&world, || {
        let chunks = ["ab", "", "cd"].map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
        Body::from_stream(futures_util::stream::iter(chunks))
    })
    .await;
    assert_eq!((first.header("content-length"), &first.body[..]), (Some("4"), &b"abcd"[..]));
    assert_eq!(again, first);
}

#[tokio::test]
async fn trailers_come_back() {
    let world = World::new();
    let (first, again) = twice(&world, || {
        let mut trailers = HeaderMap::new();
        trailers.append("grpc-status", HeaderValue::from_static("0"));
        trailers.append("x-sum", HeaderValue::from_static("1"));
        trailers.append("x-sum", HeaderValue::from_static("2"));
        let frames = [Frame::data(Bytes::from_static(b"\0\0\0\0\0")), Frame::trailers(trailers)]
            .map(Ok::<_, std::io::Error>);
        let body = Body::new(StreamBody::new(futures_util::stream::iter(frames)));
        Response::builder().header("content-type", "application/grpc").body(body).unwrap()
    })
    .await;
    assert_eq!(first.trailers.as_ref().unwrap().get_all("x-sum").iter().count(), 2);
    assert_eq!(first.header("content-length"), None, "a server sends no trailers after a length");
    assert_eq!(again, first);
}

#[tokio::test]
async fn fields_of_one_connection_or_one_moment_are_not_replayed() {
    let world = World::new();
    let (first, again) = twice(&world, || {
        let headers = [
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
            ("x-kept", "1"),
        ];
        (headers, "body")
    })
    .await;
    assert!(first.headers.contains_key("x-hop") && first.headers.contains_key("date"));
    let names: Vec<_> = again.headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["content-type", "x-kept", "content-length"]);
}

#[tokio::test]
async fn an_upstreams_own_marks_do_not_make_an_answer_look_like_a_replay() {
    let world = World::new();
    let app = answering(world.layer(), &world.effects, |_, _| {
        [
            ("idempotent-replayed", "true"),
            ("idempotency-key-lifetime", "999999999"),
            ("idempotency-stored", "false"),
            ("x-upstream", "1"),
        ]
    });
    let first = send(&app, request()).await;
    assert!(!first.is_replay() && first.header("idempotency-stored").is_none());
    assert_ne!(first.header("idempotency-key-lifetime"), Some("999999999"));
    assert_eq!(first.header("x-upstream"), Some("1"));
    assert!(send(&app, request()).await.is_replay());
}

#[tokio::test]
async fn dropped_headers_are_on_the_first_answer_only() {
    let world = World::new();
    let dropped = ["set-cookie", "www-authenticate", "x-request-id"].map(HeaderName::from_static);
    let layer = world.layer().drop_response_headers(dropped);
    let app = answering(layer, &world.effects, |_, _| {
        let headers = [("set-cookie", "session=1"), ("x-request-id", "r1"), ("location", "/1")];
        (headers, "body")
    });
    let first = send(&app, request()).await;
    assert_eq!(first.header("set-cookie"), Some("session=1"));
    assert_eq!(first.header("x-request-id"), Some("r1"));
    let again = send(&app, request()).await.without_marks();
    let names: Vec<_> = again.headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["content-type", "location", "content-length"]);
    assert_eq!(again.body, "body");
}

#[tokio::test]
async fn a_reply_that_a_handler_makes_leaves_out_what_is_not_stored() {
    use idem_http::handler::{Done, Exec, Fault};
    let world = World::new();
    let layer = world.layer().drop_response_headers([HeaderName::from_static("set-cookie")]);
    let handler = |exec: Exec| async move {
        let headers = [("set-cookie", "a=1"), ("connection", "close"), ("location", "/1")];
        let reply = exec.reply((StatusCode::CREATED, headers, "made")).await?;
        Ok::<Done, Fault>(reply.into())
    };
    let app = Router::new().route("/charges", on_post(handler).layer(layer));
    let first = send(&app, request()).await.without_marks();
    let names: Vec<_> = first.headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["content-type", "location", "content-length"]);
    assert_eq!((first.status.as_u16(), &first.body[..]), (201, &b"made"[..]));
    assert_eq!(send(&app, request()).await.without_marks(), first);
}

#[tokio::test]
async fn a_status_that_no_reply_can_have_is_delivered_once_and_never_run_again() {
    let world = World::new();
    let app = answering(world.layer(), &world.effects, |_, _| {
        (StatusCode::from_u16(799).unwrap(), "odd")
    });
    let first = send(&app, request()).await;
    assert_eq!((first.status.as_u16(), &first.body[..]), (799, &b"odd"[..]));
    assert_eq!(send(&app, request()).await.problem(), (410, "reply-not-kept".into()));
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn an_answer_to_head_may_say_a_length_that_it_has_not() {
    let world = World::new();
    let layer = world.layer().methods([http::Method::HEAD]);
    let handler = || async { [("content-length", "5")] };
    let app = Router::new().route("/charges", axum::routing::head(handler).layer(layer));
    for replayed in [false, true] {
        let mut request = request();
        *request.method_mut() = http::Method::HEAD;
        let answer = send(&app, request).await;
        assert_eq!((answer.header("content-length"), answer.is_replay()), (Some("5"), replayed));
    }
}

#[tokio::test]
async fn a_marked_answer_loses_its_mark_and_nothing_else() {
    let world = World::new();
    let app = Router::new().route(
        "/charges",
        on_post(|| async { (StatusCode::BAD_GATEWAY, Disposition::Store, "stored") })
            .layer(world.layer().unmarked_server_errors(Disposition::Release)),
    );
    let first = send(&app, request()).await;
    let again = send(&app, request()).await;
    assert!(again.is_replay());
    assert_eq!(again.without_marks(), first.without_marks());
}

fn header_value() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(b'\t'), 0x20..=0x7e_u8, 0x80..=0xff_u8];
    proptest::collection::vec(byte, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_answer_comes_back_as_it_was(
        status in 200..600_u16,
        fields in proptest::collection::vec(("x-[a-z]{1,3}", header_value()), 0..12),
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new();
            let (expected, sent) = (body.clone(), fields.clone());
            let (first, again) = twice(&world, move || {
                let mut response = (StatusCode::from_u16(status).unwrap(), body.clone());
                let mut response = std::mem::take(&mut response.1).into_response();
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                for (name, value) in &fields {
                    let name: HeaderName = name.parse().unwrap();
                    response.headers_mut().append(name, HeaderValue::from_bytes(value).unwrap());
                }
                response
            })
            .await;
            assert_eq!(&first.body[..], &expected[..]);
            assert_eq!(first.headers.iter().filter(|(name, _)| {
                name.as_str().starts_with("x-")
            }).count(), sent.len());
            assert_eq!(lines(&again.headers), lines(&first.headers));
            assert_eq!(again, first);
        });
    }
}
