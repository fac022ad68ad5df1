use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Long enough never to matter.
const PATIENCE: Duration = Duration::from_secs(60);

fn request() -> ChargeRequest {
    ChargeRequest {
        caller: "shop".into(),
        amount: 5,
        currency: "eur".into(),
        description: None,
        reference: None,
    }
}

/// A server that reads one call, writes these bytes and closes. Says what it read.
async fn scripted(reply: Vec<u8>) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut call = Vec::new();
        let is_whole = |call: &[u8]| {
            call.ends_with(b"}") || call.starts_with(b"GET") && call.ends_with(b"\r\n\r\n")
        };
        while !is_whole(&call) {
            let read = stream.read_buf(&mut call).await.unwrap();
            assert!(read > 0, "the client hung up");
        }
        // The client may stop to read before the end.
        let _ = stream.write_all(&reply).await;
        String::from_utf8(call).unwrap()
    });
    (url, server)
}

fn reply(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} -\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

async fn charge(scripted_reply: Vec<u8>) -> Result<Charge, NetworkError> {
    let (url, server) = scripted(scripted_reply).await;
    let outcome = CardNetwork::new(&url, PATIENCE).unwrap().charge(&request(), "key-1").await;
    let call = server.await.unwrap();
    assert!(call.starts_with("POST /charges HTTP/1.1\r\n"), "{call}");
    assert!(call.contains("\r\nidempotency-key: key-1\r\n"), "{call}");
    outcome
}

fn why(outcome: Result<Charge, NetworkError>) -> UnknownOutcome {
    match outcome {
        Err(NetworkError::Unknown(why)) => why,
        other => panic!("not unknown: {other:?}"),
    }
}

const CHARGE: &str =
    r#"{"id":"ch_1","created":7,"calls":1,"caller":"shop","amount":5,"currency":"eur"}"#;

#[tokio::test]
async fn a_confirmed_charge_is_returned() {
    let charge = charge(reply(200, CHARGE)).await.unwrap();
    assert_eq!((charge.id.as_str(), charge.calls), ("ch_1", 1));
}

#[tokio::test]
async fn a_confirmation_that_cannot_be_trusted_is_an_unknown_outcome() {
    let other_amount = CHARGE.replace("\"amount\":5", "\"amount\":6");
    let long = format!("{CHARGE}{}", " ".repeat(MAX_REPLY_BYTES));
    for body in ["", "{}", "charged", &other_amount, &long] {
        let outcome = charge(reply(200, body)).await;
        assert!(matches!(why(outcome), UnknownOutcome::Unreadable));
    }
}

#[tokio::test]
async fn a_definite_no_must_be_in_the_networks_own_words() {
    let declined = r#"{"error":{"code":"card_declined","decline":"de_1"}}"#;
    let outcome = charge(reply(402, declined)).await;
    assert!(matches!(outcome, Err(NetworkError::Declined { id }) if id == "de_1"));
    let reused = r#"{"error":{"code":"key_reused"}}"#;
    let outcome = charge(reply(422, reused)).await;
    assert!(
        matches!(outcome, Err(NetworkError::Refused { status: 422, code }) if code == "key_reused")
    );
    for (status, body) in [(402, "pay!"), (402, reused), (400, "<html>"), (404, reused)] {
        let outcome = charge(reply(status, body)).await;
        assert!(matches!(why(outcome), UnknownOutcome::Status(seen) if seen == status));
    }
}

#[tokio::test]
async fn a_failure_of_the_server_is_an_unknown_outcome() {
    for status in [500, 502, 503, 504, 302] {
        let outcome = charge(reply(status, r#"{"error":{"code":"failed"}}"#)).await;
        assert!(matches!(why(outcome), UnknownOutcome::Status(seen) if seen == status));
    }
}

#[tokio::test]
async fn a_connection_lost_before_the_end_of_the_answer_is_an_unknown_outcome() {
    let whole = reply(200, CHARGE);
    for length in [0, 1, 20, whole.len() - 1] {
        let outcome = charge(whole[..length].to_vec()).await;
        assert!(matches!(why(outcome), UnknownOutcome::ConnectionLost(_)), "{length} bytes");
    }
}

#[tokio::test]
async fn no_connection_means_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let outcome = CardNetwork::new(&url, PATIENCE).unwrap().charge(&request(), "key-1").await;
    assert!(matches!(outcome, Err(NetworkError::NotSent(_))), "{outcome:?}");
}

#[tokio::test]
async fn no_answer_in_time_is_an_unknown_outcome() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let timeout = Duration::from_millis(200);
    let outcome = CardNetwork::new(&url, timeout).unwrap().charge(&request(), "key-1").await;
    assert!(matches!(why(outcome), UnknownOutcome::TimedOut(after) if after == timeout));
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_refused_unsent() {
    let network = CardNetwork::new("http://127.0.0.1:1", PATIENCE).unwrap();
    let outcome = network.charge(&request(), "key\r\nx: y").await;
    assert!(matches!(outcome, Err(NetworkError::Refused { status: 400, .. })), "{outcome:?}");
}

#[tokio::test]
async fn the_callers_name_is_escaped_in_the_ledgers_address() {
    let empty = r#"{"calls":0,"effects":0,"refused":0,"has_more":false,"data":[]}"#;
    let (url, server) = scripted(reply(200, empty)).await;
    let network = CardNetwork::new(&format!("{url}/"), PATIENCE).unwrap();
    let view = network.ledger(Some("a&b=ü ~"), 3).await.unwrap();
    assert_eq!(view.data.len(), 0);
    let call = server.await.unwrap();
    assert!(
        call.starts_with("GET /ledger?limit=2000&after=3&caller=a%26b%3D%C3%BC%20~ HTTP/1.1\r\n"),
        "{call}"
    );
}

#[test]
fn only_plain_addresses_are_urls_of_a_network() {
    for url in ["http://127.0.0.1:4000", "http://[::1]:4000/", "http://localhost:4000"] {
        assert!(CardNetwork::new(url, PATIENCE).is_ok(), "{url}");
    }
    for url in [
        "",
        "127.0.0.1:4000",
        "https://127.0.0.1:4000",
        "http://user:secret@127.0.0.1:4000",
        "http://127.0.0.1:4000/v1",
        "http://127.0.0.1:4000/?a=b",
        "http://",
    ] {
        let error = CardNetwork::new(url, PATIENCE).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{url}");
    }
}
