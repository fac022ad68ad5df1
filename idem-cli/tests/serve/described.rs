//! The API's description names every status and code that the server was seen to answer with, and
//! every code that it names is one that can be seen.

use std::collections::BTreeSet;

use idem_cli::wire::{Answer, Request};
use serde_json::Value;

use crate::support::payments::{Bench, TOKEN, answer, charge, start};

const OTHER_SECRET: &str = "Bearer sk_test_2";

struct Seen {
    document: Value,
    codes: BTreeSet<String>,
}

impl Seen {
    /// Panics unless the document describes this answer.
    #[track_caller]
    fn check(&mut self, path: &str, method: &str, status: u16, answer: &Answer) {
        assert_eq!(answer.status, status, "{method} {path}: {:?}", answer.text("content-type"));
        let described = &self.document["paths"][path][method]["responses"][status.to_string()];
        let description = described["description"].as_str();
        let description = description.unwrap_or_else(|| panic!("{method} {path}: no {status}"));
        if answer.text("content-type").as_deref() == Some("application/problem+json") {
            let code = answer.json()["error"]["code"].as_str().unwrap().to_owned();
            assert!(description.contains(&format!("`{code}`")), "{code}: {description}");
            assert!(described["content"]["application/problem+json"]["schema"].is_object());
            self.codes.insert(code);
        }
    }
}

fn post(key: &str, content_type: &str, body: &str) -> Request {
    Request::post("/v1/charges", content_type, body)
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("idempotency-key", key)
}

fn get(path: &str) -> Request {
    Request::get(path).header("authorization", format!("Bearer {TOKEN}"))
}

#[test]
fn every_answer_is_described_and_every_own_code_is_seen() {
    let mut bench = Bench::with_network(&["--refuse", "1"]);
    let server = bench.serve(&["--max-body", "1KiB", "--max-reply", "600B"]);
    let document = answer(server.address, &Request::get("/openapi.json")).json();
    let mut seen = Seen { document, codes: BTreeSet::new() };
    let charges = "/v1/charges";
    let mut sends = |status: u16, request: &Request| {
        seen.check(charges, "post", status, &answer(server.address, request));
    };
    sends(402, &charge("declined", 1999));
    sends(201, &charge("k", 1999));
    sends(422, &charge("k", 2999));
    sends(401, &charge("k", 1999).without("authorization"));
    sends(400, &charge("k", 1999).without("idempotency-key"));
    sends(413, &post("k", "application/json", &" ".repeat(1_025)));
    sends(415, &charge("k2", 1999).header("content-encoding", "gzip"));
    sends(415, &post("k2", "text/plain", "x"));
    sends(415, &post("k2", "application/json; charset=utf-16", "{}"));
    for body in [
        r#"{"amount":1999,"currency":"eur""#,
        r#"{"amount":1999}"#,
        r#"{"amount":1999,"currency":"eur","ammount":1}"#,
        r#"{"amount":1999,"currency":"eur","description":7}"#,
        r#"{"amount":"1","currency":"eur"}"#,
        r#"{"amount":0,"currency":"eur"}"#,
        r#"{"amount":1,"currency":"euro"}"#,
    ] {
        sends(400, &post("k2", "application/json", body));
    }
    let form = "application/x-www-form-urlencoded";
    sends(400, &post("k2", form, "amount=1&amount=1&currency=eur"));
    let long = format!("amount=1&currency=eur&description={}", "x".repeat(600));
    sends(201, &post("long", form, &long));
    sends(410, &post("long", form, &long));

    bench.control(serde_json::json!({ "hold": true }));
    let running = start(server.address, &charge("running", 1999));
    bench.wait_for_held(1);
    sends(409, &charge("running", 1999));
    bench.control(serde_json::json!({ "hold": false }));
    let made = running.wait().unwrap();
    let one = format!("/v1/charges/{}", made.json()["id"].as_str().unwrap());

    let mut reads = |path: &str, status: u16, request: &Request| {
        seen.check(path, "get", status, &answer(server.address, request));
    };
    reads(charges, 200, &get("/v1/charges?limit=1"));
    reads(charges, 400, &get("/v1/charges?limit=0"));
    reads(charges, 400, &get("/v1/charges?limit=many"));
    reads(charges, 401, &Request::get(charges));
    reads(charges, 404, &get("/v1/charges?starting_after=ch_none"));
    let single = "/v1/charges/{id}";
    reads(single, 200, &get(&one));
    reads(single, 401, &Request::get(&one));
    reads(single, 404, &Request::get(&one).header("authorization", OTHER_SECRET));
    for path in ["/healthz", "/metrics", "/openapi.json"] {
        reads(path, 200, &Request::get(path));
    }
    bench.network.process.kill();
    reads(charges, 503, &get(charges));
    reads(single, 503, &get(&one));
    seen.check(charges, "post", 503, &answer(server.address, &charge("k3", 1999)));

    // The layer's own codes are for its own tests; a store that fails, for `store_faults`.
    let own = own_codes(&seen.document);
    let unseen: Vec<_> = own.difference(&seen.codes).collect();
    assert_eq!(unseen, ["store_unavailable"]);
}

/// The codes in the descriptions, but for those of the layer.
fn own_codes(document: &Value) -> BTreeSet<String> {
    let text = document["paths"].to_string();
    let codes = text.split('`').skip(1).step_by(2);
    codes
        .filter(|code| !code.starts_with("idempotency_") && code.contains('_'))
        .map(str::to_owned)
        .collect()
}
