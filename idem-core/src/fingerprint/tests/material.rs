//! What of a request counts, and that no part runs into the next.

use super::*;

fn base() -> Material<'static> {
    Material::new("POST", "/v1/charges").content_type("text/plain").body("ab")
}

#[test]
fn every_part_counts() {
    let all = [
        base(),
        Material::new("PATCH", "/v1/charges").content_type("text/plain").body("ab"),
        Material::new("post", "/v1/charges").content_type("text/plain").body("ab"),
        Material::new("POST", "/v2/charges").content_type("text/plain").body("ab"),
        Material::new("POST", "/v1/charges/").content_type("text/plain").body("ab"),
        Material::new("POST", "/v1/%63harges").content_type("text/plain").body("ab"),
        Material::new("POST", "/V1/charges").content_type("text/plain").body("ab"),
        base().query("a=1&b=2"),
        base().query("b=2&a=1"),
        base().query("a=1&b=%32"),
        base().query("?a=1&b=2"),
        Material::new("POST", "/v1/charges?a=1&b=2").content_type("text/plain").body("ab"),
        base().content_type("text/html"),
        base().content_type("application/json"),
        base().content_type("application/octet-stream"),
        base().content_type("text"),
        base().content_type("TEXT"),
        base().body("a"),
        base().body("ab "),
        base().body("AB"),
        base().body("ab\0"),
    ];
    assert_all_differ(&all, Material::fingerprint);
}

#[test]
fn what_does_not_count() {
    let print = base().fingerprint();
    for content_type in [" Text/Plain ; charset=latin1", "text/plain;", "TEXT/PLAIN;;"] {
        assert_eq!(base().content_type(content_type).fingerprint(), print, "{content_type}");
    }
    assert_eq!(base().header("absent", []).fingerprint(), print);
    assert_eq!(base().fingerprints(), Fingerprints::new(print));
    assert_eq!(print.scheme(), Scheme::V1);
}

#[test]
fn absent_and_empty_differ_where_a_handler_can_tell() {
    let bare = || Material::new("POST", "/");
    let all = [
        bare(),
        bare().query(""),
        bare().content_type(""),
        bare().query("").content_type(""),
        bare().header("a", [&b""[..]]),
        bare().header("a", [&b""[..], b""]),
    ];
    assert_all_differ(&all, Material::fingerprint);
    // No byte is no byte.
    assert_eq!(bare().body("").fingerprint(), bare().fingerprint());
}

/// Cuts one string into method, path, query, content type and body in every way.
#[test]
fn no_part_runs_into_the_next() {
    let whole = "POST/a?b/c";
    let mut all = Vec::new();
    let ends = 0..=whole.len();
    for first in ends.clone() {
        for second in first..=whole.len() {
            for third in second..=whole.len() {
                for fourth in third..=whole.len() {
                    let cuts = [0, first, second, third, fourth, whole.len()];
                    let part = |at: usize| &whole[cuts[at]..cuts[at + 1]];
                    let material = || Material::new(part(0), part(1)).body(part(4));
                    all.push(material().query(part(2)).content_type(part(3)));
                    if part(2).is_empty() {
                        all.push(material().content_type(part(3)));
                    }
                    if part(3).is_empty() {
                        all.push(material().query(part(2)));
                    }
                    if part(2).is_empty() && part(3).is_empty() {
                        all.push(material());
                    }
                }
            }
        }
    }
    assert!(all.len() > 1_000, "{}", all.len());
    assert_all_differ(&all, Material::fingerprint);
}

#[test]
fn headers_count_by_name_and_values() {
    let values = |values: &'static [&'static str]| values.iter().map(|value| value.as_bytes());
    let all = [
        base(),
        base().header("x", values(&["ab"])),
        base().header("x", values(&["AB"])),
        base().header("x", values(&["a", "b"])),
        base().header("x", values(&["b", "a"])),
        base().header("x", values(&["a, b"])),
        base().header("x", values(&["ab", ""])),
        base().header("x", values(&["", "ab"])),
        base().header("xa", values(&["b"])),
        base().header("y", values(&["ab"])),
        base().header("a", values(&["x"])).header("b", values(&["y"])),
        base().header("a", values(&["y"])).header("b", values(&["x"])),
        base().header("a", values(&["x", "b", "y"])),
        base().header("x", values(&["ab"])).body(""),
        base().header("content-type", values(&["text/plain"])),
        base().header("content-type", values(&["text/plain; charset=latin1"])),
    ];
    assert_all_differ(&all, Material::fingerprint);
}

#[test]
fn the_order_of_header_names_does_not_count_and_that_of_values_does() {
    let one = base().header("B", [&b"1"[..]]).header("a", [&b"2"[..]]);
    let other = base().header("A", [&b"2"[..]]).header("b", [&b"1"[..]]);
    assert_eq!(one.fingerprint(), other.fingerprint());
    let twice = base().header("x", [&b"1"[..]]).header("X", [&b"2"[..]]);
    assert_eq!(twice.fingerprint(), base().header("x", [&b"1"[..], b"2"]).fingerprint());
    assert_ne!(twice.fingerprint(), base().header("x", [&b"2"[..], b"1"]).fingerprint());
}

#[test]
fn a_body_is_read_as_its_content_type_says() {
    let of = |content_type: &str, body: &str| {
        Material::new("POST", "/").content_type(content_type).body(body).fingerprint()
    };
    for json in
        ["application/json", "APPLICATION/Json; charset=utf-8", "application/merge-patch+json"]
    {
        assert_eq!(of(json, r#"{"a":1,"b":2}"#), of(json, r#" {"b":2.0,"a":1}"#), "{json}");
        assert_ne!(of(json, r#"{"a":1,"b":2}"#), of(json, r#"{"a":2,"b":1}"#), "{json}");
        assert_ne!(of(json, "{"), of(json, "{ "), "{json}");
    }
    for other in ["text/plain", "text/json", "application/x-www-form-urlencoded", "a/b/c+json", ""]
    {
        assert_ne!(of(other, "[1]"), of(other, "[1.0]"), "{other}");
    }
    let without = |body| Material::new("POST", "/").body(body).fingerprint();
    assert_ne!(without("[1]"), without("[1.0]"));
}

/// A body that counts as it is never agrees with one that is read, even when the bytes are those
/// of its canonical form.
#[test]
fn kinds_of_bodies_are_apart() {
    use crate::fingerprint::body::Body;
    use crate::fingerprint::hash::PartHash;
    use crate::fingerprint::multipart::Part;

    let parts = || vec![Part { headers: b"[]", content: b"[]" }];
    let all = [
        ("raw", Body::Raw(b"[]")),
        ("json", Body::Json(b"[]".to_vec())),
        ("form", Body::Form(Vec::new())),
        ("form", Body::Form(parts())),
        ("multipart", Body::Multipart { content_type: b"[]", bytes: b"[]" }),
        ("multipart", Body::Multipart { content_type: b"", bytes: b"[]" }),
    ];
    let mut seen = HashSet::new();
    for (kind, body) in all {
        let mut hash = PartHash::new("kinds");
        body.hash_into(&mut hash);
        assert!(seen.insert(hash.finish()), "{kind}");
    }
}

#[test]
fn a_request_and_an_input_are_apart() {
    let request = Material::new("", "").body("x").fingerprint();
    assert_all_differ(&[request, Fingerprint::of_bytes("x"), Fingerprint::of_bytes("")], |print| {
        *print
    });
}

#[test]
fn debug_shows_sizes_only() {
    let material = base().query("card=4242").header("authorization", [&b"secret"[..]]);
    let debug = format!("{material:?}");
    assert_eq!(debug, "Material { path_bytes: 11, headers: 1, body_bytes: 2, .. }");
}
