//! Forms by their parts: the boundary does not count, and nothing that counts is lost with it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::fingerprint::multipart::{Part, parts};

const TWO_PARTS: &str = "--BOUNDARY\nContent-Disposition: form-data; name=\"a\"\n\none\n\
    --BOUNDARY\nContent-Disposition: form-data; name=\"b\"\n\ntwo\n--BOUNDARY--\n";

/// The form with CRLF for line ends, between these boundaries.
fn written(form: &str, boundary: &str) -> Vec<u8> {
    form.replace('\n', "\r\n").replace("BOUNDARY", boundary).into_bytes()
}

fn content_type(boundary: &str) -> String {
    format!("multipart/form-data; boundary=\"{boundary}\"")
}

fn print(content_type: &str, body: &[u8]) -> Fingerprint {
    Material::new("POST", "/upload").content_type(content_type).body(body).fingerprint()
}

fn of(form: &str, boundary: &str) -> Fingerprint {
    print(&content_type(boundary), &written(form, boundary))
}

#[test]
fn the_boundary_does_not_count() {
    let first = of(TWO_PARTS, "x1");
    let (seventy, dashes) = ("y".repeat(70), "-".repeat(26));
    for boundary in
        ["x2", "X1", "----WebKitFormBoundary7MA4YWxk", "a:b=(c)/d?", "-", &dashes, &seventy]
    {
        assert_eq!(of(TWO_PARTS, boundary), first, "{boundary}");
    }
    let body = written(TWO_PARTS, "x1");
    for content_type in [
        "Multipart/Form-Data; boundary=x1",
        "multipart/form-data;BOUNDARY=x1",
        "multipart/form-data; charset=utf-8; boundary=\"x1\"",
    ] {
        assert_eq!(print(content_type, &body), first, "{content_type}");
    }
    // Whether a line end follows the last delimiter is no part of the form.
    assert_eq!(print(&content_type("x1"), body.strip_suffix(b"\r\n").unwrap()), first);
}

#[test]
fn the_parts_count() {
    let forms = [
        TWO_PARTS.to_owned(),
        TWO_PARTS.replace("one", "One"),
        TWO_PARTS.replace("one", ""),
        TWO_PARTS.replace("one", "one\n"),
        TWO_PARTS.replace("one", "\none"),
        TWO_PARTS.replace("one", "one "),
        TWO_PARTS.replace("one", "on").replace("two", "etwo"),
        TWO_PARTS.replace("one", "two").replacen("two", "one", 2).replacen("one", "two", 1),
        TWO_PARTS.replace("name=\"a\"", "name=\"c\""),
        TWO_PARTS.replace("name=\"a\"", "name=a"),
        TWO_PARTS.replace("name=\"a\"", "name=\"a\"; filename=\"f\""),
        TWO_PARTS.replace("name=\"a\"", "name=\"a\"\nContent-Type: text/plain"),
        TWO_PARTS.replacen("Content-D", "content-d", 1),
        TWO_PARTS.replacen("Content-Disposition: form-data; name=\"a\"\n", "", 1),
        TWO_PARTS.replacen("--BOUNDARY", "--BOUNDARY\nA: 1\n\n\n--BOUNDARY", 1),
        "--BOUNDARY\nContent-Disposition: form-data; name=\"a\"\n\none\n--BOUNDARY--\n".to_owned(),
        "--BOUNDARY\n\n\n--BOUNDARY--\n".to_owned(),
        "--BOUNDARY\n\n\n\n--BOUNDARY--\n".to_owned(),
        "--BOUNDARY\n\n\n--BOUNDARY\n\n\n--BOUNDARY--\n".to_owned(),
    ];
    assert_all_differ(&forms, |form| {
        let print = of(form, "x1");
        assert_eq!(print, of(form, "x2"), "cut into parts: {form}");
        print
    });
}

#[test]
fn a_part_is_a_header_block_and_a_content() {
    let body =
        written("--BOUNDARY\nA: 1\nB: 2\n\n one\n\ntwo \n--BOUNDARY\n\n--\n--BOUNDARY--", "b");
    let expected = [
        Part { headers: b"A: 1\r\nB: 2", content: b" one\r\n\r\ntwo " },
        Part { headers: b"", content: b"--" },
    ];
    assert_eq!(parts(b"multipart/form-data; boundary=b", &body).unwrap(), expected);
}

#[test]
fn a_form_that_two_readers_may_cut_differently_counts_as_it_is() {
    let crlf = |form: &str| written(form, "b");
    let forms = [
        crlf(""),
        crlf("no form"),
        crlf("--BOUNDARY--"),
        crlf("--BOUNDARY--\n"),
        crlf("--BOUNDARY\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\n\n--BOUNDARY--\n"),
        crlf("preamble\n--BOUNDARY\nA: 1\n\none\n--BOUNDARY--\n"),
        crlf("\n--BOUNDARY\nA: 1\n\none\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n\none\n--BOUNDARY--\nepilogue"),
        crlf("--BOUNDARY\nA: 1\n\none\n--BOUNDARY--\n\n"),
        crlf("--BOUNDARY\nA: 1\n\none\n--BOUNDARY-- "),
        crlf("--BOUNDARY\nA: 1\n\none\n--BOUNDARY--\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n\none"),
        crlf("--BOUNDARY\nA: 1\n\none\n"),
        crlf("--BOUNDARY\nA: 1\n\none\n--BOUNDARY"),
        crlf("--BOUNDARY\nA: 1\n\none\n--BOUNDARY\n"),
        crlf("--BOUNDARY\nA: 1\n\none\n--BOUNDARY-"),
        crlf("--BOUNDARY \nA: 1\n\none\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n\none\n--BOUNDARY \n\ntwo\n--BOUNDARY--\n"),
        crlf("--BOUNDARYA: 1\n\none\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\none\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n\none--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n\none\n--BOUNDARYx\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n\none --BOUNDARY two\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: --BOUNDARY\n\none\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n--BOUNDARY\n\none\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n\none\n---BOUNDARY\n--BOUNDARY--\n"),
        crlf("--BOUNDARY\nA: 1\n\none\n----BOUNDARY--\n--BOUNDARY--\n"),
        // Bare line feeds and returns, for which some readers look.
        b"--b\nA: 1\n\none\n--b--\n".to_vec(),
        b"--b\r\nA: 1\r\n\r\none\n--b\r\nB: 2\r\n\r\ntwo\r\n--b--\r\n".to_vec(),
        b"--b\r\nA: 1\r\n\r\none\r--b\r\nB: 2\r\n\r\ntwo\r\n--b--\r\n".to_vec(),
        b"--b\r\nA: 1\r\n\r\none\r\n--b\nB: 2\r\n\r\ntwo\r\n--b--\r\n".to_vec(),
        b"--b\r\nA: 1\r\n\r\none\r\n--b--\n".to_vec(),
        b"--b\r\nA: 1\n\none\r\n--b--\r\n".to_vec(),
    ];
    for form in &forms {
        let shown = String::from_utf8_lossy(form);
        assert_eq!(parts(b"multipart/form-data; boundary=b", form), None, "{shown}");
    }
    assert_all_differ(&forms, |form| print(&content_type("b"), form));
}

#[test]
fn the_same_bytes_under_another_boundary_are_another_body() {
    // Under `a` this is one part, under `b` it is two: a handler tells them apart.
    let body = b"--a\r\n\r\n--b\r\n\r\nx\r\n--b\r\n\r\ny\r\n--b--\r\n--a--\r\n";
    // Under `c` and `d` it is none, and what a forgiving handler makes of it is not known here.
    let content_types = ["a", "b", "c", "d"].map(content_type);
    assert_all_differ(&content_types, |content_type| print(content_type, body));

    let doubtful = [
        "multipart/form-data",
        "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-data; boundary=b; boundary=a",
        "multipart/form-data; boundary=\"a\\b\"",
        "multipart/form-data; boundary=\"a",
        "multipart/form-data; boundary=a b",
    ];
    assert_all_differ(&doubtful, |content_type| print(content_type, body));
}

#[test]
fn a_boundary_within_a_part_keeps_its_place() {
    // The part quotes a delimiter of the first boundary. Between other boundaries it is content,
    // between its own a reader that takes bare line feeds would cut there.
    let form = "--BOUNDARY\r\nA: 1\r\n\r\none\n--x1\r\nB: 2\r\n\r\ntwo\r\n--BOUNDARY--\r\n";
    let between = |boundary: &str| {
        print(&content_type(boundary), form.replace("BOUNDARY", boundary).as_bytes())
    };
    assert_eq!(between("x2"), between("x3"));
    assert_ne!(between("x1"), between("x2"));
}

#[test]
fn only_form_data_is_cut() {
    for essence in ["multipart/mixed", "multipart/related", "multipart/form-datax", "text/plain"] {
        let of = |boundary: &str| {
            print(&format!("{essence}; boundary={boundary}"), &written(TWO_PARTS, boundary))
        };
        assert_ne!(of("x1"), of("x2"), "{essence}");
    }
    let body = written(TWO_PARTS, "x1");
    // A multipart body is read by its boundary, so that it counts; a text is not.
    let mixed = |boundary: &str| print(&format!("multipart/mixed; boundary={boundary}"), &body);
    assert_ne!(mixed("x1"), mixed("x2"));
    let text = |boundary: &str| print(&format!("text/plain; boundary={boundary}"), &body);
    assert_eq!(text("x1"), text("x2"));
}

/// The delimiter's text many times over, in pieces.
fn any_content() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![b"\r\n", b"--", b"-", b"a", b"b", b"\n", b"\r", b": ", b"\xff"];
    vec(select(pieces), 0..12).prop_map(|pieces| pieces.concat())
}

fn assembled(parts: &[(Vec<u8>, Vec<u8>)], boundary: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for (headers, content) in parts {
        body.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        body.extend_from_slice(headers);
        body.extend_from_slice(if headers.is_empty() { b"\r\n" } else { b"\r\n\r\n" });
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    body
}

fn occurrences(text: &[u8], of: &str) -> usize {
    text.windows(of.len()).filter(|window| *window == of.as_bytes()).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Whatever the parts hold: either the form reads back as just these parts, and its delimiter
    /// stands nowhere else, however carelessly one looks for it; or it counts as it is.
    #[test]
    fn a_form_reads_back_as_its_parts_or_not_at_all(
        form in vec((any_content(), any_content()), 1..4),
        boundary in "[-ab]{1,4}",
    ) {
        let body = assembled(&form, &boundary);
        let content_type = content_type(&boundary);
        let delimiter = format!("--{boundary}");
        let Some(read) = parts(content_type.as_bytes(), &body) else {
            let within = |bytes: &[u8]| {
                bytes.windows(boundary.len()).any(|window| window == boundary.as_bytes())
            };
            let held = form.iter().any(|(headers, content)| within(headers) || within(content));
            // A boundary of dashes alone also meets the dashes around it.
            prop_assert!(held || boundary.starts_with('-') || boundary.ends_with('-'));
            return Ok(());
        };
        prop_assert_eq!(assembled(&to_owned(&read), &boundary), body.clone());
        if !boundary.starts_with('-') && !boundary.ends_with('-') {
            prop_assert_eq!(occurrences(&body, &delimiter), read.len() + 1);
        }
    }

    /// Two forms agree when their parts do and only then, whatever their boundaries.
    #[test]
    fn forms_agree_exactly_when_their_parts_do(
        one in vec((any_content(), any_content()), 1..3),
        other in vec((any_content(), any_content()), 1..3),
        same: bool,
    ) {
        let other = if same { one.clone() } else { other };
        let (first, second) = (assembled(&one, "zz1"), assembled(&other, "zz2"));
        let read = |boundary: &str, body: &[u8]| {
            to_owned(&parts(content_type(boundary).as_bytes(), body).unwrap())
        };
        let equal = read("zz1", &first) == read("zz2", &second);
        prop_assert!(equal || !same);
        let prints = print(&content_type("zz1"), &first) == print(&content_type("zz2"), &second);
        prop_assert_eq!(prints, equal);
    }

    #[test]
    fn any_bytes_have_a_fingerprint(content_type in vec(any::<u8>(), 0..60), body in vec(any::<u8>(), 0..99)) {
        for essence in [&b"multipart/form-data; boundary="[..], b"multipart/form-data;", b""] {
            let content_type = [essence, &content_type].concat();
            let material = Material::new("POST", "/").content_type(&content_type).body(&body);
            prop_assert!(material.fingerprint().is_compared());
        }
    }
}

fn to_owned(parts: &[Part<'_>]) -> Vec<(Vec<u8>, Vec<u8>)> {
    parts.iter().map(|part| (part.headers.to_vec(), part.content.to_vec())).collect()
}
