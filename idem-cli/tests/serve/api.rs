//! The API itself: what is charged, what is refused, and what can be read back.

use idem_cli::wire::Request;
use serde_json::json;

use crate::support::payments::{
    Bench, TOKEN, answer, assert_same, charge, charge_of, is_replay, problem,
};

fn form(key: &str, body: &str) -> Request {
    Request::post("/v1/charges", "application/x-www-form-urlencoded", body)
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("idempotency-key", key)
}

#[test]
fn a_charge_takes_json_and_forms_as_sdks_send_them() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let as_json = answer(server.address, &charge("json", 1999));
    let as_form = answer(
        server.address,
        &form(
            "form",
            "amount=1999&currency=EUR&description=Th%C3%A9&payment_method=pm_card_visa\
             &metadata[order]=6735&expand[]=customer",
        ),
    );
    assert_eq!((as_json.status, as_form.status), (201, 201));
    let (json, form) = (as_json.json(), as_form.json());
    for member in ["amount", "currency", "description", "status"] {
        assert_eq!(json[member], form[member], "{member}");
    }
    assert_eq!((&json["amount"], &json["currency"]), (&json!(1999), &json!("eur")));
    assert_ne!(json["id"], form["id"]);
    let location = format!("/v1/charges/{}", form["id"].as_str().unwrap());
    assert_eq!(as_form.text("location"), Some(location));
    assert_eq!(bench.totals(), (2, 2));
}

#[test]
fn json_that_means_the_same_is_the_same_request() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let send = |body: &str| {
        let request = Request::post("/v1/charges", "application/json", body)
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("idempotency-key", "k");
        answer(server.address, &request)
    };
    let first = send(r#"{"amount":1999,"currency":"eur"}"#);
    assert_eq!(first.status, 201);
    assert_same(&first, &send(r#"{ "currency": "\u0065ur", "amount": 1.999e3 }"#));
    assert_eq!(send(r#"{"amount":1999,"currency":"eur","description":null}"#).status, 422);
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn a_bare_key_and_a_quoted_one_are_the_same() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let first = answer(server.address, &charge("order-7", 1999));
    let quoted = answer(server.address, &charge("\"order-7\"", 1999));
    assert_same(&first, &quoted);
    assert!(is_replay(&quoted));
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn two_callers_never_see_each_other() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let mine = answer(server.address, &charge("k", 1999));
    let theirs = answer(server.address, &charge_of("sk_test_2", "k", 1999));
    assert_eq!((mine.status, theirs.status), (201, 201));
    assert!(!is_replay(&theirs));
    let id = |answer: &idem_cli::wire::Answer| answer.json()["id"].as_str().unwrap().to_owned();
    assert_ne!(id(&mine), id(&theirs));

    let read = |token: &str, path: &str| {
        let request = Request::get(path).header("authorization", format!("Bearer {token}"));
        answer(server.address, &request)
    };
    let listed = read(TOKEN, "/v1/charges").json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(listed["data"][0]["id"], id(&mine).as_str());
    let path = format!("/v1/charges/{}", id(&mine));
    assert_eq!(read(TOKEN, &path).json()["amount"], 1999);
    let hidden = read("sk_test_2", &path);
    assert_eq!((hidden.status, problem(&hidden).as_str()), (404, "resource-missing"));
    assert_eq!(bench.ledger_of("sk_test_2").effects, 1);
}

#[test]
fn basic_and_bearer_with_one_token_are_one_caller() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let first = answer(server.address, &charge("k", 1999));
    let basic = charge("k", 1999)
        .without("authorization")
        .header("authorization", "Basic c2tfdGVzdF8xOg==");
    assert_same(&first, &answer(server.address, &basic));
    assert_eq!(bench.totals(), (1, 1));
}

#[test]
fn a_refused_request_costs_no_key() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    for (number, (body, kind)) in [
        ("amount=-1&currency=eur", "amount-out-of-range"),
        ("amount=19.99&currency=eur", "parameter-invalid-integer"),
        ("amount=1999&currency=xxx", "currency-unknown"),
        ("amount=1999", "parameter-missing"),
        ("currency=eur", "parameter-missing"),
        ("amount=1&amount=2&currency=eur", "parameter-duplicated"),
        ("amount=%&currency=eur", "body-invalid"),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{number}");
        let refused = answer(server.address, &form(&key, body));
        assert_eq!((refused.status, problem(&refused).as_str()), (400, kind), "{body}");
        assert_eq!(refused.json()["error"]["type"], "invalid_request_error");
        assert_eq!(bench.inspect(&key), None);
        let corrected = answer(server.address, &form(&key, "amount=1999&currency=eur"));
        assert_eq!(corrected.status, 201);
        assert!(!is_replay(&corrected));
    }
    assert_eq!(bench.totals(), (7, 7));
}

#[test]
fn a_decline_is_an_answer_and_is_replayed() {
    let bench = Bench::with_network(&["--refuse", "1"]);
    let server = bench.serve(&[]);
    let declined = answer(server.address, &charge("k", 1999));
    assert_eq!((declined.status, problem(&declined).as_str()), (402, "card-declined"));
    let error = &declined.json()["error"];
    assert_eq!((&error["type"], &error["code"]), (&json!("card_error"), &json!("card_declined")));
    let again = answer(server.address, &charge("k", 1999));
    assert_same(&declined, &again);
    assert!(is_replay(&again));
    let ledger = bench.ledger_of(TOKEN);
    assert_eq!((ledger.calls, ledger.effects, ledger.refused), (1, 0, 1));
    assert_eq!(answer(server.address, &charge("another", 1999)).status, 201);
}

#[test]
fn the_list_can_be_read_in_parts() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    for amount in 1..=5 {
        assert_eq!(answer(server.address, &charge(&format!("k{amount}"), amount)).status, 201);
    }
    let part = |query: &str| {
        let request = Request::get(format!("/v1/charges{query}"));
        answer(server.address, &request.header("authorization", format!("Bearer {TOKEN}")))
    };
    let amounts = |list: &serde_json::Value| -> Vec<u64> {
        let data = list["data"].as_array().unwrap().iter();
        data.map(|charge| charge["amount"].as_u64().unwrap()).collect()
    };
    let all = part("").json();
    assert_eq!((amounts(&all), &all["has_more"]), (vec![1, 2, 3, 4, 5], &json!(false)));
    let first = part("?limit=2&type=card").json();
    assert_eq!((amounts(&first), &first["has_more"]), (vec![1, 2], &json!(true)));
    let last = first["data"][1]["id"].as_str().unwrap();
    let rest = part(&format!("?starting_after={last}")).json();
    assert_eq!((amounts(&rest), &rest["has_more"]), (vec![3, 4, 5], &json!(false)));
    assert_eq!(part("?starting_after=ch_none").status, 404);
    for (query, kind) in [
        ("?limit=many", "query-invalid"),
        ("?limit=-1", "query-invalid"),
        ("?limit=0", "parameter-invalid"),
        ("?limit=2001", "parameter-invalid"),
    ] {
        let refused = part(query);
        assert_eq!((refused.status, problem(&refused).as_str()), (400, kind), "{query}");
    }
    assert_eq!(part("?limit=0").json()["error"]["param"], "limit");
    assert_eq!(amounts(&part("?limit=2000").json()).len(), 5);
}

#[test]
fn health_description_and_what_is_not_there() {
    let bench = Bench::new();
    let server = bench.serve(&["--retention", "2h", "--reconcile-every", "1h"]);
    let get = |path: &str| answer(server.address, &Request::get(path));
    let health = get("/healthz").json();
    assert_eq!(health["status"], "ok");
    let loops: Vec<&String> = health["loops"].as_object().unwrap().keys().collect();
    assert_eq!(loops, ["lapsed-meter", "reconciler", "sweeper"]);
    let records: Vec<&String> = health["records"].as_object().unwrap().keys().collect();
    assert_eq!(records, ["held", "not_resumable", "stuck"]);
    let document = get("/openapi.json").json();
    let post = &document["paths"]["/v1/charges"]["post"];
    assert_eq!(post["x-idempotency"]["lifetime"], "PT1H45M");
    assert_eq!(document["x-idempotency-catalog"][0]["class"], "keyed");
    let missing = get("/v1/refunds");
    assert_eq!((missing.status, problem(&missing).as_str()), (404, "not-found"));
    let wrong = answer(server.address, &Request::post("/healthz", "text/plain", ""));
    assert_eq!((wrong.status, problem(&wrong).as_str()), (405, "method-not-allowed"));
}
