//! Each row of the design's HTTP table, by name.

use std::thread;

use idem_cli::wire::Request;
use serde_json::json;

use crate::support::payments::{
    Bench, answer, assert_same, charge, is_replay, problem, retried, start,
};

#[test]
fn key_missing_where_required() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let keyless = Request::post("/v1/charges", "application/json", "{}")
        .header("authorization", "Bearer sk_test_1");
    let refused = answer(server.address, &keyless);
    assert_eq!((refused.status, problem(&refused).as_str()), (400, "key-missing"));
    assert_eq!(bench.totals(), (0, 0));
}

#[test]
fn key_malformed_empty_too_long_or_sent_twice() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let too_long = "k".repeat(256);
    for (key, kind) in [
        (&b""[..], "key-invalid"),
        (b"   ", "key-invalid"),
        (b"\"\"", "key-invalid"),
        (b"\"half", "key-invalid"),
        (b"two words", "key-invalid"),
        (b"caf\xe9", "key-invalid"),
        (b"tab\there", "key-invalid"),
        (too_long.as_bytes(), "key-invalid"),
    ] {
        let request = charge("", 1999);
        let request = request.without("idempotency-key").header("Idempotency-Key", key);
        let refused = answer(server.address, &request);
        assert_eq!((refused.status, problem(&refused).as_str()), (400, kind), "{key:?}");
    }
    let twice = charge("k1", 1999).header("Idempotency-Key", "k2");
    let refused = answer(server.address, &twice);
    assert_eq!((refused.status, problem(&refused).as_str()), (400, "key-repeated"));
    assert_eq!(bench.totals(), (0, 0));

    let longest = "k".repeat(255);
    assert_eq!(answer(server.address, &charge(&longest, 1999)).status, 201);
    assert_eq!(bench.completed_attempt(&longest), 1);
}

#[test]
fn same_key_and_another_fingerprint() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    bench.control(json!({ "hold": true }));
    let first = start(server.address, &charge("k", 1999));
    bench.wait_for_held(1);
    let in_flight = answer(server.address, &charge("k", 2999));
    assert_eq!((in_flight.status, problem(&in_flight).as_str()), (422, "key-reused"));
    bench.control(json!({ "hold": false }));
    assert_eq!(first.wait().unwrap().status, 201);
    let finished = answer(server.address, &charge("k", 2999));
    assert_eq!((finished.status, problem(&finished).as_str()), (422, "key-reused"));
    assert!(is_replay(&answer(server.address, &charge("k", 1999))));
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn first_one_still_running() {
    let bench = Bench::new();
    let server = bench.serve(&["--lease", "3s"]);
    bench.control(json!({ "hold": true }));
    let first = start(server.address, &charge("k", 1999));
    bench.wait_for_held(1);
    let duplicate = answer(server.address, &charge("k", 1999));
    assert_eq!((duplicate.status, problem(&duplicate).as_str()), (409, "key-in-use"));
    let seconds: u64 = duplicate.text("retry-after").unwrap().parse().unwrap();
    assert!((1..=3).contains(&seconds), "{seconds}");
    bench.control(json!({ "hold": false }));
    let first = first.wait().unwrap();
    assert_same(&first, &retried(server.address, &charge("k", 1999)));
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn a_duplicate_may_wait_for_the_first_one() {
    let bench = Bench::new();
    let server = bench.serve(&["--wait", "60s"]);
    bench.control(json!({ "hold": true }));
    let first = start(server.address, &charge("k", 1999));
    bench.wait_for_held(1);
    let duplicates: Vec<_> = (0..5).map(|_| start(server.address, &charge("k", 1999))).collect();
    bench.control(json!({ "hold": false }));
    let first = first.wait().unwrap();
    assert_eq!(first.status, 201);
    for duplicate in duplicates {
        let duplicate = duplicate.wait().unwrap();
        assert_same(&first, &duplicate);
        assert!(is_replay(&duplicate));
    }
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn unknown_outcome_then_held() {
    let bench = Bench::with_network(&["--fail", "100"]);
    let server = bench.serve(&["--lease", "200ms", "--attempts", "2"]);
    let unknown = answer(server.address, &charge("k", 1999));
    assert_eq!((unknown.status, problem(&unknown).as_str()), (409, "outcome-unknown"));
    assert_eq!(unknown.text("retry-after"), None);
    // The next retry after the lease is the second attempt, and the last.
    let second = retried(server.address, &charge("k", 1999));
    assert_eq!((second.status, problem(&second).as_str()), (409, "outcome-unknown"));
    let held = retried(server.address, &charge("k", 1999));
    assert_eq!((held.status, problem(&held).as_str()), (409, "outcome-held"));
    assert_eq!(held.text("retry-after"), None);
    assert_eq!(bench.totals(), (2, 0));
    let keys = bench.downstream_keys();
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn scope_missing() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let nobody = charge("k", 1999).without("authorization");
    for request in [
        nobody.clone(),
        nobody.clone().header("authorization", "Bearer "),
        nobody.clone().header("authorization", "Digest x"),
    ] {
        let refused = answer(server.address, &request);
        assert_eq!((refused.status, problem(&refused).as_str()), (401, "scope-missing"));
        assert_eq!(refused.text("www-authenticate").as_deref(), Some("Bearer"));
    }
    let listed = answer(server.address, &Request::get("/v1/charges"));
    assert_eq!((listed.status, problem(&listed).as_str()), (401, "unauthenticated"));
    assert_eq!(bench.totals(), (0, 0));
}

#[test]
fn completed_is_replayed_byte_for_byte() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let first = answer(server.address, &charge("k", 1999));
    assert_eq!(first.status, 201);
    assert!(!is_replay(&first));
    let cookies = first.headers.iter().filter(|(name, _)| name == "set-cookie").count();
    assert_eq!(cookies, 2);
    assert!(first.headers.iter().any(|(_, value)| value == b"Caf\xe9 idem"));
    assert!(!first.body.is_ascii());

    // The same, also from another process and after a restart.
    let other = bench.serve(&[]);
    for server in [&server, &other] {
        let replay = answer(server.address, &charge("k", 1999));
        assert!(is_replay(&replay));
        assert_same(&first, &replay);
        let lifetime = replay.text("idempotency-key-lifetime").unwrap();
        let lifetime: u64 = lifetime.parse().unwrap();
        assert!((80_000..86_400).contains(&lifetime), "{lifetime}");
    }
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn reply_was_over_the_limit() {
    let bench = Bench::new();
    let server = bench.serve(&["--max-reply", "100B"]);
    let first = answer(server.address, &charge("k", 1999));
    assert_eq!(first.status, 201);
    assert!(first.json()["id"].is_string(), "the whole reply is delivered once");
    let again = answer(server.address, &charge("k", 1999));
    assert_eq!(problem(&again), "reply-not-kept");
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn body_over_the_limit() {
    let bench = Bench::new();
    let server = bench.serve(&["--max-body", "1KiB"]);
    let padded = |bytes: usize| {
        let body = format!(r#"{{"amount":1999,"currency":"eur"}}{}"#, " ".repeat(bytes - 32));
        assert_eq!(body.len(), bytes);
        Request::post("/v1/charges", "application/json", body)
            .header("authorization", "Bearer sk_test_1")
            .header("idempotency-key", "k")
    };
    let refused = answer(server.address, &padded(1_025));
    assert_eq!((refused.status, problem(&refused).as_str()), (413, "body-too-large"));
    assert_eq!(bench.inspect("k"), None);
    assert_eq!(bench.totals(), (0, 0));
    assert_eq!(answer(server.address, &padded(1_024)).status, 201);
}

#[test]
fn other_methods_pass_with_a_key_or_without() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    assert_eq!(answer(server.address, &charge("k", 1999)).status, 201);
    let list = Request::get("/v1/charges").header("authorization", "Bearer sk_test_1");
    let listed = answer(server.address, &list.clone().header("idempotency-key", "k"));
    assert_eq!(listed.status, 200);
    assert!(!is_replay(&listed));
    assert_eq!(listed.body, answer(server.address, &list).body);
}

#[test]
fn many_duplicates_on_two_servers_make_one_charge() {
    let bench = Bench::new();
    let servers = [bench.serve(&[]), bench.serve(&[])];
    bench.control(json!({ "delay_ms": 200 }));
    let addresses = [servers[0].address, servers[1].address];
    let answers: Vec<_> = thread::scope(|scope| {
        let copies: Vec<_> = (0..32)
            .map(|copy| scope.spawn(move || retried(addresses[copy % 2], &charge("k", 1999))))
            .collect();
        copies.into_iter().map(|copy| copy.join().unwrap()).collect()
    });
    for other in &answers[1..] {
        assert_same(&answers[0], other);
    }
    assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1);
    assert_eq!(bench.totals(), (1, 1));
}
