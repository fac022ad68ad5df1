//! How answers are compared: byte for byte, but for what says when and how often they were sent.

use crate::wire::{Answer, WireError};

/// Header fields that may differ between an answer and its replay: the instant, the mark of a
/// replay, and the lifetime, which counts down.
const MAY_DIFFER: [&str; 3] = ["date", "idempotent-replayed", "idempotency-key-lifetime"];

/// What must be equal in a replay: status, header fields in their order, body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Substance<'a> {
    status: u16,
    headers: Vec<(&'a str, &'a [u8])>,
    body: &'a [u8],
}

/// The substance of an answer; `None` when there was none.
pub(super) fn substance(answer: &Result<Answer, WireError>) -> Option<Substance<'_>> {
    let answer = answer.as_ref().ok()?;
    let headers = answer.headers_without(&MAY_DIFFER);
    Some(Substance { status: answer.status, headers, body: &answer.body })
}

/// The status of an answer; 0 when there was none.
pub(super) fn status(answer: &Result<Answer, WireError>) -> u16 {
    answer.as_ref().map_or(0, |answer| answer.status)
}

/// Whether an answer is marked as a replay.
pub(super) fn is_replay(answer: &Result<Answer, WireError>) -> bool {
    header(answer, "idempotent-replayed").as_deref() == Some("true")
}

/// A header field of an answer, as text.
pub(super) fn header(answer: &Result<Answer, WireError>, name: &str) -> Option<String> {
    answer.as_ref().ok()?.text(name)
}

/// The `type` of an answer that is a problem document.
pub(super) fn problem_type(answer: &Result<Answer, WireError>) -> String {
    let document = answer.as_ref().map(Answer::json).unwrap_or_default();
    document["type"].as_str().unwrap_or("none").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &[(&str, &[u8])]) -> Result<Answer, WireError> {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), value.to_vec()));
        Ok(Answer { status: 201, headers: headers.collect(), body: b"{}".to_vec() })
    }

    #[test]
    fn a_replay_is_equal_but_for_its_marks() {
        let first = answer(&[("x", b"\xe9"), ("date", b"1"), ("set-cookie", b"a")]);
        let replay = answer(&[
            ("x", b"\xe9"),
            ("set-cookie", b"a"),
            ("Idempotent-Replayed", b"true"),
            ("date", b"2"),
        ]);
        assert_eq!(substance(&first), substance(&replay));
        assert!(is_replay(&replay) && !is_replay(&first));
    }

    #[test]
    fn order_bytes_and_repeats_count() {
        let first = answer(&[("a", b"1"), ("b", b"2")]);
        for other in [
            answer(&[("b", b"2"), ("a", b"1")]),
            answer(&[("a", b"1"), ("b", b"2"), ("b", b"2")]),
            answer(&[("a", b"1"), ("B", b"2")]),
            answer(&[("a", b"1")]),
            Err(WireError::Malformed("")),
        ] {
            assert_ne!(substance(&first), substance(&other));
        }
    }
}
