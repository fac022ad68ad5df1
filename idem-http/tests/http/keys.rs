//! Keys, as clients send them (cases 72, 75 to 77, 80).

use axum::body::Body;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, request};
use idem_http::key_header::{KeyError, KeySyntax, parse_key, read_key};
use idem_http::problem::{Code, Problem};
use proptest::prelude::*;

use crate::support::app::charges;
use crate::support::{World, post, send};

#[tokio::test]
async fn the_bare_and_the_quoted_form_are_one_key() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let request = |key| post("/charges", key).body(Body::from("100")).unwrap();
    assert_eq!(send(&app, request("abc")).await.status, 201);
    for key in ["\"abc\"", "\"abc\";p=1", " abc ", "\"abc\" "] {
        assert!(send(&app, request(key)).await.is_replay(), "{key}");
    }
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn keys_that_sdks_send_are_taken_as_they_are() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let keys = [
        "stripe-node-retry-2ac8a5a4-8b5a-4d4e-9d8a-3f1e5a6b7c8d",
        "stainless-python-retry-7f6c1f9e-0b0f-4c6b-8f2d-9c1a2b3c4d5e",
        "0e7f6c1f-9e0b-0f4c-0b8f-2d9c1a2b3c4d",
        "order_7:capture",
        "aGVsbG8=",
    ];
    for key in keys {
        let request = || post("/charges", key).body(Body::from("100")).unwrap();
        assert!(!send(&app, request()).await.is_replay());
        assert!(send(&app, request()).await.is_replay(), "{key}");
    }
    assert_eq!(world.effects.count() as usize, keys.len());
}

#[tokio::test]
async fn keys_that_differ_in_any_byte_are_different() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let keys = [
        "8e03978e-40d5-43dd-bc93-6894a57f9324",
        "8E03978E-40D5-43DD-BC93-6894A57F9324",
        "\"a\"",
        "\"a \"",
        "\" a\"",
        "A",
    ];
    for key in keys {
        let answer = send(&app, post("/charges", key).body(Body::from("100")).unwrap()).await;
        assert!(!answer.is_replay(), "{key}");
    }
    assert_eq!(world.effects.count() as usize, keys.len());
}

#[tokio::test]
async fn two_callers_with_one_key_never_share_an_answer() {
    let world = World::new();
    let app = charges(world.layer(), &world.effects);
    let of = |caller: &str| -> request::Builder {
        Request::post("/charges").header("authorization", caller).header("idempotency-key", "k")
    };
    for (number, caller) in ["Bearer alice", "Bearer bob", "bearer alice"].iter().enumerate() {
        let answer = send(&app, of(caller).body(Body::from("100")).unwrap()).await;
        assert_eq!(&answer.body[..], format!("{} 100", number + 1).as_bytes());
    }
    let again = send(&app, of("Bearer alice").body(Body::from("100")).unwrap()).await;
    assert_eq!((again.is_replay(), &again.body[..]), (true, &b"1 100"[..]));
}

#[tokio::test]
async fn a_key_that_is_optional_and_absent_runs_each_time_and_leaves_no_record() {
    let world = World::new();
    let app = charges(world.layer().optional_key(), &world.effects);
    for number in 1..=2 {
        // Not even a caller is asked for.
        let answer = send(&app, Request::post("/charges").body(Body::from("100")).unwrap()).await;
        assert_eq!(&answer.body[..], format!("{number} 100").as_bytes());
        assert_eq!(answer.without_marks(), answer);
    }
    assert_eq!(world.records().await, 0);
    let bad = post("/charges", "a b").body(Body::from("100")).unwrap();
    assert_eq!(send(&app, bad).await.problem(), (400, "key-invalid".into()));
    let good = || post("/charges", "k").body(Body::from("100")).unwrap();
    assert!(!send(&app, good()).await.is_replay());
    assert!(send(&app, good()).await.is_replay());
    assert_eq!(world.effects.count(), 3);
}

#[tokio::test]
async fn strict_takes_quoted_keys_only() {
    let world = World::new();
    let app = charges(world.layer().strict(), &world.effects);
    let request = |key| post("/charges", key).body(Body::from("100")).unwrap();
    assert_eq!(send(&app, request("abc")).await.problem(), (400, "key-invalid".into()));
    assert_eq!(send(&app, request("\"abc\"")).await.status, 201);
}

/// A key as RFC 9651 writes a string (section 4.1.6).
fn serialized(key: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in key {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.push(b'"');
    text
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0x20..=0x7e_u8, 1..=255)
}

proptest! {
    #[test]
    fn every_key_can_be_sent_quoted(key in any_key(), parameter in "(;[a-z*][a-z0-9]{0,4}(=[0-9]{1,4})?){0,2}") {
        let mut value = serialized(&key);
        value.extend_from_slice(parameter.as_bytes());
        for syntax in [KeySyntax::BareOrQuoted, KeySyntax::QuotedOnly] {
            let parsed = parse_key(&value, syntax).unwrap();
            prop_assert_eq!(parsed.as_bytes(), &key[..]);
        }
    }

    #[test]
    fn a_bare_key_is_refused_or_is_the_key_that_its_quoted_form_names(value in any_key()) {
        // Blanks around the field value belong to HTTP.
        let key = value.trim_ascii();
        if let Ok(bare) = parse_key(&value, KeySyntax::BareOrQuoted) && key[0] != b'"' {
            prop_assert_eq!(bare.as_bytes(), key, "nothing is cut off");
            prop_assert_eq!(parse_key(&serialized(key), KeySyntax::QuotedOnly).unwrap(), bare);
        }
    }

    #[test]
    fn any_bytes_are_a_key_or_a_typed_error(value in proptest::collection::vec(any::<u8>(), 0..300)) {
        match parse_key(&value, KeySyntax::BareOrQuoted) {
            Ok(key) => {
                prop_assert!((1..=255).contains(&key.as_bytes().len()));
                prop_assert!(key.as_bytes().iter().all(|byte| (0x20..=0x7e).contains(byte)));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        prop_assert!(parse_key(&value, KeySyntax::QuotedOnly).is_err() || value.contains(&b'"'));
    }

    #[test]
    fn two_field_lines_are_never_one_key(one in "[a-z]{1,9}", two in "[a-z]{1,9}") {
        let name = HeaderName::from_static("idempotency-key");
        let mut headers = HeaderMap::new();
        headers.append(&name, one.parse().unwrap());
        headers.append(&name, two.parse().unwrap());
        let read = read_key(&headers, &name, KeySyntax::BareOrQuoted);
        prop_assert_eq!(read, Err(KeyError::Repeated));
    }

    #[test]
    fn every_problem_is_a_document_whatever_it_says(
        index in 0..Code::ALL.len(),
        detail in any::<String>(),
        base in "[ -~]{0,40}",
        millis in 0..100_000_000_u64,
        status in proptest::option::of(200..600_u16),
    ) {
        let code = Code::ALL[index];
        let mut problem = Problem::new(code).detail(detail.clone());
        problem = problem.retry_after(std::time::Duration::from_millis(millis));
        if let Some(status) = status {
            problem = problem.original_status(status);
        }
        let response: http::Response<bytes::Bytes> = problem.into_response(&base);
        let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        prop_assert_eq!(seconds, millis.div_ceil(1_000).max(1));
        prop_assert_eq!(
            &response.headers()["content-type"],
            HeaderValue::from_static("application/problem+json")
        );
        let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        prop_assert_eq!(&document["type"], &format!("{base}{}", code.name()));
        prop_assert_eq!(&document["detail"], &detail);
        prop_assert_eq!(&document["error"]["message"], &detail);
        prop_assert_eq!(&document["status"], response.status().as_u16());
        prop_assert_eq!(document.get("original_status").is_some(), status.is_some());
    }
}
