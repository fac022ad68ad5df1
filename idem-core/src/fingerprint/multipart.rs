//! multipart/form-data by its parts: the random boundary between them does not count.

use super::content_type;

/// One part: its header block as it was sent, and its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'b> {
    pub(super) headers: &'b [u8],
    pub(super) content: &'b [u8],
}

/// The parts of a body (RFC 7578; RFC 2046, section 5.1.1). `None` where two readers may cut it
/// differently: no boundary, text before the first or after the last delimiter, spaces behind a
/// delimiter, a part without its blank line, or the delimiter's text anywhere but at a delimiter.
///
/// The last one matters most. A reader that takes a bare line feed for a line end would cut there,
/// and cut or not by the boundary, which is exactly what does not count.
pub(super) fn parts<'b>(content_type: &[u8], body: &'b [u8]) -> Option<Vec<Part<'b>>> {
    let boundary = content_type::boundary(content_type)?;
    let delimiter = [b"--", boundary].concat();
    let mut parts = Vec::new();
    let mut rest = body.strip_prefix(delimiter.as_slice())?;
    while !matches!(rest, b"--" | b"--\r\n") {
        rest = rest.strip_prefix(b"\r\n")?;
        let end = find(rest, &delimiter)?;
        parts.push(part(rest[..end].strip_suffix(b"\r\n")?)?);
        rest = &rest[end + delimiter.len()..];
    }
    (!parts.is_empty()).then_some(parts)
}

/// A part without headers begins with the blank line.
fn part(bytes: &[u8]) -> Option<Part<'_>> {
    if let Some(content) = bytes.strip_prefix(b"\r\n") {
        return Some(Part { headers: b"", content });
    }
    let end = find(bytes, b"\r\n\r\n")?;
    Some(Part { headers: &bytes[..end], content: &bytes[end + 4..] })
}

/// Linear: a needle has at most 72 bytes.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
