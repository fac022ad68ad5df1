//! What stands on the wire, behind axum and behind a plain tower service.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use idem_http::RequestBody;
use tower::{Layer, service_fn};

use crate::support::server::{KINDS, Server, Work, request};
use crate::support::{Gate, World};

/// Every byte of a response, less the lines that may differ between an answer and its replay.
fn comparable(response: &[u8]) -> Vec<u8> {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    let head = std::str::from_utf8(&response[..end]).unwrap();
    let varies = |line: &&str| {
        ["date:", "idempotent-replayed:", "idempotency-key-lifetime:"]
            .iter()
            .any(|name| line.starts_with(name))
    };
    let mut bytes: Vec<u8> =
        head.split("\r\n").filter(|line| !varies(line)).collect::<Vec<_>>().join("\n").into();
    bytes.extend_from_slice(&response[end..]);
    bytes
}

#[tokio::test]
async fn a_replay_is_the_same_on_the_wire_byte_for_byte() {
    for kind in KINDS {
        let (world, gate) = (World::new(), Gate::new());
        let work = Work { gate: gate.clone(), effects: world.effects.clone(), reply_bytes: 0 };
        let mut server = Server::start(kind, world.layer(), work).await;
        gate.let_one_pass();
        let request = request("k", "100 \u{20ac}");
        let first = server.exchange_bytes(&request).await;
        let again = server.exchange_bytes(&request).await;
        let marked = |response: &[u8]| {
            String::from_utf8_lossy(response).contains("\r\nidempotent-replayed: true\r\n")
        };
        assert!(!marked(&first) && marked(&again), "{kind:?}");
        assert_eq!(comparable(&first), comparable(&again), "{kind:?}");
        assert_eq!(world.effects.count(), 1);
    }
}

#[tokio::test]
async fn refusals_are_the_same_behind_both_kinds_of_service() {
    for kind in KINDS {
        let (world, gate) = (World::new(), Gate::new());
        let work = Work { gate: gate.clone(), effects: world.effects.clone(), reply_bytes: 0 };
        let layer = world.layer().max_body_bytes(10);
        let mut server = Server::start(kind, layer, work).await;
        let whole = String::from_utf8(request("k", "100 eur")).unwrap();
        let without = |line: &str| whole.replace(line, "").into_bytes();
        for (request, problem) in [
            (without("idempotency-key: k\r\n"), (400, "key-missing")),
            (without("authorization: Bearer alice\r\n"), (401, "scope-missing")),
            (request("", "100 eur"), (400, "key-invalid")),
            (request("a, b", "100 eur"), (400, "key-repeated")),
            (request("k\r\nIdempotency-Key: k", "100 eur"), (400, "key-repeated")),
            (request(&"k".repeat(256), "100 eur"), (400, "key-invalid")),
            (request("k", "100 euros and more"), (413, "body-too-large")),
        ] {
            let answer = server.exchange(&request).await;
            assert_eq!(answer.problem(), (problem.0, problem.1.into()), "{kind:?}");
        }
        assert_eq!((world.effects.count(), world.records().await), (0, 0));
        gate.let_one_pass();
        assert_eq!(server.exchange(&request("k", "100 eur")).await.status, 201);
        let other = server.exchange(&request("k", "101 eur")).await;
        assert_eq!(other.problem(), (422, "key-reused".into()));
    }
}

#[tokio::test]
async fn trailers_are_replayed_on_the_wire() {
    let world = World::new();
    let service = service_fn(|_: Request<RequestBody<Incoming>>| async {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let frames = [Frame::data(Bytes::from_static(b"message")), Frame::trailers(trailers)];
        let frames = futures_util::stream::iter(frames.map(Ok::<_, Infallible>));
        let response = Response::builder().header("trailer", "grpc-status");
        Ok::<_, Infallible>(response.body(StreamBody::new(frames)).unwrap())
    });
    let mut server = Server::serve(world.layer().layer(service)).await;
    let request = String::from_utf8(request("k", "100 eur")).unwrap();
    let request = request.replace("connection: close", "te: trailers\r\nconnection: close, te");
    let first = server.exchange_bytes(request.as_bytes()).await;
    let again = server.exchange_bytes(request.as_bytes()).await;
    let text = String::from_utf8(first.clone()).unwrap();
    assert!(text.ends_with("7\r\nmessage\r\n0\r\ngrpc-status: 0\r\n\r\n"), "{text}");
    assert_eq!(comparable(&first), comparable(&again));
}
