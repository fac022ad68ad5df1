use proptest::prelude::*;

use super::{Comparison, Fingerprint, Fingerprints, MAX_NESTING, Material, Scheme};

fn json(body: &str) -> Fingerprint {
    Fingerprint::of_json(body)
}

#[test]
fn meaning_counts_and_spelling_does_not() {
    let first = json(r#"{"a":[1,{"b":null,"c":"é"}],"d":true}"#);
    for same in [
        " {\"d\" : true,\n\t\"a\":[ 1.0 ,{\"c\":\"\\u00e9\",\"b\":null}] }\r\n",
        r#"{"\u0061":[10e-1,{"b":null,"c":"é"}],"d":true}"#,
    ] {
        assert_eq!(json(same), first, "{same}");
    }
    for other in [
        r#"{"a":[{"b":null,"c":"é"},1],"d":true}"#,
        r#"{"a":[1,{"b":null,"c":"é"}],"d":false}"#,
        r#"{"a":[1,{"b":null,"c":"e"}],"d":true}"#,
        r#"{"a":[1,{"b":"null","c":"é"}],"d":true}"#,
        r#"{"a":[1],"d":true}"#,
    ] {
        assert_ne!(json(other), first, "{other}");
    }
}

#[test]
fn values_of_different_types_never_agree() {
    let all = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "\"\"",
        "\"1\"",
        "\"null\"",
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "[null]",
        "[1,2]",
        "[[1],2]",
        "[12]",
        "{\"a\":1}",
        "{\"a\":\"1\"}",
        "[\"a\",1]",
        "{\"a\":{}}",
        "{\"\":null}",
        "\"\\u0000\"",
    ];
    for (at, one) in all.iter().enumerate() {
        for other in &all[at + 1..] {
            assert_ne!(json(one), json(other), "{one} {other}");
        }
    }
}

#[test]
fn what_has_no_single_meaning_is_hashed_as_it_is() {
    for body in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "--1",
        "nul",
        "truee",
        "\u{feff}1",
        "1 2",
        "\"\t\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "'a'",
        "\"\\u+123\"",
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"\\u0061\":2}",
        "[1e9223372036854775808]",
        "NaN",
        "{a:1}",
        "\"\\ud800\\u0041\"",
    ] {
        assert_eq!(json(body), Fingerprint::of_bytes(body), "{body}");
    }
    let bytes = b"\"\xff\"";
    assert_eq!(Fingerprint::of_json(bytes), Fingerprint::of_bytes(bytes));
}

#[test]
fn nesting_is_bounded_however_deep() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let (fits, over) = (nested(MAX_NESTING), nested(MAX_NESTING + 1));
    assert_ne!(json(&fits), Fingerprint::of_bytes(&fits));
    assert_eq!(json(&over), Fingerprint::of_bytes(&over));
    for depth in [10_000, 1_000_000] {
        let bomb = nested(depth);
        assert_eq!(json(&bomb), Fingerprint::of_bytes(&bomb));
    }
}

#[test]
fn surrogate_pairs_and_member_order_above_the_basic_plane() {
    assert_eq!(json(r#""\ud83d\ude00""#), json("\"😀\""));
    assert_eq!(json("{\"😀\":1,\"\u{fb33}\":2}"), json("{\"\u{fb33}\":2,\"\\ud83d\\ude00\":1}"));
}

#[test]
fn every_part_of_a_request_counts_and_none_runs_into_the_next() {
    let base = || Material::new("POST", "/v1/charges").content_type("text/plain").body("ab");
    let all = [
        base(),
        Material::new("PATCH", "/v1/charges").content_type("text/plain").body("ab"),
        Material::new("POST", "/v2/charges").content_type("text/plain").body("ab"),
        Material::new("POST", "/v1/charge").content_type("text/plain").body("sab"),
        Material::new("POST/v1", "/charges").content_type("text/plain").body("ab"),
        base().query(""),
        base().query("ab"),
        base().query("ab").body(""),
        Material::new("POST", "/v1/charges").body("ab"),
        Material::new("POST", "/v1/charges").content_type("").body("ab"),
        base().content_type("text/html"),
        base().body("a"),
        base().body(""),
        base().header("x", []),
        base().header("x", [&b""[..]]),
        base().header("x", [&b"ab"[..]]),
        base().header("x", [&b"a"[..], b"b"]),
        base().header("x", [&b"b"[..], b"a"]),
        base().header("y", [&b"ab"[..]]),
    ];
    for (at, one) in all.iter().enumerate() {
        for (other_at, other) in all.iter().enumerate() {
            assert_eq!(one.fingerprint() == other.fingerprint(), at == other_at, "{at} {other_at}");
        }
    }
    let parameters = base().content_type(" Text/Plain ; charset=utf-8").fingerprint();
    assert_eq!(parameters, base().fingerprint());
    let unordered = base().header("B", [&b"1"[..]]).header("a", [&b"2"[..]]);
    let ordered = base().header("A", [&b"2"[..]]).header("b", [&b"1"[..]]);
    assert_eq!(unordered.fingerprint(), ordered.fingerprint());
}

#[test]
fn json_is_told_by_its_essence() {
    let of = |content_type: &str, body: &str| {
        // The essence itself counts, so compare two bodies under the same one.
        Material::new("POST", "/").content_type(content_type).body(body).fingerprint()
    };
    for json in ["application/json", "APPLICATION/JSON; charset=utf-8", "application/x+json"] {
        assert_eq!(of(json, "[1]"), of(json, " [1.0]"), "{json}");
    }
    for other in ["text/plain", "application/x-www-form-urlencoded", "application/jsonl"] {
        assert_ne!(of(other, "[1]"), of(other, " [1.0]"), "{other}");
    }
}

fn form(boundary: &str, quoted: bool, body: &str) -> Fingerprint {
    let content_type = if quoted {
        format!("multipart/form-data; boundary=\"{boundary}\"")
    } else {
        format!("multipart/form-data; boundary={boundary}")
    };
    let body = body.replace("BOUNDARY", boundary).replace('\n', "\r\n");
    Material::new("POST", "/").content_type(&content_type).body(&body).fingerprint()
}

#[test]
fn the_boundary_of_a_form_does_not_count_and_its_parts_do() {
    let body = "--BOUNDARY\nA: 1\n\none\n--BOUNDARY\nB: 2\n\ntwo\n--BOUNDARY--\n";
    let first = form("x1", false, body);
    assert_eq!(form("another", false, body), first);
    assert_eq!(form("quo ted".replace(' ', "-").as_str(), true, body), first);
    assert_eq!(form("x1", false, body.trim_end()), first);
    for other in [
        "--BOUNDARY\nA: 1\n\none\n--BOUNDARY\nB: 2\n\ntwo \n--BOUNDARY--\n",
        "--BOUNDARY\nB: 2\n\ntwo\n--BOUNDARY\nA: 1\n\none\n--BOUNDARY--\n",
        "--BOUNDARY\nA: 1\n\none\n--BOUNDARY--\n",
        "--BOUNDARY\nA: 1\nC: 3\n\none\n--BOUNDARY\nB: 2\n\ntwo\n--BOUNDARY--\n",
    ] {
        assert_ne!(form("x1", false, other), first, "{other}");
    }
}

#[test]
fn a_form_that_two_readers_may_cut_differently_is_hashed_as_it_is() {
    for body in [
        "preamble\n--BOUNDARY\nA: 1\n\none\n--BOUNDARY--\n",
        "--BOUNDARY\nA: 1\n\none\n--BOUNDARY--\nepilogue",
        "--BOUNDARY\nA: 1\n\none\n",
        "--BOUNDARY \nA: 1\n\none\n--BOUNDARY--\n",
        "--BOUNDARY\nA: 1\n\none\n--BOUNDARYx\n--BOUNDARY--\n",
        "--BOUNDARY\nno blank line\n--BOUNDARY--\n",
        "--BOUNDARY--\n",
        "",
    ] {
        // Not cut into parts, so that the boundary counts (where there is one at all).
        let differs = form("x1", false, body) != form("x2", false, body);
        assert_eq!(differs, body.contains("BOUNDARY"), "{body}");
    }
    let without = Material::new("POST", "/").content_type("multipart/form-data").body("--a--");
    let with =
        Material::new("POST", "/").content_type("multipart/form-data; boundary=a;boundary=b");
    assert_eq!(without.fingerprint(), with.body("--a--").fingerprint());
}

#[test]
fn a_claim_compares_with_its_like() {
    let v1 = json("1");
    let v2 = Fingerprint::from_parts(Scheme::from_byte(2), [7; 32]);
    let prints = Fingerprints::new(v2).also(v1);
    assert_eq!(prints.primary(), v2);
    assert_eq!(prints.compare(v1), Comparison::Same);
    assert_eq!(prints.compare(json("2")), Comparison::Differs);
    assert_eq!(Fingerprints::new(v1).compare(v2), Comparison::UnknownScheme);
    let none = Fingerprints::not_compared();
    assert_eq!(none.compare(v2), Comparison::NotComparable);
    assert_eq!(prints.compare(Fingerprint::not_compared()), Comparison::NotComparable);
}

/// A JSON value, and ways to write it.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Null,
    Bool(bool),
    /// digits * 10^exponent
    Number(i64, i16),
    Text(String),
    Array(Vec<Value>),
    Object(std::collections::BTreeMap<String, Value>),
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (any::<i64>(), any::<i16>()).prop_map(|(digits, exponent)| normal(digits, exponent)),
        ".{0,6}".prop_map(Value::Text),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(".{0,4}", inner, 0..5).prop_map(Value::Object),
        ]
    })
}

fn normal(mut digits: i64, exponent: i16) -> Value {
    let mut exponent = exponent / 2;
    if digits == 0 {
        return Value::Number(0, 0);
    }
    while digits % 10 == 0 {
        digits /= 10;
        exponent += 1;
    }
    Value::Number(digits, exponent)
}

/// Writes the value in a way that the random `choices` pick.
fn write(value: &Value, choices: &mut impl Iterator<Item = u8>, out: &mut String) {
    let mut pick = |most: u8| choices.next().unwrap_or(0) % (most + 1);
    out.push_str(["", " ", "\n", "\t\r"][pick(3) as usize]);
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Value::Number(digits, exponent) => match pick(3) {
            0 => out.push_str(&format!("{digits}e{exponent}")),
            1 => out.push_str(&format!("{digits}.000E{exponent:+}")),
            2 => out.push_str(&format!("{digits}00e{}", exponent - 2)),
            _ if *digits < 0 => {
                let digits = digits.unsigned_abs().to_string();
                let shift = *exponent as i64 + digits.len() as i64;
                out.push_str(&format!("-0.{digits}e{shift}"));
            }
            _ => {
                let digits = digits.to_string();
                let shift = *exponent as i64 + digits.len() as i64;
                out.push_str(&format!("0.{digits}e{shift}"));
            }
        },
        Value::Text(text) => quote(text, pick(1) == 1, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, choices, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let reversed = pick(1) == 1;
            let mut members: Vec<_> = members.iter().collect();
            if reversed {
                members.reverse();
            }
            out.push('{');
            for (at, (name, member)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quote(name, reversed, out);
                out.push(':');
                write(member, choices, out);
            }
            out.push('}');
        }
    }
    out.push_str(["", " "][usize::from(choices.next().unwrap_or(0) % 2)]);
}

fn quote(text: &str, escaped: bool, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        if escaped || character < ' ' || matches!(character, '"' | '\\') {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04X}"));
            }
        } else {
            out.push(character);
        }
    }
    out.push('"');
}

fn written(value: &Value, choices: &[u8]) -> String {
    let mut out = String::new();
    write(value, &mut choices.iter().copied(), &mut out);
    out
}

proptest! {
    #[test]
    fn ways_to_write_a_value_agree(
        value in value(),
        one in prop::collection::vec(any::<u8>(), 0..64),
        other in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let (one, other) = (written(&value, &one), written(&value, &other));
        prop_assert_eq!(json(&one), json(&other), "{} | {}", one, other);
        prop_assert_ne!(json(&one), Fingerprint::of_bytes(&one), "not canonical: {}", one);
    }

    #[test]
    fn different_values_never_agree(one in value(), other in value()) {
        let prints = json(&written(&one, &[])) == json(&written(&other, &[]));
        prop_assert_eq!(prints, one == other);
    }

    #[test]
    fn any_bytes_have_a_fingerprint(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let of = |content_type| {
            Material::new("POST", "/").content_type(content_type).body(&body).fingerprint()
        };
        prop_assert!(of("application/json").is_compared());
        prop_assert!(of("multipart/form-data; boundary=a").is_compared());
    }
}
