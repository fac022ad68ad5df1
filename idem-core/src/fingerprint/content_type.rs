//! What a Content-Type says, read strictly: where two readers might differ, it says nothing.

/// Type and subtype in lower case (RFC 9110, section 8.3.1), or `None` where the value does not
/// begin with these two.
pub(super) fn essence(content_type: &[u8]) -> Option<Vec<u8>> {
    let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
    let essence = trim_end(trim_start(&content_type[..end]));
    let slash = essence.iter().position(|byte| *byte == b'/')?;
    let whole = is_token(&essence[..slash]) && is_token(&essence[slash + 1..]);
    whole.then(|| essence.to_ascii_lowercase())
}

/// Whether a body of this essence is JSON (the suffix: RFC 6839, section 3.1).
pub(super) fn is_json(essence: &[u8]) -> bool {
    essence == b"application/json" || essence.ends_with(b"+json")
}

/// The boundary that a multipart Content-Type names. `None` where it is not beyond doubt: it must
/// be named once, in parameters that follow RFC 9110, section 5.6.6 to the letter, and consist of
/// 1 to 70 of the characters that RFC 2046, section 5.1.1 allows, without the space.
pub(super) fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let start = content_type.iter().position(|byte| *byte == b';')?;
    let mut rest = &content_type[start..];
    let mut boundary = None;
    while let Some(after) = trim_start(rest).strip_prefix(b";") {
        rest = trim_start(after);
        if rest.is_empty() || rest.starts_with(b";") {
            continue;
        }
        let (name, value, after) = parameter(rest)?;
        rest = after;
        let name = name.to_ascii_lowercase();
        // `boundary*` and `boundary*0` are how RFC 2231 would spell it: some readers look there.
        if name.starts_with(b"boundary*") {
            return None;
        }
        if name == b"boundary" && boundary.replace(value).is_some() {
            return None;
        }
    }
    let whole = trim_start(rest).is_empty();
    boundary.filter(|boundary| whole && is_boundary(boundary))
}

/// Name and value at the start of `text`, and what follows. A quoted value must hold no escape.
fn parameter(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name, text) = text.split_at(text.iter().position(|byte| *byte == b'=')?);
    let text = &text[1..];
    let (value, text) = match text.strip_prefix(b"\"") {
        Some(quoted) => {
            let end = quoted.iter().position(|byte| *byte == b'"')?;
            (&quoted[..end], &quoted[end + 1..])
        }
        None => {
            let end = text.iter().position(|byte| !is_token_byte(*byte)).unwrap_or(text.len());
            (&text[..end], &text[end..])
        }
    };
    let plain = is_token(name) && !value.is_empty() && !value.contains(&b'\\');
    plain.then_some((name, value, text))
}

fn is_boundary(value: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(byte);
    value.len() <= 70 && value.iter().all(allowed)
}

fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_token_byte)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let white = bytes.iter().take_while(|byte| b" \t".contains(byte)).count();
    &bytes[white..]
}

fn trim_end(bytes: &[u8]) -> &[u8] {
    let white = bytes.iter().rev().take_while(|byte| b" \t".contains(byte)).count();
    &bytes[..bytes.len() - white]
}
