//! What a gRPC status in the head of an answer means.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};

use super::{Answer, HttpRules, Traits};
use crate::class::{Applied, Class, Reason, Transient};
use crate::retry_after::{MAX_HINT, only};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The status that stands in the head of an answer, when a server sends nothing but trailers:
/// UNAVAILABLE (14) is read as a 503, RESOURCE_EXHAUSTED (8) as a 429, any other as final.
/// `grpc-retry-pushback-ms` is the server's hint; a negative or unreadable one says not to retry
/// (gRPC proposal A6). `None` where there is no status, or an answer is marked as a replay.
pub(crate) fn grpc(rules: &HttpRules, request: Traits, headers: &HeaderMap) -> Option<Class> {
    let status = only(headers, &STATUS)?;
    // A replay is final, and success is an answer: as the rules have it.
    let answer = Answer::new(StatusCode::OK, headers, std::time::SystemTime::UNIX_EPOCH);
    let plain = rules.answer(request, &answer);
    if plain == Class::Replayed || status == "0" {
        return Some(plain);
    }
    let transient = match status {
        "14" => Transient::new(Applied::Maybe),
        "8" => Transient::new(Applied::Unlikely).throttled(),
        // DEADLINE_EXCEEDED, INTERNAL, UNKNOWN, DATA_LOSS, ABORTED, CANCELLED: nobody knows.
        "4" | "13" | "2" | "15" | "10" | "1" => {
            let applied = request.weigh(Applied::Maybe);
            return Some(Class::Permanent { applied, reason: Reason::WouldFailAgain });
        }
        _ => return Some(Class::Answered { settles: false }),
    };
    let hint = match headers.get(&PUSHBACK) {
        None => None,
        Some(_) => match only(headers, &PUSHBACK).and_then(|text| text.parse().ok()) {
            Some(milliseconds) => Some(Duration::from_millis(milliseconds).min(MAX_HINT)),
            None => {
                let applied = request.weigh(transient.applied());
                return Some(Class::Permanent { applied, reason: Reason::ToldNotTo });
            }
        },
    };
    Some(request.failed(transient.hint(hint)))
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method};

    use super::*;

    fn read(keyed: bool, headers: &[(HeaderName, &'static str)]) -> Option<Class> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect();
        grpc(&HttpRules::new(), Traits::of(&Method::POST, keyed), &headers)
    }

    #[test]
    fn a_status_in_the_head_is_read_and_nothing_else() {
        let maybe = Applied::Maybe;
        assert_eq!(read(true, &[]), None);
        assert_eq!(read(true, &[(STATUS, "0")]), Some(Class::answered()));
        assert_eq!(read(true, &[(STATUS, "14")]), Some(Class::transient(maybe)));
        assert_eq!(
            read(false, &[(STATUS, "14")]),
            Some(Class::Permanent { applied: maybe, reason: Reason::Unprotected })
        );
        assert_eq!(read(true, &[(STATUS, "3")]), Some(Class::Answered { settles: false }));
        assert_eq!(read(true, &[(STATUS, "13")]), Some(Class::permanent(maybe)));
        let throttled = Transient::new(Applied::Unlikely).throttled();
        assert_eq!(read(true, &[(STATUS, "8")]), Some(throttled.into()));
    }

    #[test]
    fn pushback_is_a_hint_or_says_not_to() {
        let hinted = Transient::new(Applied::Maybe).hint(Some(Duration::from_millis(250)));
        assert_eq!(read(true, &[(STATUS, "14"), (PUSHBACK, "250")]), Some(hinted.into()));
        for text in ["-1", "soon", ""] {
            assert_eq!(
                read(true, &[(STATUS, "14"), (PUSHBACK, text)]),
                Some(Class::Permanent { applied: Applied::Maybe, reason: Reason::ToldNotTo }),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_replay_is_final_whatever_its_status() {
        let replayed = HeaderName::from_static("idempotent-replayed");
        let headers = [(STATUS, "14"), (replayed, "true")];
        assert_eq!(read(true, &headers), Some(Class::Replayed));
    }
}
