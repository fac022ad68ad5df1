use super::*;

const FORM: &[u8] = b"application/x-www-form-urlencoded";

fn json(body: &str) -> Result<NewCharge, Problem> {
    NewCharge::read(Some(b"application/json"), body.as_bytes())
}

fn form(body: &str) -> Result<NewCharge, Problem> {
    NewCharge::read(Some(FORM), body.as_bytes())
}

fn fault(result: Result<NewCharge, Problem>) -> (u16, &'static str) {
    let problem = result.map(|_| "accepted").unwrap_err();
    (problem.status().as_u16(), problem.code())
}

#[test]
fn both_encodings_say_the_same() {
    let expected =
        NewCharge { amount: 1999, currency: "eur", description: Some("Café ☕".into()) };
    let as_json = r#"{"amount":1999,"currency":"EUR","description":"Café ☕","confirm":true}"#;
    let as_form = "amount=1999&currency=eur&description=Caf%C3%A9+%E2%98%95\
                   &payment_method=pm_card_visa&metadata[order]=6735&expand[0]=customer";
    assert!(json(as_json).unwrap() == expected);
    assert!(form(as_form).unwrap() == expected);
    for content_type in ["Application/JSON; charset=utf-8", " application/json "] {
        let read = NewCharge::read(Some(content_type.as_bytes()), as_json.as_bytes());
        assert!(read.unwrap() == expected, "{content_type}");
    }
}

#[test]
fn an_absent_description_and_an_empty_one_are_none() {
    for body in [
        r#"{"amount":1,"currency":"eur"}"#,
        r#"{"amount":1,"currency":"eur","description":null}"#,
        r#"{"amount":1,"currency":"eur","description":""}"#,
    ] {
        assert_eq!(json(body).unwrap().description, None);
    }
    assert_eq!(form("amount=1&currency=eur&description=").unwrap().description, None);
}

#[test]
fn a_whole_number_is_one_in_every_form_that_json_has_for_it() {
    let amount = |text: &str| json(&format!(r#"{{"amount":{text},"currency":"eur"}}"#));
    for text in ["20", "20.0", "2e1", "2E+1", "200e-1"] {
        assert_eq!(amount(text).unwrap().amount, 20, "{text}");
    }
    assert_eq!(amount("9223372036854775807").unwrap().amount, MAX_AMOUNT);
    for text in ["20.5", "1e-1", "9007199254740992.0", "1e300", "\"20\"", "true", "[20]", "{}"] {
        assert_eq!(fault(amount(text)), (400, "parameter_invalid_integer"), "{text}");
    }
    for text in ["0", "-1", "-5.0", "9223372036854775808", "-9223372036854775808"] {
        assert_eq!(fault(amount(text)), (400, "amount_out_of_range"), "{text}");
    }
    assert_eq!(fault(amount("null")), (400, "parameter_missing"));
}

#[test]
fn a_forms_amount_is_digits() {
    let amount = |text: &str| form(&format!("amount={text}&currency=eur"));
    assert_eq!(amount("0020").unwrap().amount, 20);
    for text in ["", "20.0", "2e1", "0x20", "20+20", "+20", "%2B20", "-", "%D9%A3"] {
        assert_eq!(fault(amount(text)), (400, "parameter_invalid_integer"), "{text}");
    }
    for text in ["0", "-1", "9223372036854775808"] {
        assert_eq!(fault(amount(text)), (400, "amount_out_of_range"), "{text}");
    }
}

#[test]
fn the_other_fields_are_checked_too() {
    assert_eq!(fault(json(r#"{"currency":"eur"}"#)), (400, "parameter_missing"));
    assert_eq!(fault(json(r#"{"amount":1}"#)), (400, "parameter_missing"));
    assert_eq!(fault(form("amount=1")), (400, "parameter_missing"));
    for currency in ["\"xxx\"", "\"\"", "\"euro\"", "978", "[\"eur\"]"] {
        let body = format!(r#"{{"amount":1,"currency":{currency}}}"#);
        assert_eq!(fault(json(&body)), (400, "currency_unknown"), "{currency}");
    }
    let described =
        |text: String| json(&format!(r#"{{"amount":1,"currency":"eur","description":{text}}}"#));
    assert!(described(format!("\"{}\"", "x".repeat(1_000))).is_ok());
    let too_long = described(format!("\"{}\"", "é".repeat(501)));
    assert_eq!(fault(too_long), (400, "parameter_invalid"));
    assert_eq!(fault(described("7".into())), (400, "parameter_invalid"));
}

#[test]
fn a_field_that_is_there_twice_is_refused() {
    assert_eq!(fault(form("amount=1&currency=eur&amount=2")), (400, "parameter_duplicated"));
    for first in ["1", "null"] {
        let body = format!(r#"{{"amount":{first},"currency":"eur","amount":2}}"#);
        assert_eq!(fault(json(&body)), (400, "body_invalid"), "{first}");
    }
}

#[test]
fn a_body_that_cannot_be_read_is_refused() {
    for body in [
        "",
        "[]",
        "[1,\"eur\",null]",
        "1",
        "null",
        "{",
        "{\"amount\":1,\"currency\":\"eur\"}x",
        "\u{feff}{}",
    ] {
        assert_eq!(fault(json(body)), (400, "body_invalid"), "{body}");
    }
    let deep = |name: &str| {
        let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
        format!(r#"{{"amount":1,"currency":"eur","{name}":{open}{close}}}"#)
    };
    assert_eq!(fault(json(&deep("description"))), (400, "body_invalid"));
    // What is passed over is passed over without a stack.
    assert!(json(&deep("metadata")).is_ok());
    assert_eq!(fault(form("amount=%zz&currency=eur")), (400, "body_invalid"));
    let not_utf8 = NewCharge::read(Some(FORM), b"amount=1&currency=eur&description=%ff");
    assert_eq!(fault(not_utf8), (400, "body_invalid"));
}

#[test]
fn another_content_type_is_415() {
    for content_type in [None, Some(&b"text/plain"[..]), Some(b""), Some(b"application/jsonp")] {
        let read = NewCharge::read(content_type, b"amount=1&currency=eur");
        assert_eq!(fault(read), (415, "content_type_unsupported"));
    }
}

#[test]
fn a_charset_other_than_utf_8_is_415() {
    for (parameters, is_read) in [
        ("", true),
        ("; charset=UTF-8", true),
        (";charset=\"utf-8\"", true),
        ("; boundary=x; Charset=us-ascii", true),
        ("; charset=iso-8859-1", false),
        ("; charset=utf-16", false),
        ("; charset", false),
        ("; charset=utf-8; charset=latin1", false),
    ] {
        for (essence, body) in [
            ("application/json", r#"{"amount":1,"currency":"eur"}"#),
            ("application/x-www-form-urlencoded", "amount=1&currency=eur"),
        ] {
            let content_type = format!("{essence}{parameters}");
            let read = NewCharge::read(Some(content_type.as_bytes()), body.as_bytes());
            match is_read {
                true => assert!(read.is_ok(), "{content_type}"),
                false => assert_eq!(fault(read), (415, "charset_unsupported"), "{content_type}"),
            }
        }
    }
}

#[test]
fn messages_and_debug_do_not_repeat_what_was_sent() {
    let problem = json(r#"{"amount":"hunter2"}"#).unwrap_err();
    assert!(!format!("{problem:?}").contains("hunter2"));
    let charge = json(r#"{"amount":1999,"currency":"eur","description":"hunter2"}"#).unwrap();
    assert_eq!(format!("{charge:?}"), "NewCharge { .. }");
}
