//! JSON by example: what agrees, what differs, and what counts as it is.

use super::*;
use crate::fingerprint::json::Unclear::{self, *};

#[test]
fn spelling_does_not_count() {
    let cases = [
        (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
        (r#"{"a":{"d":[{"z":1,"y":2}],"c":3}}"#, r#"{"a":{"c":3,"d":[{"y":2,"z":1}]}}"#),
        (" \t\r\n[ 1 ,\n2 ] ", "[1,2]"),
        ("{ \"a\" : { } , \"b\" : [ ] }", r#"{"a":{},"b":[]}"#),
        (r#""\u0041\u00e9\/""#, r#""Aé/""#),
        (r#""\ud83d\ude00\uD83D\uDE00""#, r#""😀😀""#),
        (r#""\u0022\u005c\u0008\u000c\u000a\u000d\u0009""#, r#""\"\\\b\f\n\r\t""#),
        (r#""\u001F\u0000""#, r#""\u001f\u0000""#),
        (r#"{"\u0062":1,"a":2}"#, r#"{"a":2,"b":1}"#),
        ("[1.0,1e0,10e-1,100]", "[1,1,1,1e2]"),
        ("\"\u{7f}\u{2028}\u{ffff}\"", "\"\u{7f}\u{2028}\u{ffff}\""),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        assert_eq!(canonical(expected).as_deref(), Ok(expected), "of its own form");
        assert_eq!(Fingerprint::of_json(text), Fingerprint::of_json(expected), "{text}");
    }
}

#[test]
fn members_are_sorted_by_the_bytes_of_their_names_as_written() {
    let unsorted =
        r#"{"😀":1,"דּ":2,"é":3,"z":4,"a\"":5,"a\\":6,"a!":7,"a#":8,"a":9,"":10,"\n":11}"#;
    let sorted = r#"{"":1e1,"\n":11,"a!":7,"a":9,"a#":8,"a\"":5,"a\\":6,"z":4,"é":3,"דּ":2,"😀":1}"#;
    assert_eq!(canonical(unsorted).as_deref(), Ok(sorted));
    // By UTF-16 units, as RFC 8785 has it, U+1F600 would come before U+FB33. Any order will do, as
    // long as it is one.
    let turned = r#"{"דּ":2,"😀":1}"#;
    assert_eq!(canonical(r#"{"😀":1,"דּ":2}"#).as_deref(), Ok(turned));
    assert_eq!(canonical(turned).as_deref(), Ok(turned));
}

#[test]
fn different_values_have_different_fingerprints() {
    let all = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "-1",
        "\"\"",
        "\"0\"",
        "\"1\"",
        "\"null\"",
        "\"true\"",
        "\"false\"",
        "\"[]\"",
        "\"{}\"",
        "\"\\\"\\\"\"",
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "[null]",
        "[\"\"]",
        "[0]",
        "[1,2]",
        "[2,1]",
        "[[1],2]",
        "[1,[2]]",
        "[[1,2]]",
        "[12]",
        "[\"1,2\"]",
        "[\"1\",\"2\"]",
        "[1,2,null]",
        "{\"a\":1}",
        "{\"a\":\"1\"}",
        "{\"A\":1}",
        "{\"a \":1}",
        "{\"1\":\"a\"}",
        "[\"a\",1]",
        "{\"a\":{}}",
        "{\"a\":[]}",
        "{\"a\":null}",
        "{\"\":null}",
        "{\"a\":1,\"b\":2}",
        "{\"a\":2,\"b\":1}",
        "{\"a\":{\"b\":1}}",
        "{\"a\":1,\"b\":{}}",
        "{\"a\":{\"b\":{}}}",
        "{\"a,b\":1}",
        "\"\\u0000\"",
        "\"\\\\u0000\"",
        "\"é\"",
        "\"e\\u0301\"",
        "\"\\u00c9\"",
        "\"/\"",
        "\"\\\\/\"",
        "\" \"",
        "\"  \"",
        "\"\\t\"",
        "\"\\n\"",
        "\"😀\"",
        "\"\\ufffd\"",
    ];
    assert_all_differ(&all, |text| {
        assert!(canonical(text).is_ok(), "{text}");
        Fingerprint::of_json(text)
    });
}

fn assert_raw(text: impl AsRef<[u8]>, expected: Unclear) {
    let text = text.as_ref();
    let shown = String::from_utf8_lossy(&text[..text.len().min(60)]);
    assert_eq!(canonical(text), Err(expected), "{shown}");
    assert_eq!(Fingerprint::of_json(text), Fingerprint::of_bytes(text), "{shown}");
}

#[test]
fn what_is_not_json_counts_as_it_is() {
    let texts = [
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1,,2]",
        "[1 2]",
        "[1]]",
        "1 2",
        "{}{}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{1:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "[}",
        "{]",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\",
        "\"\\u",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u+123\"",
        "\"\\U0041\"",
        "\"\\x41\"",
        "\"\\'\"",
        "\"\\\n\"",
        "\"\t\"",
        "\"\0\"",
        "\"\u{1f}\"",
        "'a'",
        "nul",
        "nulls",
        "True",
        "tru",
        "falsee",
        "NaN",
        "Infinity",
        "-Infinity",
        "undefined",
        "\u{feff}1",
        "\u{a0}1",
        "1\u{c}",
        "\u{b}1",
        "// c\n1",
        "/* c */1",
        "1;",
        "\"a\"\"b\"",
    ];
    for text in texts {
        assert_raw(text, NotJson);
    }
    for bytes in
        [&b"\"\xff\""[..], b"\"\xed\xa0\x80\"", b"\"\xc0\x80\"", b"\"\xf4\x90\x80\x80\"", b"1\xff"]
    {
        assert_raw(bytes, NotJson);
    }
    // UTF-16 and UTF-32 are not what RFC 8259 has.
    assert_raw(b"[\x001\x00]\x00", NotJson);
}

#[test]
fn a_repeated_name_counts_as_it_is() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":2,"a":1}"#,
        r#"{"a":1,"b":2,"a":3}"#,
        r#"{"b":1,"a":2,"c":3,"a":4}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"\ud83d\ude00":1,"😀":2}"#,
        r#"{"\/":1,"/":2}"#,
        r#"{"":1,"":2}"#,
        r#"[{"a":{"b":{},"b":{}}}]"#,
    ] {
        assert_raw(text, RepeatedName);
    }
    // The same name in two objects is no repetition.
    let twice = r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#;
    assert_eq!(canonical(twice).as_deref(), Ok(twice));
}

#[test]
fn half_a_surrogate_pair_counts_as_it_is() {
    for text in [
        r#""\ud800""#,
        r#""\udfff""#,
        r#""\udc00\ud800""#,
        r#""\ud800\ud800\udc00""#,
        r#""\ud800\u0041""#,
        r#""\ud800A""#,
        r#""\ud800\n""#,
        r#"{"\udead":1}"#,
    ] {
        assert_raw(text, LoneSurrogate);
    }
    assert_eq!(
        canonical(r#""\udbff\udfff\ud7ff\ue000""#).as_deref(),
        Ok("\"\u{10ffff}\u{d7ff}\u{e000}\"")
    );
}

#[test]
fn nesting_past_the_limit_counts_as_it_is() {
    for (open, middle, close) in [("[", "", "]"), ("{\"a\":", "1", "}"), ("[{\"a\":", "[]", "}]")] {
        let levels = open.matches(['[', '{']).count();
        let inner = middle.matches('[').count();
        let nested = |times: usize| open.repeat(times) + middle + &close.repeat(times);
        let most = (MAX_NESTING - inner) / levels;
        assert!(canonical(nested(most)).is_ok(), "{open}");
        assert_raw(nested(most + 1), TooDeep);
    }
    // Values side by side do not add up.
    let wide = format!("[{}[]]", "[[]],".repeat(1_000));
    assert!(canonical(&wide).is_ok());
}

/// The stack of the thread is a quarter of what a runtime's worker has.
#[test]
fn bombs_are_left_at_once_and_on_a_small_stack() {
    let bombs = || {
        for times in [10_000, 1_000_000] {
            for (open, close) in [
                ("[", "]"),
                ("{\"a\":", "}"),
                ("[{\"b\":1,\"a\":", "}]"),
                ("[", ""),
                ("{\"\":", ""),
            ] {
                let bomb = open.repeat(times) + "1" + &close.repeat(times);
                assert_raw(bomb, TooDeep);
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(bombs).unwrap();
    thread.join().unwrap();
}

#[test]
fn large_bodies_keep_their_meaning() {
    let names: Vec<_> = (0..50_000).map(|at| format!("{at:05}")).collect();
    let member = |name: &String| format!("\"{name}\":[{name}.0e0]").replace(":[0", ":[1");
    let members: Vec<_> = names.iter().map(member).collect();
    let ascending = format!("{{{}}}", members.join(","));
    let descending =
        format!("{{{}}}", members.iter().rev().cloned().collect::<Vec<_>>().join(", "));
    assert_eq!(canonical(&ascending).unwrap(), canonical(&descending).unwrap());

    let last = ascending.rfind("9.0e0").unwrap();
    let mut other = ascending.clone();
    other.replace_range(last..=last, "8");
    assert_ne!(Fingerprint::of_json(&ascending), Fingerprint::of_json(&other));

    // Every level has to be sorted.
    let text = "x".repeat(100_000);
    let deepest = MAX_NESTING;
    let unsorted =
        "{\"b\":".repeat(deepest) + &format!("\"{text}\"") + &",\"a\":1}".repeat(deepest);
    let sorted = "{\"a\":1,\"b\":".repeat(deepest) + &format!("\"{text}\"") + &"}".repeat(deepest);
    assert_eq!(canonical(unsorted).unwrap(), sorted);
}
