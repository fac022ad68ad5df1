//! Keys and scopes as text that can be typed back, and what others wrote as text that does no harm.

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

/// Somebody else's text on one line, of which nothing acts on the terminal. Not to be typed back.
pub(super) fn on_one_line(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// The same, with its own lines and tabs.
pub(super) fn on_lines(text: &str) -> String {
    let shown = |character| match character {
        '\n' | '\t' => String::from(character),
        other => shown(other),
    };
    text.chars().map(shown).collect()
}

fn shown(character: char) -> String {
    // They put what follows them in another order (Unicode's bidirectional formatting).
    let reorders = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    match character {
        acts if reorders || acts.is_control() => acts.escape_unicode().to_string(),
        other => String::from(other),
    }
}

/// What [`escape`] wrote, in `width` characters: its beginning and its end. What stands before the
/// `…` is whole in itself, and can be typed back as a beginning.
pub(super) fn shorten(text: &str, width: usize) -> String {
    const END: usize = 6;
    let mut marks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = match rest.as_bytes() {
            [b'\\', b'x', ..] => 4,
            [b'\\', ..] => 2,
            _ => 1,
        };
        let (mark, tail) = rest.split_at(length.min(rest.len()));
        marks.push(mark);
        rest = tail;
    }
    let mut shown = String::new();
    for mark in &marks {
        if shown.len() + mark.len() + END + 1 > width {
            break;
        }
        shown.push_str(mark);
    }
    let mut end = marks.len();
    let mut length = 0;
    while end > 0 && length + marks[end - 1].len() <= END {
        end -= 1;
        length += marks[end].len();
    }
    shown.push('…');
    shown.extend(marks[end..].iter().copied());
    shown
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
    fn what_is_shortened_has_a_beginning_that_can_be_typed_back() {
        assert_eq!(shorten("abcdefghijklmnopqrstuvwxyz", 16), "abcdefghi…uvwxyz");
        let bytes: Vec<u8> = b"k\\\n".iter().cycle().take(200).copied().collect();
        let text = escape(&bytes);
        for width in 16..73 {
            let shown = shorten(&text, width);
            assert!(shown.chars().count() <= width && shown.len() > width - 6, "{width} {shown}");
            let (beginning, end) = shown.split_once('…').unwrap();
            assert!(bytes.starts_with(&unescape(beginning).unwrap()), "{shown}");
            assert!(bytes.ends_with(&unescape(end).unwrap()), "{shown}");
        }
    }

    #[test]
    fn what_others_wrote_neither_acts_nor_reorders() {
        let text = "a\\\u{1b}[2J\u{9b}\r\u{202e}é\n\t";
        assert_eq!(on_lines(text), "a\\\\u{1b}[2J\\u{9b}\\u{d}\\u{202e}é\n\t");
        assert_eq!(on_one_line(text), "a\\\\u{1b}[2J\\u{9b}\\u{d}\\u{202e}é\\u{a}\\u{9}");
    }

    #[test]
    fn a_broken_escape_is_refused() {
        for text in ["\\", "\\x", "\\x1", "\\xg0", "\\n"] {
            assert!(unescape(text).is_err(), "{text}");
        }
    }
}
