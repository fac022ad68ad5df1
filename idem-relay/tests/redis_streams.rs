//! The Redis sink behind a relay, against a real server.

use std::collections::HashMap;
use std::sync::Arc;

use idem_core::outbox::{MemoryOutbox, MessageState, Outbox, OutboxMessage};
use idem_core::relay::Relay;
use idem_relay::RedisStreamSink;
use idem_relay::redis::{self, aio::MultiplexedConnection, cmd};

fn url() -> String {
    std::env::var("IDEM_REDIS_URL").expect("set IDEM_REDIS_URL to a Redis server for tests")
}

async fn plain() -> MultiplexedConnection {
    let client = redis::Client::open(url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// A stream of the test's own, empty.
async fn stream(test: &str) -> String {
    let stream = format!("idem-relay-test:{test}:{}", std::process::id());
    cmd("DEL").arg(&stream).query_async::<()>(&mut plain().await).await.unwrap();
    stream
}

type Entry = (String, Vec<(String, Vec<u8>)>);

async fn entries(stream: &str) -> Vec<HashMap<String, Vec<u8>>> {
    let range = cmd("XRANGE").arg(stream).arg("-").arg("+").to_owned();
    let entries: Vec<Entry> = range.query_async(&mut plain().await).await.unwrap();
    entries.into_iter().map(|(_, fields)| fields.into_iter().collect()).collect()
}

#[tokio::test]
async fn an_entry_holds_the_whole_message_and_its_id() {
    let stream = stream("whole").await;
    let outbox = MemoryOutbox::new();
    let keyed = OutboxMessage::new("order.created", vec![0, 255, 10]).unwrap();
    let keyed = keyed.ordered_by("order 7").unwrap().with_header("n", "v \"é\"").unwrap();
    let free = OutboxMessage::new("other", "").unwrap();
    outbox.push(keyed.clone()).unwrap();
    outbox.push(free.clone()).unwrap();
    let sink = RedisStreamSink::connect(&url(), stream.as_str()).await.unwrap();
    let relay = Relay::new(Arc::new(outbox), sink.keeping_about(1_000)).concurrency(1);
    assert_eq!(relay.once().await.unwrap().sent, 2);
    let entries = entries(&stream).await;
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["id"], keyed.id().to_string().as_bytes());
    assert_eq!(entries[0]["topic"], b"order.created");
    assert_eq!(entries[0]["ordering-key"], b"order 7");
    assert_eq!(entries[0]["payload"], [0, 255, 10]);
    let headers: Vec<(String, String)> = serde_json::from_slice(&entries[0]["headers"]).unwrap();
    assert_eq!(headers, keyed.headers());
    assert_eq!(entries[1]["id"], free.id().to_string().as_bytes());
    assert!(!entries[1].contains_key("ordering-key"));
    cmd("DEL").arg(&stream).query_async::<()>(&mut plain().await).await.unwrap();
}

#[tokio::test]
async fn an_error_of_the_server_is_tried_again() {
    let stream = stream("taken").await;
    cmd("SET").arg(&stream).arg("a string").query_async::<()>(&mut plain().await).await.unwrap();
    let outbox = MemoryOutbox::new();
    outbox.push(OutboxMessage::new("t", "x").unwrap()).unwrap();
    let sink = RedisStreamSink::connect(&url(), stream.as_str()).await.unwrap();
    let relay = Relay::new(Arc::new(outbox.clone()), sink);
    assert_eq!(relay.once().await.unwrap().failed, 1);
    let waiting = &outbox.list(MessageState::Waiting, None, 1).await.unwrap().entries[0];
    assert_eq!(waiting.reason.as_deref(), Some("Redis answered WRONGTYPE"));
    cmd("DEL").arg(&stream).query_async::<()>(&mut plain().await).await.unwrap();
}
