//! Every short text, judged by another reader: none is missed by a generator.

use std::collections::HashMap;

use super::*;

/// Calls `check` with every text of up to `longest` bytes from the alphabet.
pub(super) fn for_each(alphabet: &[u8], longest: u32, mut check: impl FnMut(&[u8])) {
    for length in 0..=longest {
        for number in 0..alphabet.len().pow(length) {
            let mut rest = number;
            let text: Vec<u8> = (0..length)
                .map(|_| {
                    let byte = alphabet[rest % alphabet.len()];
                    rest /= alphabet.len();
                    byte
                })
                .collect();
            check(&text);
        }
    }
}

#[test]
fn short_texts_agree_exactly_when_their_values_are_equal() {
    let (mut by_form, mut by_value) = (HashMap::new(), HashMap::new());
    for_each(b"[]{},:\"01 ", 6, |text| {
        let value = serde_json::from_slice::<serde_json::Value>(text);
        let form = canonical(text);
        let shown = String::from_utf8_lossy(text);
        assert_eq!(form.is_ok(), value.is_ok(), "{shown}");
        if let (Ok(form), Ok(value)) = (form, value) {
            let value = value.to_string();
            assert_eq!(*by_form.entry(form.clone()).or_insert(value.clone()), value, "{shown}");
            assert_eq!(*by_value.entry(value).or_insert(form.clone()), form, "{shown}");
        }
    });
    assert!(by_form.len() > 1_000, "{}", by_form.len());
}
