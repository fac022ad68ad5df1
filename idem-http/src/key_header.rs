//! Reading the key from its header.
//!
//! | the field value | is |
//! |---|---|
//! | `abc` | the key `abc` |
//! | `"abc"` | the key `abc`: an RFC 9651 string, and the same key as the bare form |
//! | `"a\"b"`, `"a, b"`, `"a b"` | the keys `a"b`, `a, b` and `a b` |
//! | `"abc";p=1` | the key `abc`: parameters must be well-formed, and are then ignored |
//! | `123`, `?1`, `:YWJj:`, `a/b` | bare keys, taken as they stand: no other type is read into them |
//! | nothing, `""` | refused: empty |
//! | two field lines, `a, b`, `"a", "b"` | refused: more than one key |
//! | `a b`, `a"b` | refused: a bare key holds neither spaces nor quotes |
//! | `a;b` | refused: it could be the key `a` with a parameter, or a key of three characters, and both guesses lose money |
//! | a control byte, a byte over 0x7E | refused, quoted or not |
//! | more than 255 bytes, the quotes and escapes not counted | refused |
//!
//! Keys are case-sensitive and are never trimmed or folded (R3). The spaces and tabs around the
//! field value belong to HTTP, not to the key.

use http::header::{HeaderMap, HeaderName};
use idem_core::key::{Key, NameError, NameFault};

/// Which spellings of a key are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KeySyntax {
    /// Bare keys, as payment SDKs send them, and quoted ones.
    #[default]
    BareOrQuoted,
    /// Only the quoted form, as the IETF draft has it.
    QuotedOnly,
}

/// Reads the key of a request. `None` when the header is not there.
///
/// ```
/// use http::header::{HeaderMap, HeaderName};
/// use idem_http::key_header::{KeyError, KeySyntax, read_key};
///
/// let name = HeaderName::from_static("idempotency-key");
/// let mut headers = HeaderMap::new();
/// assert_eq!(read_key(&headers, &name, KeySyntax::BareOrQuoted), Ok(None));
///
/// headers.insert(&name, "order-7".parse().unwrap());
/// let bare = read_key(&headers, &name, KeySyntax::BareOrQuoted).unwrap();
/// headers.insert(&name, r#""order-7""#.parse().unwrap());
/// assert_eq!(read_key(&headers, &name, KeySyntax::BareOrQuoted).unwrap(), bare);
///
/// headers.append(&name, "order-8".parse().unwrap());
/// assert_eq!(read_key(&headers, &name, KeySyntax::BareOrQuoted), Err(KeyError::Repeated));
/// ```
///
/// # Errors
/// [`KeyError`] when the header is there and is not one key.
pub fn read_key(
    headers: &HeaderMap,
    name: &HeaderName,
    syntax: KeySyntax,
) -> Result<Option<Key>, KeyError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(KeyError::Repeated);
    }
    parse_key(value.as_bytes(), syntax).map(Some)
}

/// Reads a key from the value of one field line.
///
/// # Errors
/// [`KeyError`] when it is not one key.
pub fn parse_key(value: &[u8], syntax: KeySyntax) -> Result<Key, KeyError> {
    let value = trim(value);
    match value.first() {
        None => Err(KeyError::Empty),
        Some(b'"') => Ok(Key::new(quoted(value)?)?),
        Some(_) if syntax == KeySyntax::QuotedOnly => Err(KeyError::NotQuoted),
        Some(_) => bare(value),
    }
}

/// Why a field value is not a key. It never holds the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It has no bytes.
    #[error("the key is empty")]
    Empty,
    /// The header was sent more than once, or holds a list.
    #[error("more than one key was sent")]
    Repeated,
    /// It has more than 255 bytes.
    #[error("the key has {bytes} bytes; the limit is 255")]
    TooLong {
        /// How many it has.
        bytes: usize,
    },
    /// It holds a control byte, or one that is not ASCII.
    #[error("the key holds a byte that is not printable ASCII")]
    NotPrintable,
    /// A bare key holds a character that only a quoted one can hold.
    #[error(
        "a key without quotes holds no space, comma, semicolon or quote; put it in double quotes"
    )]
    NeedsQuotes,
    /// The quoted form is asked for.
    #[error("the key must be in double quotes")]
    NotQuoted,
    /// It starts with a quote and is not a string of RFC 9651.
    #[error("the quoted key is not a structured-field string (RFC 9651, section 3.3.3)")]
    MalformedString,
    /// What follows the closing quote is not parameters.
    #[error("what follows the quoted key is not a parameter (RFC 9651, section 3.1.2)")]
    MalformedParameters,
}

impl From<NameError> for KeyError {
    fn from(error: NameError) -> Self {
        match error.fault {
            NameFault::Empty => Self::Empty,
            NameFault::TooLong { bytes } => Self::TooLong { bytes },
            _ => Self::NotPrintable,
        }
    }
}

fn bare(value: &[u8]) -> Result<Key, KeyError> {
    if !value.iter().all(|byte| matches!(byte, 0x20..=0x7e)) {
        return Err(KeyError::NotPrintable);
    }
    if value.contains(&b',') {
        return Err(KeyError::Repeated);
    }
    if value.iter().any(|byte| matches!(byte, b' ' | b'"' | b';')) {
        return Err(KeyError::NeedsQuotes);
    }
    Ok(Key::new(value)?)
}

/// The text of an RFC 9651 string (section 4.2.5), followed by nothing but parameters.
fn quoted(value: &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut text = Vec::with_capacity(value.len());
    let mut rest = &value[1..];
    loop {
        let (&byte, after) = rest.split_first().ok_or(KeyError::MalformedString)?;
        rest = after;
        match byte {
            b'"' => break,
            b'\\' => {
                let (&escaped, after) = rest.split_first().ok_or(KeyError::MalformedString)?;
                if !matches!(escaped, b'"' | b'\\') {
                    return Err(KeyError::MalformedString);
                }
                text.push(escaped);
                rest = after;
            }
            0x20..=0x7e => text.push(byte),
            _ => return Err(KeyError::NotPrintable),
        }
    }
    after_string(rest)?;
    Ok(text)
}

fn after_string(mut rest: &[u8]) -> Result<(), KeyError> {
    while let Some(after) = rest.strip_prefix(b";") {
        rest = parameter(trim_start(after)).ok_or(KeyError::MalformedParameters)?;
    }
    match trim(rest) {
        [] => Ok(()),
        [b',', ..] => Err(KeyError::Repeated),
        _ => Err(KeyError::MalformedParameters),
    }
}

/// Skips one parameter (RFC 9651, section 4.2.3.2): a key, and perhaps `=` and a bare item.
fn parameter(text: &[u8]) -> Option<&[u8]> {
    if !matches!(text.first()?, b'a'..=b'z' | b'*') {
        return None;
    }
    let in_key =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte);
    let rest = &text[text.iter().position(|byte| !in_key(byte)).unwrap_or(text.len())..];
    match rest.strip_prefix(b"=") {
        None => Some(rest),
        Some(item) => bare_item(item),
    }
}

/// Skips a bare item (RFC 9651, section 4.2.3.1). Its value does not matter, only its end.
fn bare_item(text: &[u8]) -> Option<&[u8]> {
    let end_of = |allowed: fn(&u8) -> bool, from: usize| {
        let end = text[from..].iter().position(|byte| !allowed(byte));
        end.map_or(text.len(), |end| from + end)
    };
    let in_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte);
    let in_number = |byte: &u8| byte.is_ascii_digit() || b".-".contains(byte);
    let end = match text.first()? {
        b'"' => string_end(text, 1)?,
        b'%' if text.get(1) == Some(&b'"') => string_end(text, 2)?,
        b':' => text[1..].iter().position(|byte| *byte == b':')? + 2,
        b'?' if matches!(text.get(1)?, b'0' | b'1') => 2,
        b'@' => at_least(2, end_of(in_number, 1))?,
        b'-' => at_least(2, end_of(in_number, 0))?,
        b'0'..=b'9' => end_of(in_number, 0),
        byte if byte.is_ascii_alphabetic() || *byte == b'*' => end_of(in_token, 0),
        _ => return None,
    };
    Some(&text[end..])
}

/// Where a string that starts at `from` ends, its closing quote included.
fn string_end(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' if matches!(text.get(at + 1), Some(b'"' | b'\\')) => at += 2,
            b'\\' => return None,
            0x20..=0x7e => at += 1,
            _ => return None,
        }
    }
}

fn at_least(least: usize, end: usize) -> Option<usize> {
    (end >= least).then_some(end)
}

fn trim(value: &[u8]) -> &[u8] {
    let value = trim_start(value);
    let kept = value.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    &value[..kept]
}

fn trim_start(value: &[u8]) -> &[u8] {
    let from = value.iter().position(|byte| !is_blank(byte)).unwrap_or(value.len());
    &value[from..]
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests;
