//! The text of a key, and its two forms in a header.

use std::borrow::Cow;

/// The most bytes of a key; the quotes and escapes of its header form are not counted.
pub const MAX_KEY_BYTES: usize = 255;

/// Why a text is not a key. It never holds the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It has no bytes.
    #[error("the key is empty")]
    Empty,
    /// It has more than [`MAX_KEY_BYTES`] bytes.
    #[error("the key has {bytes} bytes; the limit is {MAX_KEY_BYTES}")]
    TooLong {
        /// How many it has.
        bytes: usize,
    },
    /// It holds a control byte, the end of a line say, or one that is not ASCII.
    #[error("the key holds a byte that is not printable ASCII, at offset {at}")]
    NotPrintable {
        /// The offset of the first such byte.
        at: usize,
    },
    /// It stands in double quotes, as in the value of a header. Taken as it is, it would be another
    /// key than the one between the quotes, and the call a second one.
    #[error("the key is in quotes: read a header's value as one, or leave the quotes out")]
    InQuotes,
    /// The header's value is not one key: a list, a string that does not end, something after it, or
    /// a space, comma, semicolon or quote in a key without quotes.
    #[error("the header's value is not one key, bare or in double quotes (RFC 9651)")]
    NotOneKey,
}

/// Whether it is the text of a key.
pub(super) fn check(text: &[u8]) -> Result<(), KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty);
    }
    if text.len() > MAX_KEY_BYTES {
        return Err(KeyError::TooLong { bytes: text.len() });
    }
    if let Some(at) = text.iter().position(|byte| !is_printable(*byte)) {
        return Err(KeyError::NotPrintable { at });
    }
    match text {
        [b'"', .., b'"'] => Err(KeyError::InQuotes),
        _ => Ok(()),
    }
}

/// The header form of a checked text.
pub(super) fn to_field(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(needs_quotes) {
        return Cow::Borrowed(text);
    }
    let mut field = String::with_capacity(text.len() + 2);
    field.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            field.push('\\');
        }
        field.push(character);
    }
    field.push('"');
    Cow::Owned(field)
}

/// The text of a key in its header form, not yet checked.
pub(super) fn from_field(value: &[u8]) -> Result<String, KeyError> {
    let value = value.trim_ascii();
    if let Some(at) = value.iter().position(|byte| !is_printable(*byte)) {
        return Err(KeyError::NotPrintable { at });
    }
    let text = match value.strip_prefix(b"\"") {
        Some(rest) => unquoted(rest).ok_or(KeyError::NotOneKey)?,
        None if value.iter().any(|byte| needs_quotes(*byte)) => return Err(KeyError::NotOneKey),
        None => value.to_vec(),
    };
    Ok(text.into_iter().map(char::from).collect())
}

/// What stands before the closing quote, which is the end.
fn unquoted(quoted: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter().copied();
    loop {
        match bytes.next()? {
            b'"' => return bytes.next().is_none().then_some(text),
            b'\\' => text.push(bytes.next().filter(|byte| matches!(byte, b'"' | b'\\'))?),
            byte => text.push(byte),
        }
    }
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e)
}

fn needs_quotes(byte: u8) -> bool {
    matches!(byte, b' ' | b',' | b';' | b'"')
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::key::IdempotencyKey;

    fn read(value: &str) -> Result<String, KeyError> {
        let value = HeaderValue::from_str(value).unwrap();
        IdempotencyKey::from_header(&value).map(|key| key.to_string())
    }

    #[test]
    fn what_is_kept_is_read_back() {
        for key in [IdempotencyKey::random(), IdempotencyKey::from_intent("n", ["a"])] {
            assert_eq!(key.to_string().parse(), Ok(key.clone()));
            assert_eq!(IdempotencyKey::try_from(key.as_str()), Ok(key.clone()));
            assert_eq!(IdempotencyKey::try_from(key.to_string()), Ok(key.clone()));
            // It is sent as it stands.
            assert_eq!(HeaderValue::from(&key), key.as_str());
        }
    }

    #[test]
    fn a_key_is_1_to_255_bytes_of_printable_ascii() {
        let faults =
            [("".to_owned(), KeyError::Empty), ("k".repeat(256), KeyError::TooLong { bytes: 256 })];
        for (text, error) in faults {
            assert_eq!(IdempotencyKey::new(&text), Err(error));
        }
        assert!(IdempotencyKey::new("k".repeat(255)).is_ok());
        for byte in 0..=127_u8 {
            let text = format!("a{}", char::from(byte));
            let expected = if (0x20..=0x7e).contains(&byte) { Ok(()) } else { Err(()) };
            assert_eq!(IdempotencyKey::new(&text).map_err(drop).map(drop), expected, "{text:?}");
        }
        assert_eq!(IdempotencyKey::new("order-é"), Err(KeyError::NotPrintable { at: 6 }));
    }

    #[test]
    fn every_key_comes_through_a_header_as_itself() {
        for byte in 0x20..=0x7e_u8 {
            for text in [format!("a{}b", char::from(byte)), format!("{}b", char::from(byte))] {
                let key = IdempotencyKey::new(&text).unwrap();
                let value = key.header_value();
                assert!(value.is_sensitive());
                assert_eq!(IdempotencyKey::from_header(&value), Ok(key), "{text:?}");
            }
        }
        assert_eq!(IdempotencyKey::new("a, \"b\\").unwrap().header_value(), r#""a, \"b\\""#);
    }

    #[test]
    fn both_forms_are_the_same_key_and_nothing_else_is_one() {
        assert_eq!(read("order-7"), Ok("order-7".into()));
        assert_eq!(read(r#" "order-7" "#), Ok("order-7".into()));
        assert_eq!(read(r#""a\"b, c""#), Ok(r#"a"b, c"#.into()));
        for value in ["a, b", "a;b", "a b", r#"a"b"#, r#""a"#, r#""a" b"#, r#""a";p"#, r#""a\b""#] {
            assert_eq!(read(value), Err(KeyError::NotOneKey), "{value}");
        }
        assert_eq!(read(""), Err(KeyError::Empty));
        assert_eq!(read(r#""""#), Err(KeyError::Empty));
        assert_eq!(read(r#""\"a\"""#), Err(KeyError::InQuotes));
    }

    #[test]
    fn an_error_does_not_show_the_key() {
        for text in ["\"order-secret\"", "order-secret\n"] {
            let error = IdempotencyKey::new(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
    }
}
