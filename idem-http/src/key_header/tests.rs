use super::*;

fn any(value: &str) -> Result<Vec<u8>, KeyError> {
    parse_key(value.as_bytes(), KeySyntax::BareOrQuoted).map(|key| key.as_bytes().to_vec())
}

fn strict(value: &str) -> Result<Vec<u8>, KeyError> {
    parse_key(value.as_bytes(), KeySyntax::QuotedOnly).map(|key| key.as_bytes().to_vec())
}

#[test]
fn the_bare_and_the_quoted_form_name_the_same_key() {
    for key in ["abc", "8e03978e-40d5-43dd-bc93-6894a57f9324", "stripe-node-retry-1", "?1", ":YQ=:"]
    {
        assert_eq!(any(key).unwrap(), key.as_bytes(), "{key}");
        assert_eq!(any(&format!("\"{key}\"")).unwrap(), key.as_bytes(), "{key}");
        assert_eq!(any(&format!("  {key}\t")).unwrap(), key.as_bytes(), "{key}");
    }
}

#[test]
fn case_and_inner_spaces_make_different_keys() {
    assert_ne!(any("ABC"), any("abc"));
    assert_eq!(any("\"abc \"").unwrap(), b"abc ");
    assert_eq!(any("\" abc\"").unwrap(), b" abc");
    assert_eq!(any(r#""a\"b\\c, d""#).unwrap(), br#"a"b\c, d"#);
}

#[test]
fn parameters_are_checked_and_ignored() {
    for parameters in [
        ";p",
        ";p=1",
        "; p=-1.5",
        ";p=\"x;y,\\\"\"",
        ";p=?1;q=?0",
        ";p=:YQ==:",
        ";p=tok/en:1",
        ";p=@1659578233",
        ";p=%\"%c3%bc\"",
        ";*p_-.9=*",
        ";a;b;c",
        ";p=1  ",
    ] {
        assert_eq!(any(&format!("\"k\"{parameters}")).unwrap(), b"k", "{parameters}");
    }
    for parameters in [
        ";",
        ";P=1",
        ";1=1",
        ";p=",
        ";p=?2",
        ";p=\"x",
        ";p=:YQ",
        ";p=\"\\x\"",
        ";p=@",
        ";p=-",
        " x",
        "x",
        ";p=(1)",
        ";p==1",
    ] {
        let refused = any(&format!("\"k\"{parameters}"));
        assert_eq!(refused, Err(KeyError::MalformedParameters), "{parameters}");
    }
}

#[test]
fn an_empty_key_is_refused_in_both_forms() {
    for value in ["", " ", "\t", "\"\"", "\"\";p=1"] {
        assert_eq!(any(value), Err(KeyError::Empty), "{value:?}");
    }
}

#[test]
fn the_limit_is_255_bytes_and_counts_neither_quotes_nor_escapes() {
    let longest = "k".repeat(255);
    assert!(any(&longest).is_ok());
    assert!(any(&format!("\"{longest}\"")).is_ok());
    assert!(any(&format!("\"{}\"", "\\\"".repeat(255))).is_ok());
    let longer = "k".repeat(256);
    assert_eq!(any(&longer), Err(KeyError::TooLong { bytes: 256 }));
    assert_eq!(any(&format!("\"{longer}\"")), Err(KeyError::TooLong { bytes: 256 }));
}

#[test]
fn a_list_is_more_than_one_key() {
    for value in ["a, b", "a,b", "a,", ",", "\"a\", \"b\"", "\"a\",\"a\"", "\"a\";p=1, \"b\""] {
        assert_eq!(any(value), Err(KeyError::Repeated), "{value}");
    }
    let name = HeaderName::from_static("idempotency-key");
    let mut headers = HeaderMap::new();
    headers.append(&name, "a".parse().unwrap());
    headers.append(&name, "a".parse().unwrap());
    let read = read_key(&headers, &name, KeySyntax::BareOrQuoted);
    assert_eq!(read, Err(KeyError::Repeated), "the same key twice is still twice");
}

#[test]
fn a_bare_key_holds_nothing_that_could_be_read_in_two_ways() {
    for value in ["a b", "a\"b", "a\"", "'a b'", "a;b", "a;p=1", "(a b)", "%\"a\""] {
        assert_eq!(any(value), Err(KeyError::NeedsQuotes), "{value}");
    }
}

#[test]
fn bytes_that_are_not_printable_ascii_are_refused() {
    for byte in (0..=255_u8).filter(|byte| !(0x20..=0x7e).contains(byte)) {
        let bare = [b'a', byte, b'b'];
        let quoted = [b'"', b'a', byte, b'"'];
        for value in [&bare[..], &quoted[..]] {
            let read = parse_key(value, KeySyntax::BareOrQuoted);
            assert_eq!(read, Err(KeyError::NotPrintable), "{value:?}");
        }
    }
}

#[test]
fn a_broken_string_is_refused_and_never_taken_for_a_bare_key() {
    for value in ["\"", "\"a", "\"a\\\"", "\"a\\", "\"a\\b\""] {
        assert_eq!(any(value), Err(KeyError::MalformedString), "{value}");
    }
}

#[test]
fn strict_takes_the_quoted_form_only() {
    assert_eq!(strict("\"abc\"").unwrap(), b"abc");
    assert_eq!(strict("abc"), Err(KeyError::NotQuoted));
    assert_eq!(strict("123"), Err(KeyError::NotQuoted));
    assert_eq!(strict(""), Err(KeyError::Empty));
}
