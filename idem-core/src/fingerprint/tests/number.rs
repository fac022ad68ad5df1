//! Numbers by their exact decimal value.

use std::collections::HashMap;

use proptest::prelude::*;

use super::value::{Choices, any_decimal};
use super::*;
use crate::fingerprint::json::Unclear::{HugeExponent, NotJson};

#[test]
fn spellings_of_one_number_agree() {
    let classes: &[(&str, &[&str])] = &[
        (
            "1",
            &[
                "1",
                "1.0",
                "1e0",
                "1E+0",
                "1e-0",
                "10e-1",
                "0.1e1",
                "0.01E2",
                "1.000e-000",
                "100e-02",
            ],
        ),
        ("1e2", &["100", "1e2", "1.00e2", "0.01e4", "1000e-1", "100.0"]),
        ("-125e-1", &["-12.5", "-125e-1", "-1.25E1", "-12.500"]),
        ("0", &["0", "0.0", "0e5", "0e-5", "0E999999999999999999999999", "0.000"]),
        ("-0", &["-0", "-0.00", "-0e1", "-0e999999999999999999999999"]),
        ("1e999999999", &["1e999999999", "10e999999998", "0.1e1000000000", "1.0e0999999999"]),
        ("5e-1", &["0.5", "5e-1", "0.50", "50e-2"]),
        ("9007199254740993", &["9007199254740993", "9007199254740993.0", "9.007199254740993e15"]),
        ("1e999999999999999999", &["1e999999999999999999", "1e+000999999999999999999"]),
        ("101", &["101", "1.01e2", "1010e-1"]),
    ];
    for (form, spellings) in classes {
        for spelling in *spellings {
            assert_eq!(canonical(spelling).as_deref(), Ok(*form), "{spelling}");
        }
        assert_eq!(Fingerprint::of_json(spellings[0]), Fingerprint::of_json(form));
    }
}

#[test]
fn different_numbers_differ() {
    let all = [
        "0",
        "-0",
        "1",
        "-1",
        "10",
        "0.1",
        "-0.1",
        "0.01",
        "11",
        "1.1",
        "101",
        "1.01",
        "1e1000",
        "1e-1000",
        "1e999999999",
        "1e999999998",
        "1e-999999999",
        "9007199254740992",
        "9007199254740993",
        "9007199254740992.5",
        "9007199254740994",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "0.1000000000000000055511151231257827",
        "1e308",
        "1e309",
        "2e308",
        "5e-324",
        "4e-324",
        "0.30000000000000004",
        "0.3",
        "123456789012345678901234567890",
        "123456789012345678901234567891",
        "100000000000000000000000000000001",
    ];
    assert_all_differ(&all, |number| Fingerprint::of_json(number));
}

#[test]
fn what_is_no_number_is_not_json() {
    for text in [
        "-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e1", "1e", "1e+", "1e-", "1E", "1ee1",
        "1e1.0", "1e 1", "- 1", "--1", "1-", "1+1", "0x10", "1_000", "1,0", "1e1e1", "1.1.1", "0e",
        "٣", "1f", "1n",
    ] {
        assert_eq!(canonical(text), Err(NotJson), "{text}");
    }
}

#[test]
fn a_huge_exponent_counts_as_it_is_and_costs_nothing() {
    let (ones, zeros) = ("1".repeat(100_000), "0".repeat(100_000));
    for text in [
        "1e1000000000000000000".to_owned(),
        "1e-1000000000000000000".to_owned(),
        "10e999999999999999999".to_owned(),
        "0.1e-999999999999999999".to_owned(),
        "1e9223372036854775808".to_owned(),
        "1e18446744073709551616".to_owned(),
        format!("1e{ones}"),
        format!("[1.5E-{ones}]"),
    ] {
        assert_eq!(canonical(&text), Err(HugeExponent));
        assert_eq!(Fingerprint::of_json(&text), Fingerprint::of_bytes(&text));
    }
    assert_eq!(canonical(format!("1e{zeros}7")).as_deref(), Ok("1e7"));
    assert_eq!(canonical(format!("0e{ones}")).as_deref(), Ok("0"));
    assert_eq!(canonical(format!("1{zeros}")).as_deref(), Ok("1e100000"));
    assert_eq!(canonical(format!("0.{zeros}1")).as_deref(), Ok("1e-100001"));
    assert_eq!(canonical(format!("1{zeros}e-100000")).as_deref(), Ok("1"));
    assert_eq!(canonical(format!("{ones}.{zeros}")), Ok(ones));
}

/// The digits on both sides of the point, written out: another way to tell numbers apart.
fn written_out(number: &str) -> String {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (mut whole, mut fraction) = (whole.to_owned(), fraction.to_owned());
    let exponent: i32 = exponent.parse().unwrap();
    for _ in 0..exponent {
        whole.push(if fraction.is_empty() { '0' } else { fraction.remove(0) });
    }
    for _ in exponent..0 {
        fraction.insert(0, whole.pop().unwrap_or('0'));
    }
    format!("{sign}{}.{}", whole.trim_start_matches('0'), fraction.trim_end_matches('0'))
}

#[test]
fn short_numbers_agree_exactly_when_they_are_equal() {
    let alphabet = b"-+.eE0159";
    let (mut by_form, mut by_value) = (HashMap::new(), HashMap::new());
    let mut seen = 0;
    short_texts::for_each(alphabet, 6, |text| {
        let is_number = serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
        let form = canonical(text);
        let text = std::str::from_utf8(text).unwrap();
        assert_eq!(form.is_ok(), is_number, "{text}");
        if let Ok(form) = form {
            let value = written_out(text);
            assert_eq!(*by_form.entry(form.clone()).or_insert(value.clone()), value, "{text}");
            assert_eq!(*by_value.entry(value).or_insert(form.clone()), form, "{text}");
            seen += 1;
        }
    });
    assert!(seen > 20_000, "{seen}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_two_spellings_of_a_number_agree(number in any_decimal(), seed: u64) {
        let mut choices = Choices::new(seed);
        let (one, other) = (number.written(&mut choices), number.written(&mut choices));
        prop_assert_eq!(canonical(&one), canonical(&other), "{} {}", one, other);
        let minus = if number.negative { "-" } else { "" };
        let digits = if number.digits.is_empty() { "0" } else { &number.digits };
        let power = if number.exponent == 0 { String::new() } else { format!("e{}", number.exponent) };
        prop_assert_eq!(canonical(&one), Ok(format!("{minus}{digits}{power}")), "{}", one);
    }

    #[test]
    fn any_two_numbers_differ(one in any_decimal(), other in any_decimal(), seed: u64) {
        let mut choices = Choices::new(seed);
        let same = canonical(one.written(&mut choices)) == canonical(other.written(&mut choices));
        prop_assert_eq!(same, one == other);
    }
}
