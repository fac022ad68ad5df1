//! Generated JSON: ways to write one value agree, changed values do not, and exactly what another
//! strict reader takes for JSON is read.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::de::IgnoredAny;

use super::value::{Choices, any_value};
use super::*;
use crate::fingerprint::json::Unclear;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn ways_to_write_a_value_agree(value in any_value(), seed: u64) {
        let mut choices = Choices::new(seed);
        let (one, other) = (value.written(&mut choices), value.written(&mut choices));
        let form = canonical(&one);
        prop_assert!(form.is_ok(), "{:?}: {}", form, one);
        let form = form.unwrap();
        prop_assert_eq!(canonical(&other), Ok(form.clone()), "{} | {}", one, other);
        prop_assert_eq!(canonical(&form), Ok(form.clone()), "of its own form");
        prop_assert!(form.len() < 2 * one.len(), "{} grew to {}", one, form);
    }

    #[test]
    fn a_changed_value_differs(value in any_value(), seed: u64) {
        let mut choices = Choices::new(seed);
        let mut changed = value.clone();
        changed.change(&mut choices);
        prop_assert_ne!(&value, &changed);
        let (before, after) = (value.written(&mut choices), changed.written(&mut choices));
        prop_assert_ne!(Fingerprint::of_json(&before), Fingerprint::of_json(&after), "{} | {}", before, after);
    }

    #[test]
    fn any_two_values_agree_exactly_when_they_are_equal(
        one in any_value(),
        other in any_value(),
        seed: u64,
    ) {
        let mut choices = Choices::new(seed);
        let same = canonical(one.written(&mut choices)) == canonical(other.written(&mut choices));
        prop_assert_eq!(same, one == other);
    }

    #[test]
    fn the_form_has_the_value_that_another_reader_finds(value in any_value(), seed: u64) {
        let text = value.written(&mut Choices::new(seed));
        // That reader has no numbers past a double's range.
        if let Ok(read) = serde_json::from_str::<serde_json::Value>(&text) {
            let form = canonical(&text).unwrap();
            let reread: serde_json::Value = serde_json::from_str(&form).unwrap();
            prop_assert!(alike(&read, &reread), "{} {}", text, form);
        }
    }

    #[test]
    fn a_damaged_text_is_read_exactly_when_it_is_json(
        value in any_value(),
        seed: u64,
        edits in vec((any::<prop::sample::Index>(), 0..3u8, any::<u8>()), 1..3),
    ) {
        let mut text = value.written(&mut Choices::new(seed)).into_bytes();
        for (at, edit, byte) in edits {
            let at = at.index(text.len() + 1);
            match edit {
                0 if at < text.len() => drop(text.remove(at)),
                1 if at < text.len() => text[at] = byte,
                _ => text.insert(at, byte),
            }
        }
        check_reading(&text)?;
    }

    #[test]
    fn any_tokens_are_read_exactly_when_they_are_json(tokens in vec(select(TOKENS), 0..12)) {
        check_reading(tokens.concat().as_bytes())?;
    }

    #[test]
    fn any_bytes_have_a_fingerprint(body in vec(any::<u8>(), 0..200)) {
        check_reading(&body)?;
        prop_assert!(Fingerprint::of_json(&body).is_compared());
    }
}

const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"a\"",
    "\"b\"",
    "\"\\u0061\"",
    "\"\\ud800\"",
    "\"\\ud83d\\ude00\"",
    "\"",
    "\\",
    "1",
    "-",
    "-0",
    "01",
    ".5",
    "1.",
    "1e5",
    "1e",
    "2E+07",
    "1e1234567890123456789",
    "true",
    "null",
    "nul",
    " ",
    "\n",
    "\u{feff}",
    "\u{b}",
    "\"a\":1",
    "\"b\":",
    "[1,2]",
    "{\"a\":1}",
    "{\"a\":1,\"a\":2}",
];

/// Another strict reader and this one agree about what is JSON. What only this one refuses, it
/// refuses for a reason that is about meaning.
fn check_reading(text: &[u8]) -> Result<(), TestCaseError> {
    let shown = String::from_utf8_lossy(text).into_owned();
    let is_json =
        std::str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok();
    match canonical(text) {
        Ok(_) => prop_assert!(is_json, "{} was read", shown),
        Err(Unclear::NotJson) => prop_assert!(!is_json, "{} was refused", shown),
        // Found before the end of the text, which may be damaged.
        Err(_) => {}
    }
    if let Err(reason) = canonical(text) {
        prop_assert_eq!(Fingerprint::of_json(text), Fingerprint::of_bytes(text), "{:?}", reason);
    } else {
        prop_assert_ne!(Fingerprint::of_json(text), Fingerprint::of_bytes(text));
    }
    Ok(())
}

/// Equal, but for what a double loses: that reader may round two spellings of a number apart.
fn alike(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value::*;
    match (one, other) {
        (Number(one), Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= one.abs() * 1e-14
        }
        (Array(one), Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Object(one), Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| alike(one, other)))
        }
        _ => one == other,
    }
}
