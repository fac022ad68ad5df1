//! Request bodies: limits, broken uploads, what counts as the same (cases 66, 67, 74, 78).

use std::io;

use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body_util::Limited;

use crate::support::app::charges;
use crate::support::{World, post, send};

fn chunked(chunks: Vec<Result<&'static str, io::Error>>) -> Body {
    Body::from_stream(stream::iter(chunks.into_iter().map(|chunk| chunk.map(Bytes::from))))
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_is_413_and_one_at_the_limit_runs() {
    let world = World::new();
    let app = charges(world.layer().max_body_bytes(4), &world.effects);
    let over = chunked(vec![Ok("10"), Ok("00"), Ok("0")]);
    let answer = send(&app, post("/charges", "k").body(over).unwrap()).await;
    assert_eq!(answer.problem(), (413, "body-too-large".into()));
    assert_eq!((world.effects.count(), world.records().await), (0, 0));
    let fits = chunked(vec![Ok("10"), Ok("00")]);
    let answer = send(&app, post("/charges", "k").body(fits).unwrap()).await;
    assert_eq!(answer.body, "1 1000");
}

#[tokio::test]
async fn a_length_that_is_announced_over_the_limit_is_413_before_a_byte_is_read() {
    let world = World::new();
    let app = charges(world.layer().max_body_bytes(4), &world.effects);
    let unread = chunked(vec![Err(io::Error::other("it was read"))]);
    let request = post("/charges", "k").header("content-length", "5").body(unread).unwrap();
    assert_eq!(send(&app, request).await.problem(), (413, "body-too-large".into()));
    assert_eq!(world.records().await, 0);
}

#[tokio::test]
async fn a_broken_upload_is_400_and_nothing_is_claimed() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let broken = chunked(vec![Ok("10"), Err(io::Error::other("connection reset"))]);
    let answer = send(&app, post("/charges", "k").body(broken).unwrap()).await;
    assert_eq!(answer.problem(), (400, "body-incomplete".into()));
    assert_eq!((world.effects.count(), world.records().await), (0, 0));
    let answer = send(&app, post("/charges", "k").body(Body::from("100")).unwrap()).await;
    assert_eq!(answer.status, 201);
}

#[tokio::test]
async fn a_limit_of_a_layer_outside_is_413_too() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let limited = Body::new(Limited::new(chunked(vec![Ok("10"), Ok("00")]), 3));
    let answer = send(&app, post("/charges", "k").body(limited).unwrap()).await;
    assert_eq!(answer.problem(), (413, "body-too-large".into()));
    assert_eq!(world.records().await, 0);
}

#[tokio::test]
async fn the_handler_reads_a_large_body_whole_under_the_limits_of_both() {
    let world = World::new();
    let app = charges(world.layer().max_body_bytes(4 << 20), &world.effects)
        .layer(DefaultBodyLimit::max(4 << 20));
    let body = "x".repeat(3 << 20);
    let answer = send(&app, post("/charges", "k").body(Body::from(body.clone())).unwrap()).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.body.len(), body.len() + 2);
}

/// Sends two bodies under one key; whether the second counted as the same request.
async fn same(content_type: &str, first: impl Into<Body>, second: impl Into<Body>) -> bool {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let request =
        |body: Body| post("/charges", "k").header("content-type", content_type).body(body).unwrap();
    assert_eq!(send(&app, request(first.into())).await.status, 201);
    let answer = send(&app, request(second.into())).await;
    match answer.status.as_u16() {
        201 => assert!(answer.is_replay()),
        _ => assert_eq!(answer.problem(), (422, "key-reused".into())),
    }
    assert_eq!(world.effects.count(), 1);
    answer.status == 201
}

#[tokio::test]
async fn json_counts_by_its_meaning_and_anything_else_by_its_bytes() {
    let json = "application/json";
    assert!(
        same(json, r#"{"a":1,"b":{"c":2,"d":[1,2]}}"#, r#"{"b":{"d":[1,2],"c":2},"a":1}"#).await
    );
    assert!(!same(json, r#"{"d":[1,2]}"#, r#"{"d":[2,1]}"#).await);
    assert!(same(json, "[1]", "[1.0e0]").await);
    assert!(!same(json, "[9007199254740992]", "[9007199254740993]").await);
    assert!(same("application/vnd.api+json; charset=utf-8", "{ }", "{}").await);
    assert!(!same("text/plain", r#"{"a":1}"#, r#"{"a": 1}"#).await);
    assert!(!same("application/x-www-form-urlencoded", "a=1&b=2", "b=2&a=1").await);
}

#[tokio::test]
async fn json_that_is_none_or_is_nested_too_deep_counts_by_its_bytes_and_is_not_refused() {
    let json = "application/json";
    assert!(same(json, "{", "{").await);
    assert!(!same(json, "{", "{ ").await);
    let deep = || "[".repeat(10_000) + &"]".repeat(10_000);
    assert!(same(json, deep(), deep()).await);
    assert!(!same(json, deep(), deep() + " ").await);
    assert!(!same(json, r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#).await);
}

#[tokio::test]
async fn large_payloads_that_differ_in_one_byte_differ() {
    let one = vec![b'x'; 200_000];
    let mut other = one.clone();
    other[150_000] = b'y';
    assert!(same("application/octet-stream", one.clone(), one.clone()).await);
    assert!(!same("application/octet-stream", one.clone(), other).await);
    assert!(!same("application/octet-stream", one, Vec::new()).await);
}

#[tokio::test]
async fn query_method_and_content_type_count() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let send_to = |path: &'static str, method: &'static str, content_type: &'static str| {
        let mut request = post(path, "k").body(Body::from("{}")).unwrap();
        *request.method_mut() = method.parse().unwrap();
        if !content_type.is_empty() {
            request.headers_mut().insert("content-type", content_type.parse().unwrap());
        }
        let app = app.clone();
        async move { send(&app, request).await.status.as_u16() }
    };
    assert_eq!(send_to("/charges?a=1", "POST", "text/plain").await, 201);
    assert_eq!(send_to("/charges?a=2", "POST", "text/plain").await, 422);
    assert_eq!(send_to("/charges", "POST", "text/plain").await, 422);
    assert_eq!(send_to("/charges?a=1", "PATCH", "text/plain").await, 422);
    assert_eq!(send_to("/charges?a=1", "POST", "text/html").await, 422);
    assert_eq!(send_to("/charges?a=1", "POST", "").await, 422);
    assert_eq!(send_to("/charges?a=1", "POST", "TEXT/plain; charset=utf-8").await, 201);
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn headers_that_sdks_change_between_attempts_do_not_count() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    for attempt in ["0", "1", "2"] {
        let request: Request<Body> = post("/charges", "k")
            .header("x-stainless-retry-count", attempt)
            .header("user-agent", format!("sdk/{attempt}"))
            .body(Body::from("amount=100&currency=eur"))
            .unwrap();
        assert_eq!(send(&app, request).await.is_replay(), attempt != "0");
    }
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn two_content_types_count_each() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let request = |types: &[&str]| {
        let mut request = post("/charges", "k").body(Body::from("{}")).unwrap();
        for content_type in types {
            request.headers_mut().append("content-type", content_type.parse().unwrap());
        }
        request
    };
    let both = request(&["application/json", "text/plain"]);
    assert_eq!(send(&app, both).await.status, 201);
    let one = request(&["application/json"]);
    assert_eq!(send(&app, one).await.status, 422);
    let swapped = request(&["text/plain", "application/json"]);
    assert_eq!(send(&app, swapped).await.status, 422);
}
