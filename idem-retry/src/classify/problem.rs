//! The type of a problem document (RFC 9457).

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::retry_after::only;

/// The most of a body that is read to find its problem type: 16 KiB.
pub const MAX_PROBLEM_BYTES: usize = 16 * 1024;

/// Whether these headers announce a problem document.
pub fn is_problem(headers: &HeaderMap) -> bool {
    let essence = only(headers, &CONTENT_TYPE).and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/problem+json"))
}

/// The `type` of a problem document; `None` for what is none, or is too large.
pub fn problem_type(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Document {
        r#type: String,
    }
    if body.len() > MAX_PROBLEM_BYTES {
        return None;
    }
    serde_json::from_slice::<Document>(body).ok().map(|document| document.r#type)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_type_is_read_and_nothing_else() {
        let body = br#"{"title":"x","error":{"type":"idempotency_error"},"type":"urn:a"}"#;
        assert_eq!(problem_type(body).as_deref(), Some("urn:a"));
        let huge = format!("{{\"type\":\"urn:a\",\"x\":\"{}\"}}", "x".repeat(MAX_PROBLEM_BYTES));
        for none in ["", "{}", "[]", r#"{"type":1}"#, r#"{"type":"a","type":"b"}"#, "{", &huge] {
            assert_eq!(problem_type(none.as_bytes()), None, "{none:.40}");
        }
        let deep = "[".repeat(MAX_PROBLEM_BYTES);
        assert_eq!(problem_type(deep.as_bytes()), None);
    }

    #[test]
    fn the_content_type_may_have_parameters() {
        for (text, expected) in [
            ("application/problem+json", true),
            ("Application/Problem+JSON ; charset=utf-8", true),
            ("application/json", false),
            ("application/problem+json2", false),
        ] {
            let headers = [(CONTENT_TYPE, HeaderValue::from_static(text))].into_iter().collect();
            assert_eq!(is_problem(&headers), expected, "{text}");
        }
        assert!(!is_problem(&HeaderMap::new()));
    }
}
