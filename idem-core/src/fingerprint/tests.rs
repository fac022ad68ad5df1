//! What the tests of the fingerprint share.

use std::collections::HashSet;

use super::*;

mod content_type;
mod generated;
mod json;
mod material;
mod multipart;
mod number;
mod scheme;
mod short_texts;
mod value;
mod vectors;

/// The canonical form of a JSON text, as text.
fn canonical(text: impl AsRef<[u8]>) -> Result<String, super::json::Unclear> {
    let canonical = super::json::canonical(text.as_ref())?;
    Ok(String::from_utf8(canonical).expect("the canonical form is UTF-8"))
}

/// Asserts that no two of these have one fingerprint.
fn assert_all_differ<T: std::fmt::Debug>(all: &[T], print: impl Fn(&T) -> Fingerprint) {
    let mut seen = HashSet::new();
    for one in all {
        assert!(seen.insert(print(one)), "{one:?} agrees with one before it");
    }
}
