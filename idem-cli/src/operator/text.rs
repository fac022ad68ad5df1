//! Keys and scopes as text that can be typed back.

/// Printable ASCII as it is; a backslash as `\\`; any other byte as `\xNN`. Nothing that a key
/// holds can act on the terminal, and no two keys look alike.
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            0x20..=0x7e => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// What [`escape`] wrote.
pub(super) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match rest {
            [b'\\', tail @ ..] => {
                bytes.push(b'\\');
                rest = tail;
            }
            [b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
                bytes.push(digit(high) << 4 | digit(low));
                rest = tail;
            }
            _ => {
                return Err("a backslash is followed by another one, or by x and two digits".into());
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&escape(&all)).unwrap(), all);
        assert!(escape(&all).bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
        assert_eq!(escape("é\\\u{1b}".as_bytes()), "\\xc3\\xa9\\\\\\x1b");
    }

    #[test]
    fn a_broken_escape_is_refused() {
        for text in ["\\", "\\x", "\\x1", "\\xg0", "\\n"] {
            assert!(unescape(text).is_err(), "{text}");
        }
    }
}
