//! Bad input: a clear answer, and nothing counted.

use crate::support::http::{self, Reply};
use crate::support::process::Server;
use crate::{Bench, key, totals};

const BODY: &str = r#"{"caller":"shop","amount":500,"currency":"eur"}"#;

fn post(network: &Server, headers: &[(&str, &str)], body: &str) -> Reply {
    http::send(network.address, "POST", "/charges", headers, body.as_bytes()).reply().unwrap()
}

#[test]
fn a_call_needs_exactly_one_key_in_the_form_of_a_uuid() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let good = key(1);
    let with = |keys: &[&str]| {
        let headers: Vec<_> = keys.iter().map(|key| ("Idempotency-Key", *key)).collect();
        let reply = post(&network, &headers, BODY);
        (reply.status, reply.code())
    };
    let refused = (400, "invalid_key".to_owned());
    assert_eq!(with(&[]), refused);
    assert_eq!(with(&[&good, &good]), refused);
    for bad in ["", "a-client's-own-key", &good[1..], &format!("{good}0"), &good.replace('-', "0")]
    {
        assert_eq!(with(&[bad]), refused, "{bad:?}");
    }
    assert_eq!(with(&[&format!("é{}", &good[2..])]), refused);
    assert_eq!(totals(network.address), (0, 0, 0));
    assert_eq!(with(&[&good]).0, 200);
}

#[test]
fn a_body_that_is_no_charge_is_refused() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let deep = "[".repeat(10_000);
    let long = BODY.replace("shop", &"x".repeat(256));
    for body in [
        "",
        "charge!",
        "{}",
        &deep,
        &long,
        r#"{"caller":"shop","amount":-500,"currency":"eur"}"#,
        r#"{"caller":"shop","amount":0,"currency":"eur"}"#,
        r#"{"caller":"shop","amount":5.5,"currency":"eur"}"#,
        r#"{"caller":"shop","amount":500,"currency":"euros"}"#,
        r#"{"caller":"shop","amount":500,"currency":"eur","amuont":5}"#,
        r#"{"caller":"shop","amount":500,"amount":501,"currency":"eur"}"#,
    ] {
        let reply = post(&network, &[("Idempotency-Key", &key(1))], body);
        assert_eq!((reply.status, reply.code().as_str()), (400, "invalid_request"), "{body:.60}");
    }
    let huge = BODY.replace("shop", &"x".repeat(20_000));
    let reply = post(&network, &[("Idempotency-Key", &key(1))], &huge);
    assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
    assert_eq!(totals(network.address), (0, 0, 0));
}

#[test]
fn a_call_that_breaks_off_is_no_call() {
    let bench = Bench::new();
    let mut network = bench.start(&[]);
    let whole = format!("{BODY}   ");
    let headers = [("Idempotency-Key", &*key(1)), ("Content-Length", &*whole.len().to_string())];
    drop(http::send(network.address, "POST", "/charges", &headers, BODY.as_bytes()));
    // A clean end has finished whatever had begun.
    network.process.signal("TERM");
    assert!(network.process.wait().success());
    assert_eq!(totals(bench.start(&[]).address), (0, 0, 0));
}

#[test]
fn what_is_not_there_is_said_so() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let ask = |method, path| {
        let reply = http::send(network.address, method, path, &[], b"").reply().unwrap();
        (reply.status, reply.code())
    };
    assert_eq!(ask("GET", "/"), (404, "not_found".into()));
    assert_eq!(ask("GET", "/charges"), (405, "method_not_allowed".into()));
    assert_eq!(ask("GET", "/ledger?colour=red"), (400, "invalid_request".into()));
    assert_eq!(ask("GET", "/ledger?after=-1"), (400, "invalid_request".into()));
    assert_eq!(http::get(network.address, "/healthz")["status"], "ok");
}
