//! The HTTP sink behind a relay, against a server in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{self, HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use idem_core::outbox::{MemoryOutbox, MessageState, Outbox, OutboxMessage};
use idem_core::relay::{Relay, Sink};
use idem_relay::hyper_util::client::legacy::connect::HttpConnector;
use idem_relay::idem_retry::{Announced, classify::HttpRules, one_layer};
use idem_relay::{HttpSink, HttpSinkError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower_service::Service;

/// What arrived.
#[derive(Default)]
struct Received(Mutex<Vec<(HeaderMap, Bytes)>>);

impl Received {
    fn headers(&self, topic: &str) -> Vec<HeaderMap> {
        let received = self.0.lock().unwrap();
        let of_topic = received.iter().filter(|(headers, _)| headers["idem-topic"] == topic);
        of_topic.map(|(headers, _)| headers.clone()).collect()
    }
}

/// Answers by the topic, and differently the first time.
async fn receive(
    State(received): State<Arc<Received>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let topic = headers["idem-topic"].to_str().unwrap_or_default().to_owned();
    let first = received.headers(&topic).is_empty();
    received.0.lock().unwrap().push((headers, body));
    match (topic.as_str(), first) {
        ("busy", true) => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "0")]).into_response(),
        ("poison", _) => StatusCode::UNPROCESSABLE_ENTITY.into_response(),
        ("stored failure", _) => {
            let replayed = [("idempotent-replayed", "true")];
            (StatusCode::INTERNAL_SERVER_ERROR, replayed).into_response()
        }
        ("named otherwise", _) => {
            (StatusCode::INTERNAL_SERVER_ERROR, [("x-seen-before", "true")]).into_response()
        }
        // The connection breaks after the message was taken: the relay cannot know.
        ("cut", true) => panic!("as the test wants it"),
        ("long answer", _) => vec![b'x'; 1024 * 1024].into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn server() -> (String, Arc<Received>) {
    let received = Arc::new(Received::default());
    let app = Router::new().route("/events", post(receive)).with_state(received.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, received)
}

fn relay(outbox: &MemoryOutbox, sink: impl Sink) -> Relay {
    let relay = Relay::new(Arc::new(outbox.clone()), sink);
    relay.waits(Duration::from_millis(1), Duration::from_millis(1))
}

#[tokio::test]
async fn a_message_arrives_whole_with_its_id_as_the_key() {
    let (url, received) = server().await;
    let outbox = MemoryOutbox::new();
    let message = OutboxMessage::json("order.created", &HashMap::from([("id", 7)])).unwrap();
    let message = message.ordered_by("order 7 é").unwrap().with_header("X-Trace", "abc").unwrap();
    outbox.push(message.clone()).unwrap();
    let sink = HttpSink::new(&url).unwrap().with_header("Authorization", "Bearer s3cret").unwrap();
    assert!(!format!("{sink:?}").contains("s3cret"));
    assert_eq!(relay(&outbox, sink).once().await.unwrap().sent, 1);
    let received = received.0.lock().unwrap();
    let (headers, body) = &received[0];
    assert_eq!(body, message.payload());
    assert_eq!(headers["idempotency-key"], format!("\"{}\"", message.id()).as_str());
    assert_eq!(headers["idem-ordering-key"].as_bytes(), "order 7 é".as_bytes());
    assert_eq!(headers["retry-attempt"], "1;max=100");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["x-trace"], "abc");
    assert_eq!(headers["authorization"], "Bearer s3cret");
}

#[tokio::test]
async fn what_fails_is_sent_again_under_the_same_key_and_poison_is_not() {
    let (url, received) = server().await;
    let outbox = MemoryOutbox::new();
    for topic in ["busy", "poison", "stored failure", "cut", "long answer"] {
        outbox.push(OutboxMessage::new(topic, "x").unwrap()).unwrap();
    }
    let bad_header = OutboxMessage::new("bad header", "x").unwrap();
    outbox.push(bad_header.with_header("Host", "elsewhere").unwrap()).unwrap();
    let relay = relay(&outbox, HttpSink::new(&url).unwrap());
    while outbox.backlog().await.unwrap().waiting > 0 {
        relay.once().await.unwrap();
    }
    for topic in ["busy", "cut"] {
        let tries = received.headers(topic);
        assert_eq!(tries.len(), 2, "{topic}");
        assert_eq!(tries[0]["idempotency-key"], tries[1]["idempotency-key"], "{topic}");
        assert_eq!(tries[1]["retry-attempt"], "2;max=100", "{topic}");
    }
    assert_eq!(received.headers("long answer").len(), 1);
    let dead = outbox.list(MessageState::Dead, None, 10).await.unwrap().entries;
    let dead: Vec<_> = dead
        .iter()
        .map(|entry| (entry.message.topic(), entry.reason.as_deref().unwrap(), entry.failures))
        .collect();
    let stored = "HTTP 500, which the receiver has stored";
    let header = "HTTP does not take its headers";
    assert_eq!(
        dead,
        [("poison", "HTTP 422", 1), ("stored failure", stored, 1), ("bad header", header, 1)]
    );
}

#[tokio::test]
async fn a_receiver_that_is_away_is_tried_again() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    drop(listener);
    let outbox = MemoryOutbox::new();
    outbox.push(OutboxMessage::new("t", "x").unwrap()).unwrap();
    let relay = relay(&outbox, HttpSink::new(&url).unwrap()).max_attempts(3);
    while outbox.backlog().await.unwrap().waiting > 0 {
        relay.once().await.unwrap();
    }
    let dead = &outbox.list(MessageState::Dead, None, 1).await.unwrap().entries[0];
    assert_eq!(dead.reason.as_deref(), Some("the receiver cannot be reached"));
    assert_eq!(dead.failures, 3);
}

/// Notes which attempt it makes a connection in.
#[derive(Clone)]
struct Noting(HttpConnector, Arc<Mutex<Vec<Option<Announced>>>>);

impl Service<http::Uri> for Noting {
    type Response = <HttpConnector as Service<http::Uri>>::Response;
    type Error = <HttpConnector as Service<http::Uri>>::Error;
    type Future = <HttpConnector as Service<http::Uri>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        self.1.lock().unwrap().push(one_layer::current());
        self.0.call(uri)
    }
}

#[tokio::test]
async fn what_is_called_in_a_delivery_is_inside_the_relays_own_attempt() {
    let (url, _) = server().await;
    let outbox = MemoryOutbox::new();
    outbox.push(OutboxMessage::new("t", "x").unwrap()).unwrap();
    let seen = Arc::default();
    let connector = Noting(HttpConnector::new(), Arc::clone(&seen));
    let sink = HttpSink::with_connector(&url, connector).unwrap();
    assert_eq!(relay(&outbox, sink).once().await.unwrap().sent, 1);
    assert_eq!(*seen.lock().unwrap(), [Some(Announced { attempt: 1, max: 100 })]);
}

#[tokio::test]
async fn an_answer_whose_body_never_comes_is_an_answer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).await;
            *counted.lock().unwrap() += 1;
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await;
            open.push(connection);
        }
    });
    let outbox = MemoryOutbox::new();
    outbox.push(OutboxMessage::new("t", "x").unwrap()).unwrap();
    let relay = relay(&outbox, HttpSink::new(&url).unwrap());
    assert_eq!(relay.once().await.unwrap().sent, 1);
    assert_eq!(*requests.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_receiver_with_names_of_its_own_is_understood() {
    let (url, received) = server().await;
    let outbox = MemoryOutbox::new();
    outbox.push(OutboxMessage::new("named otherwise", "x").unwrap()).unwrap();
    let rules = HttpRules::new().replayed_header("x-seen-before".parse().unwrap());
    let sink = HttpSink::new(&url).unwrap().rules(rules);
    assert_eq!(relay(&outbox, sink).once().await.unwrap().dead, 1);
    assert_eq!(received.headers("named otherwise").len(), 1);
}

#[test]
fn a_url_or_a_header_that_cannot_be_used_is_refused_at_once() {
    for url in
        ["http://user:pw@host/", "", "events", "/events", "ftp://host/", "https://host/", "http://"]
    {
        assert_eq!(HttpSink::new(url).err(), Some(HttpSinkError::Url), "{url}");
    }
    for name in [
        "",
        "a b",
        "Host",
        "Idempotency-Key",
        "Retry-Attempt",
        "content-length",
        "Transfer-Encoding",
    ] {
        let sink = HttpSink::new("http://host/").unwrap();
        assert_eq!(sink.with_header(name, "x").err(), Some(HttpSinkError::Header), "{name}");
    }
    let sink = HttpSink::new("http://host/").unwrap();
    assert_eq!(sink.with_header("a", "b\nc").err(), Some(HttpSinkError::Header));
}
