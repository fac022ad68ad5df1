//! What an answer says about the next try.

use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use idem_core::relay::SinkError;

/// How idem marks an answer that it has stored. It is the same for ever.
const REPLAYED: &str = "idempotent-replayed";

/// Whether the receiver has the message, and else whether another try is worth it.
///
/// A refusal of this very message is poison: 400, 410, 413, 414, 415, 422, 431, and any failure
/// that is marked as a stored answer. All else may be mended on the other side: a server that is
/// down, a missing route, a credential that ran out.
pub(crate) fn read(status: StatusCode, headers: &HeaderMap) -> Result<(), SinkError> {
    if status.is_success() {
        return Ok(());
    }
    let reason = format!("HTTP {}", status.as_u16());
    let is_replay = headers.get(REPLAYED).is_some_and(|value| value == "true");
    if is_replay {
        return Err(SinkError::poison(format!("{reason}, which the receiver has stored")));
    }
    if matches!(status.as_u16(), 400 | 410 | 413 | 414 | 415 | 422 | 431) {
        return Err(SinkError::poison(reason));
    }
    let error = SinkError::retryable(reason);
    Err(match retry_after(headers) {
        Some(wait) => error.retry_after(wait),
        None => error,
    })
}

/// Seconds or a date (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &'static str)]) -> Result<(), SinkError> {
        let headers = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        read(StatusCode::from_u16(status).unwrap(), &headers.collect())
    }

    #[test]
    fn success_is_delivered_and_a_stored_failure_is_final() {
        for status in [200, 201, 202, 204] {
            assert!(answer(status, &[]).is_ok(), "{status}");
            assert!(answer(status, &[("idempotent-replayed", "true")]).is_ok(), "{status}");
        }
        for status in [409, 429, 500, 503] {
            let replayed = answer(status, &[("idempotent-replayed", "true")]).unwrap_err();
            assert!(replayed.is_poison(), "{status}");
        }
    }

    #[test]
    fn only_a_refusal_of_the_message_itself_is_poison() {
        for status in [400, 410, 413, 414, 415, 422, 431] {
            assert!(answer(status, &[]).unwrap_err().is_poison(), "{status}");
        }
        for status in [301, 307, 401, 403, 404, 405, 408, 409, 425, 429, 500, 502, 503, 504] {
            assert!(!answer(status, &[]).unwrap_err().is_poison(), "{status}");
        }
    }

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date() {
        let wait = |value: &str| {
            let value = http::HeaderValue::from_str(value).unwrap();
            retry_after(&[(RETRY_AFTER, value)].into_iter().collect())
        };
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        let future = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(600));
        let bounds = Duration::from_secs(500)..=Duration::from_secs(600);
        assert!(bounds.contains(&wait(&future).unwrap()));
        assert_eq!(wait("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("soon"), None);
    }
}
