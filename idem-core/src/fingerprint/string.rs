//! A JSON string by its value.

use super::json::Unclear;

/// Reads the escape that begins at the backslash of `text`: the character that it stands for, and
/// how many bytes it takes. A surrogate pair is one character.
pub(super) fn read_escape(text: &[u8]) -> Result<(char, usize), Unclear> {
    let character = match text.get(1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return read_unicode_escape(text),
        _ => return Err(Unclear::NotJson),
    };
    Ok((character, 2))
}

/// Writes a character of a canonical string: the quotation mark, the backslash and what is below
/// the space in their shortest escape (RFC 8785, section 3.2.2.2), any other as itself.
pub(super) fn write(character: char, out: &mut Vec<u8>) {
    let short = match character {
        '"' | '\\' => character,
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\0'..' ' => {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
            return;
        }
        _ => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short as u8]);
}

fn read_unicode_escape(text: &[u8]) -> Result<(char, usize), Unclear> {
    let first = code_unit(text).ok_or(Unclear::NotJson)?;
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 6));
    }
    let second = code_unit(&text[6..]).ok_or(Unclear::LoneSurrogate)?;
    let pair = char::decode_utf16([first as u16, second as u16]).next();
    match pair {
        Some(Ok(character)) => Ok((character, 12)),
        _ => Err(Unclear::LoneSurrogate),
    }
}

/// The 16 bits that the four hexadecimal digits after `\u` stand for.
fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}
