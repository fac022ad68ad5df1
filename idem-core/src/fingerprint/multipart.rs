//! multipart/form-data by its parts: the random boundary between them does not count.

/// One part: its header block as it was sent, and its content.
pub(super) struct Part<'b> {
    pub(super) headers: &'b [u8],
    pub(super) content: &'b [u8],
}

/// The parts of a body (RFC 7578, RFC 2046 section 5.1.1), or `None` when it is not plainly
/// well-formed: no boundary, text before the first or after the last part, padding behind a
/// delimiter. It is then hashed as it is, since two readers may cut it differently.
pub(super) fn parts<'b>(content_type: &[u8], body: &'b [u8]) -> Option<Vec<Part<'b>>> {
    let boundary = boundary(content_type)?;
    let delimiter = [b"\r\n--", boundary.as_slice()].concat();
    // The first delimiter has no line before it.
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    let mut parts = Vec::new();
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            let whole = end.is_empty() || end == b"\r\n";
            return (whole && !parts.is_empty()).then_some(parts);
        }
        rest = rest.strip_prefix(b"\r\n")?;
        // A part without headers begins with the blank line; its own line end may be the
        // delimiter's too.
        let end = find(rest, &delimiter)?;
        parts.push(part(&rest[..end])?);
        rest = &rest[end + delimiter.len()..];
    }
}

fn part(bytes: &[u8]) -> Option<Part<'_>> {
    if let Some(content) = bytes.strip_prefix(b"\r\n") {
        return Some(Part { headers: b"", content });
    }
    let end = find(bytes, b"\r\n\r\n")?;
    Some(Part { headers: &bytes[..end], content: &bytes[end + 4..] })
}

/// The boundary parameter: a token or a quoted string without escapes, named once.
fn boundary(content_type: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(content_type).ok()?;
    let mut found = None;
    for parameter in text.split(';').skip(1) {
        let Some((name, value)) = parameter.split_once('=') else { continue };
        if !name.trim().eq_ignore_ascii_case("boundary") {
            continue;
        }
        let value = value.trim();
        let value = match value.strip_prefix('"') {
            Some(quoted) => quoted.strip_suffix('"')?,
            None => value,
        };
        let plain = !value.is_empty()
            && value.len() <= 70
            && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
        if !plain || found.replace(value.as_bytes().to_vec()).is_some() {
            return None;
        }
    }
    found
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
