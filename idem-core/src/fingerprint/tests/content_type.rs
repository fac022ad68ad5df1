//! What a Content-Type says, and where it says nothing.

use crate::fingerprint::content_type::{boundary, essence, is_json};

fn essence_of(content_type: &str) -> Option<String> {
    essence(content_type.as_bytes()).map(|essence| String::from_utf8(essence).unwrap())
}

#[test]
fn the_essence_is_type_and_subtype_in_lower_case() {
    for (content_type, expected) in [
        ("application/json", "application/json"),
        ("Application/JSON;charset=utf-8", "application/json"),
        (" \ttext/plain \t; charset=\"a;b/c\"", "text/plain"),
        ("text/plain;", "text/plain"),
        (
            "application/vnd.api+json; ext=\"https://jsonapi.org/ext/atomic\"",
            "application/vnd.api+json",
        ),
        ("a/b;;;garbage", "a/b"),
    ] {
        assert_eq!(essence_of(content_type).as_deref(), Some(expected), "{content_type}");
    }
    for content_type in [
        "",
        ";",
        "json",
        "/",
        "a/",
        "/b",
        "a/b/c",
        "a /b",
        "a/b c",
        "a/b, c/d",
        "text/plain, a",
        "a/b\n",
        "é/a",
    ] {
        assert_eq!(essence_of(content_type), None, "{content_type}");
    }
}

#[test]
fn json_is_told_by_the_essence() {
    for json in ["application/json", "application/merge-patch+json", "image/x+json"] {
        assert!(is_json(json.as_bytes()), "{json}");
    }
    for other in [
        "",
        "text/json",
        "application/jsonl",
        "application/json-seq",
        "application/json+xml",
        "application/xjson",
    ] {
        assert!(!is_json(other.as_bytes()), "{other}");
    }
}

#[test]
fn a_boundary_that_is_beyond_doubt_is_found() {
    let seventy = "b".repeat(70);
    for (parameters, expected) in [
        ("; boundary=x1", "x1"),
        (";boundary=x1", "x1"),
        (" ; \t boundary=x1 \t", "x1"),
        ("; BOUNDARY=Ab", "Ab"),
        ("; boundary=\"x1\"", "x1"),
        ("; boundary=\"----=_Part_0:1.2/(3)?,'+\"", "----=_Part_0:1.2/(3)?,'+"),
        (
            "; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
            "----WebKitFormBoundary7MA4YWxkTrZu0gW",
        ),
        ("; charset=utf-8; boundary=x1; a=\"b; boundary=c\"", "x1"),
        ("; a=\"boundary=y\"; boundary=x1;", "x1"),
        ("; ;; boundary=x1 ;; ", "x1"),
        ("; xboundary=y; boundary=x1; boundaryx=z", "x1"),
        (&format!("; boundary={seventy}"), &seventy),
    ] {
        let content_type = format!("multipart/form-data{parameters}");
        assert_eq!(boundary(content_type.as_bytes()), Some(expected.as_bytes()), "{parameters}");
    }
}

#[test]
fn a_boundary_in_doubt_is_none() {
    let seventy_one = format!("; boundary={}", "b".repeat(71));
    for parameters in [
        "",
        ";",
        "; boundary",
        "; boundary=",
        "; boundary=\"\"",
        "; boundary=\"x1",
        "; boundary=x1\"",
        "; boundary=\"x1\"y",
        "; boundary=\"x\\1\"",
        "; boundary=\"x 1\"",
        "; boundary=x 1",
        "; boundary = x1",
        "; boundary= x1",
        "; boundary =x1",
        "; boundary=x1, boundary=x2",
        "; boundary=x1; boundary=x1",
        "; boundary=x1; Boundary=x2",
        "; boundary=x1; boundary*=utf-8''x2",
        "; boundary*0=x; boundary*1=1; boundary=x",
        "; boundary=x=1",
        "; boundary=x/1",
        // Who knows escapes finds the quotation mark still open, who does not finds `x1`.
        "; a=\"\\\"; boundary=x1",
        "; a=\"b\\c\"; boundary=x1",
        "; boundary=x1; garbage",
        "; garbage; boundary=x1",
        "; =; boundary=x1",
        "; a=\"b\\\"; boundary=x1; c=\"; boundary=x2",
        "; boundary=\"x\u{e9}\"",
        "; boundary=x*1",
        ", boundary=x1",
        seventy_one.as_str(),
    ] {
        let content_type = format!("multipart/form-data{parameters}");
        assert_eq!(boundary(content_type.as_bytes()), None, "{parameters}");
    }
}
