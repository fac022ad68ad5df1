//! A stored reply as `idem inspect` shows it.

use idem_core::reply::{Reply, StoredReply};
use serde_json::{Value, json};

use super::show::hex;
use super::text::{on_lines, on_one_line};

/// What it is: status, names of header fields, content type, length. With `shows` also what it
/// says.
pub(super) fn describe(reply: &StoredReply, shows: bool) -> Value {
    let reply = match reply {
        StoredReply::Full(reply) => reply,
        StoredReply::Tombstone(tombstone) => {
            return json!({
                "status": tombstone.status(),
                "too_large_to_keep": true,
                "body_bytes": tombstone.body_bytes_seen(),
            });
        }
    };
    let names = reply.headers().iter().map(|(name, _)| text(name));
    let mut shown = json!({
        "status": reply.status(),
        "content_type": content_type(reply),
        "headers": names.collect::<Vec<_>>(),
        "body_bytes": reply.body().map(|body| body.len()),
    });
    if shows {
        let fields = reply.headers().iter().map(|(name, value)| json!([text(name), text(value)]));
        shown["fields"] = fields.collect();
        if let Some(body) = reply.body() {
            match str::from_utf8(body) {
                Ok(text) => shown["body"] = text.into(),
                Err(_) => shown["body_hex"] = hex(body).into(),
            }
        }
    }
    shown
}

/// What a reply says, to be read by a person: header fields, an empty line, the body. Nothing that
/// it holds acts on the terminal.
pub(super) fn in_full(reply: &Reply) -> String {
    let mut shown = String::new();
    for (name, value) in reply.headers() {
        shown.push_str(&format!("{}: {}\n", on_one_line(&text(name)), on_one_line(&text(value))));
    }
    shown.push('\n');
    let body = reply.body().map(|body| &body[..]).unwrap_or_default();
    match str::from_utf8(body) {
        Ok(text) => shown.push_str(&on_lines(text)),
        Err(_) => shown.push_str(&format!("in hexadecimal: {}", hex(body))),
    }
    if !shown.ends_with('\n') {
        shown.push('\n');
    }
    shown
}

fn content_type(reply: &Reply) -> Option<String> {
    let mut fields = reply.headers().iter();
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"))?;
    Some(text(value))
}

/// As Latin-1 where it is not UTF-8, as old servers write header fields.
fn text(bytes: &[u8]) -> String {
    let as_latin1 = || bytes.iter().copied().map(char::from).collect();
    str::from_utf8(bytes).map_or_else(|_| as_latin1(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_shown_only_when_asked_for() {
        let reply = Reply::new(201).unwrap().with_header("Content-Type", "text/plain");
        let reply = reply.with_header("x-merchant", &b"Caf\xe9"[..]).with_body("hunter2 \u{1b}[2J");
        let stored = StoredReply::Full(reply.clone());
        let shape = describe(&stored, false);
        assert_eq!(
            shape,
            json!({
                "status": 201,
                "content_type": "text/plain",
                "headers": ["Content-Type", "x-merchant"],
                "body_bytes": 12,
            })
        );
        let shown = describe(&stored, true);
        assert_eq!(shown["fields"][1], json!(["x-merchant", "Café"]));
        assert_eq!(shown["body"], "hunter2 \u{1b}[2J");
        let text = in_full(&reply);
        assert_eq!(text, "Content-Type: text/plain\nx-merchant: Café\n\nhunter2 \\u{1b}[2J\n");
    }

    #[test]
    fn a_body_that_is_no_text_is_hexadecimal() {
        let reply = Reply::new(200).unwrap().with_body(&b"\xff\x00"[..]);
        let shown = describe(&StoredReply::Full(reply.clone()), true);
        assert_eq!((&shown["body"], &shown["body_hex"]), (&Value::Null, &json!("ff00")));
        assert_eq!(in_full(&reply), "\nin hexadecimal: ff00\n");
    }
}
