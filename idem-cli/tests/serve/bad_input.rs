//! Input that no client should send: a typed error each time, and nothing is charged.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use idem_cli::wire::Request;

use crate::support::payments::{Bench, TOKEN, answer, charge, is_replay, problem};

fn post(body: impl Into<Vec<u8>>) -> Request {
    Request::post("/v1/charges", "application/json", body)
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("idempotency-key", "k")
}

#[test]
fn malformed_json_is_compared_as_it_is_and_refused_by_the_handler() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    for body in
        [&b"{"[..], b"", b"\xff\xfe", b"{\"amount\":1999,\"amount\":1,\"currency\":\"eur\"}"]
    {
        let refused = answer(server.address, &post(body));
        assert_eq!((refused.status, problem(&refused).as_str()), (400, "body-invalid"));
        assert_eq!(bench.inspect("k"), None);
    }
    assert_eq!(answer(server.address, &charge("k", 1999)).status, 201);
    // Once the key is used, a body that cannot be read is another request like any other.
    assert_eq!(answer(server.address, &post("{")).status, 422);
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn json_nested_ten_thousand_deep() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let deep = |name: &str| {
        let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
        format!(r#"{{"amount":1999,"currency":"eur","{name}":{open}{close}}}"#)
    };
    let refused = answer(server.address, &post(deep("description")));
    assert_eq!((refused.status, problem(&refused).as_str()), (400, "body-invalid"));
    let passed_over = answer(server.address, &post(deep("metadata")));
    assert_eq!(passed_over.status, 201);
    assert!(is_replay(&answer(server.address, &post(deep("metadata")))));
    assert_eq!(answer(server.address, &charge("k", 1999)).status, 422);
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn another_content_type_is_refused() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let text = Request::post("/v1/charges", "text/plain", "amount=1999&currency=eur")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("idempotency-key", "k");
    let refused = answer(server.address, &text);
    assert_eq!((refused.status, problem(&refused).as_str()), (415, "content-type-unsupported"));
    assert_eq!(bench.totals(), (0, 0));
}

#[test]
fn a_body_that_is_encoded_is_refused_by_name() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    for (encoding, refused) in
        [("gzip", true), ("identity, br", true), ("zstd", true), ("Identity", false), ("", false)]
    {
        let request = charge("k", 1999).header("content-encoding", encoding);
        let answer = answer(server.address, &request);
        if refused {
            let kind = problem(&answer);
            assert_eq!((answer.status, kind.as_str()), (415, "content-encoding-unsupported"));
            assert_eq!(answer.text("accept-encoding").as_deref(), Some("identity"));
            assert_eq!(bench.inspect("k"), None);
        } else {
            assert_eq!(answer.status, 201, "{encoding}");
        }
    }
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn a_token_that_is_not_text_names_a_caller_like_any_other() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let odd =
        charge("k", 1999).without("authorization").header("authorization", b"Bearer \xff\xfe");
    let first = answer(server.address, &odd);
    assert_eq!(first.status, 201);
    assert!(is_replay(&answer(server.address, &odd)));
    assert!(!is_replay(&answer(server.address, &charge("k", 1999))));
}

#[test]
fn control_bytes_in_the_key_never_reach_the_store() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    for key in [&b"a\0b"[..], b"a\x01b", b"a\x7fb"] {
        let mut request = charge("", 1999).without("idempotency-key").bytes(server.address);
        let at = request.windows(2).position(|two| two == b"\r\n").unwrap() + 2;
        request.splice(at..at, [b"Idempotency-Key: ", key, b"\r\n"].concat());
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(&request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        // The HTTP parser refuses some of them before any layer sees them.
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{key:?}");
    }
    assert_eq!(bench.totals(), (0, 0));
    assert_eq!(answer(server.address, &charge("k", 1999)).status, 201);
}
