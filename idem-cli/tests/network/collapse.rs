//! One effect per key, whatever the calls.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::support::http;
use crate::{Bench, charge, charged, key, send_charge, totals};

#[test]
fn calls_with_one_key_are_one_effect() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let address = network.address;
    let ids: BTreeSet<_> = (0..3).map(|_| charged(address, &key(1), 500)).collect();
    charged(address, &key(2), 500);
    assert_eq!(ids.len(), 1);

    let view = http::get(address, "/ledger");
    assert_eq!(
        (&view["calls"], &view["effects"], &view["refused"]),
        (&4.into(), &2.into(), &0.into())
    );
    let entry = &view["data"][0];
    assert_eq!(entry["id"].as_str(), ids.first().map(String::as_str));
    assert_eq!(entry["key"], key(1));
    assert_eq!(
        (&entry["caller"], &entry["amount"], &entry["currency"], &entry["calls"]),
        (&"shop".into(), &500.into(), &"eur".into(), &3.into())
    );
    assert!(entry["created"].as_u64().unwrap() > 1_700_000_000);

    let calls = http::get(address, "/ledger/calls");
    let keys: Vec<_> = calls["data"].as_array().unwrap().iter().map(|call| &call["key"]).collect();
    assert_eq!(json!(keys), json!([key(1), key(1), key(1), key(2)]));
}

#[test]
fn the_reply_repeats_what_was_asked_for() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let body = json!({
        "caller": "shop", "amount": 9_007_199_254_740_993_u64, "currency": "JPY",
        "description": "zwölf\nÄpfel", "reference": "o-1",
    });
    let send = || {
        let headers = [("Idempotency-Key", &*key(1))];
        let body = body.to_string();
        http::send(network.address, "POST", "/charges", &headers, body.as_bytes()).reply().unwrap()
    };
    let reply = send().json();
    for (name, value) in body.as_object().unwrap() {
        assert_eq!(&reply[name], value);
    }
    assert_eq!((&reply["calls"], &send().json()["calls"]), (&1.into(), &2.into()));
}

#[test]
fn another_payload_under_a_used_key_is_a_call_without_an_effect() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let first = charged(network.address, &key(1), 500);
    let reply = charge(network.address, &key(1), 501).unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (422, "key_reused"));
    let reply = send_charge(network.address, &key(1), "other", 500).reply().unwrap();
    assert_eq!(reply.status, 422);
    assert_eq!(charged(network.address, &key(1), 500), first);
    assert_eq!(totals(network.address), (4, 1, 0));
}

#[test]
fn the_ledger_can_be_read_for_one_caller_and_in_pages() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let address = network.address;
    for (number, caller) in [(1, "a"), (2, "b c"), (3, "a"), (3, "a")] {
        send_charge(address, &key(number), caller, 500).reply().unwrap();
    }
    let numbers = |path: &str| {
        let view = http::get(address, path);
        let data: Vec<_> =
            view["data"].as_array().unwrap().iter().map(|e| e["key"].clone()).collect();
        (view["calls"].as_u64().unwrap(), json!(data), view["has_more"].as_bool().unwrap())
    };
    assert_eq!(numbers("/ledger?caller=a"), (3, json!([key(1), key(3)]), false));
    assert_eq!(numbers("/ledger?caller=b%20c"), (1, json!([key(2)]), false));
    assert_eq!(numbers("/ledger?caller=c"), (0, json!([]), false));
    assert_eq!(numbers("/ledger?caller=a&limit=1"), (3, json!([key(1)]), true));
    assert_eq!(numbers("/ledger?after=1&limit=1"), (4, json!([key(2)]), true));
    assert_eq!(numbers("/ledger/calls?caller=a&after=1"), (3, json!([key(3), key(3)]), false));
    assert_eq!(numbers("/ledger/calls?limit=3"), (4, json!([key(1), key(2), key(3)]), true));
}

#[test]
fn two_hundred_calls_at_once_on_twenty_keys_are_twenty_effects() {
    let bench = Bench::new();
    let network = bench.start(&[]);
    let address = network.address;
    let answers: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..200)
            .map(|number| {
                scope.spawn(move || (number % 20, charged(address, &key(number % 20), 500)))
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let mut ids = BTreeMap::<_, BTreeSet<_>>::new();
    for (number, id) in answers {
        ids.entry(number).or_default().insert(id);
    }
    assert!(ids.values().all(|ids| ids.len() == 1), "one key, two charges: {ids:?}");
    assert_eq!(totals(address), (200, 20, 0));
    let view = http::get(address, "/ledger");
    let entries = view["data"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["calls"] == 10));
    let listed: BTreeSet<_> = entries.iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert!(
        listed.iter().copied().eq(ids
            .values()
            .flatten()
            .map(String::as_str)
            .collect::<BTreeSet<_>>())
    );
}
