//! What an answer, or its absence, says about the next try.

use std::time::SystemTime;

use http::{HeaderMap, Method, StatusCode};
use idem_core::relay::SinkError;
use idem_retry::classify::{Answer, Fault, HttpRules, Traits};
use idem_retry::{Class, Reason, retry_after};

/// Whether the receiver has the message, and else whether another try is worth it.
///
/// [`HttpRules`] say what would fail again. That alone makes no poison: a relay outlives a wrong
/// credential, a late deployment and a missing route, so only a refusal of the message itself
/// does, and an answer that is stored under the message's key, or forbids another try.
pub(crate) fn read(
    rules: &HttpRules,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<(), SinkError> {
    if status.is_success() {
        return Ok(());
    }
    let now = SystemTime::now();
    let reason = format!("HTTP {}", status.as_u16());
    let is_error = status.is_client_error() || status.is_server_error();
    Err(match rules.answer(keyed(), &Answer::new(status, headers, now)) {
        Class::Replayed => stored(&reason),
        // A 303 settles too, but may lead to a login page.
        Class::Answered { settles: true } if is_error => stored(&reason),
        Class::Permanent { reason: Reason::ToldNotTo, .. } => {
            SinkError::poison(format!("{reason}, which the receiver says not to try again"))
        }
        Class::Answered { .. } if refuses_the_message(status) => SinkError::poison(reason),
        _ => {
            let error = SinkError::retryable(reason);
            match retry_after(headers, now) {
                Some(wait) => error.retry_after(wait),
                None => error,
            }
        }
    })
}

/// What it means that there is no answer.
pub(crate) fn absent(rules: &HttpRules, fault: Fault) -> SinkError {
    let reason = match fault {
        Fault::NotSent => "the receiver cannot be reached",
        _ => "the connection to the receiver broke",
    };
    match rules.fault(keyed(), fault) {
        Class::Transient(_) => SinkError::retryable(reason),
        _ => SinkError::poison(reason),
    }
}

/// Every delivery is a POST under the message's id.
fn keyed() -> Traits {
    Traits::of(&Method::POST, true)
}

fn stored(reason: &str) -> SinkError {
    SinkError::poison(format!("{reason}, which the receiver has stored"))
}

/// Whether a final answer with this status is about what was sent, not about who sent it, where
/// to, or when.
fn refuses_the_message(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 410 | 413 | 414 | 415 | 422 | 431)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &'static str)]) -> Result<(), SinkError> {
        let headers = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        let rules = HttpRules::new().retry_500(true);
        read(&rules, StatusCode::from_u16(status).unwrap(), &headers.collect())
    }

    #[test]
    fn success_is_delivered_and_a_stored_failure_is_final() {
        for status in [200, 201, 202, 204] {
            assert!(answer(status, &[]).is_ok(), "{status}");
            assert!(answer(status, &[("idempotent-replayed", "true")]).is_ok(), "{status}");
        }
        for status in [404, 409, 429, 500, 503] {
            let replayed = answer(status, &[("idempotent-replayed", "true")]).unwrap_err();
            assert!(replayed.is_poison(), "{status}");
            let lifetime = ("idempotency-key-lifetime", "60");
            assert!(answer(status, &[lifetime]).unwrap_err().is_poison(), "{status}");
            let error = answer(status, &[lifetime, ("idempotency-stored", "false")]).unwrap_err();
            assert!(!error.is_poison(), "{status}");
        }
    }

    #[test]
    fn only_a_refusal_of_the_message_itself_is_poison() {
        for status in [400, 410, 413, 414, 415, 422, 431] {
            assert!(answer(status, &[]).unwrap_err().is_poison(), "{status}");
        }
        for status in [
            300, 301, 303, 307, 401, 403, 404, 405, 408, 409, 425, 429, 500, 501, 502, 503, 504,
            505, 507, 529,
        ] {
            assert!(!answer(status, &[]).unwrap_err().is_poison(), "{status}");
        }
    }

    #[test]
    fn what_the_receiver_says_of_a_retry_counts_more_than_the_status() {
        for name in ["x-should-retry", "stripe-should-retry"] {
            assert!(answer(503, &[(name, "false")]).unwrap_err().is_poison());
            assert!(!answer(400, &[(name, "true")]).unwrap_err().is_poison());
        }
        // A key that is kept no longer is no protection.
        assert!(answer(503, &[("idempotency-key-lifetime", "0")]).unwrap_err().is_poison());
    }

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date_by_the_receivers_own_clock() {
        fn wait(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
            answer(503, headers).unwrap_err().asked_wait()
        }
        assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        // Its clock is decades behind.
        let sent = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let until = ("retry-after", "Sunday, 06-Nov-94 08:50:37 GMT");
        assert_eq!(wait(&[sent, until]), Some(Duration::from_secs(60)));
        assert_eq!(wait(&[("retry-after", "-1")]), None);
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        let unavailable = answer(401, &[("retry-after", "9")]).unwrap_err();
        assert_eq!(unavailable.asked_wait(), Some(Duration::from_secs(9)));
    }

    #[test]
    fn what_never_arrived_is_tried_again_since_every_delivery_has_a_key() {
        let rules = HttpRules::new();
        for fault in [Fault::NotSent, Fault::NotProcessed, Fault::Lost, Fault::AnswerCut] {
            assert!(!absent(&rules, fault).is_poison(), "{fault:?}");
        }
        assert!(absent(&rules, Fault::Unusable).is_poison());
    }
}
