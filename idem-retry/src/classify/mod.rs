//! What an answer or a failure of HTTP means for the call.
//!
//! It knows of no client library: an adapter says what it saw.
//!
//! ```
//! use std::time::SystemTime;
//! use http::{HeaderMap, Method, StatusCode};
//! use idem_retry::classify::{Answer, Fault, HttpRules, Traits};
//! use idem_retry::{Applied, Class, Reason};
//!
//! let rules = HttpRules::new();
//! // A POST whose connection broke: with a key it may be repeated, without one it may not.
//! let keyed = Traits::of(&Method::POST, true);
//! assert!(matches!(rules.fault(keyed, Fault::Lost), Class::Transient(_)));
//! let bare = Traits::of(&Method::POST, false);
//! assert_eq!(
//!     rules.fault(bare, Fault::Lost),
//!     Class::Permanent { applied: Applied::Maybe, reason: Reason::Unprotected },
//! );
//! // What never left may always be sent again.
//! assert!(matches!(rules.fault(bare, Fault::NotSent), Class::Transient(_)));
//!
//! let headers = HeaderMap::new();
//! let refused = Answer::new(StatusCode::UNPROCESSABLE_ENTITY, &headers, SystemTime::now());
//! assert_eq!(rules.answer(keyed, &refused), Class::Answered { settles: false });
//! ```
//!
//! # The table
//! | what came back | had its effect | without a key | with one |
//! |---|---|---|---|
//! | nothing: it never left, or the server says that it did not look at it | no | retried | retried |
//! | nothing: broken off or timed out after a byte was written | maybe | idempotent methods | retried |
//! | an answer that broke off | likely | idempotent methods | retried |
//! | 425; 408 on a fresh connection | no | retried | retried |
//! | 429, other 408, 503 that says when to come back | unlikely | idempotent methods | retried |
//! | 502, 504, other 503; 500 if so chosen | maybe | idempotent methods | retried |
//! | 409 with the problem type of "the first one still runs" | maybe | final | retried |
//! | 503 with the problem type of "the reply was not stored" or "the record is corrupt" | maybe | idempotent methods | retried |
//! | an answer that is marked as a replay, or as stored under the key | settled | | final |
//! | 1xx, 2xx, 303 | settled | final | final |
//! | any other 3xx | | final | final |
//! | any other 4xx, 501, 505 | | final | final |
//! | other 5xx | maybe | final | final |
//!
//! A server's `x-should-retry` (and Stripe's spelling) beats the statuses, and nothing else: `true`
//! does not repeat what is not protected or settled. A key whose published lifetime is over is no
//! protection. Nothing of a GET ever counts as applied.

mod answer;
#[cfg(feature = "tower")]
mod grpc;
mod problem;
mod rules;

use http::Method;

pub use answer::Answer;
#[cfg(feature = "tower")]
pub(crate) use grpc::grpc;
pub use problem::{MAX_PROBLEM_BYTES, is_problem, problem_type};
pub use rules::HttpRules;

use crate::class::{Applied, Class, Reason, Transient};

/// What is known of a request before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Traits {
    safety: Safety,
    is_keyed: bool,
}

/// What a method promises (RFC 9110, section 9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Safety {
    /// It asks for no effect: GET, HEAD, OPTIONS, TRACE.
    Safe,
    /// Twice is the same as once: PUT, DELETE.
    Idempotent,
    /// Twice may be twice: everything else.
    Neither,
}

/// Why there is no whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// It never left: no address, connection refused or timed out, the TLS handshake failed, no
    /// connection from the pool.
    NotSent,
    /// The server says that it did not look at it: REFUSED_STREAM, or a GOAWAY with a lower
    /// stream (RFC 9113, section 8.7), H3_REQUEST_REJECTED.
    NotProcessed,
    /// The connection broke, or the time was over, after a byte may have been written. An end of
    /// file is one too: it can follow full processing.
    Lost,
    /// The answer had begun and was cut off.
    AnswerCut,
    /// The request cannot be made: its URL or its headers are wrong, its body failed.
    Unusable,
}

impl Traits {
    /// What the method promises, and whether there is an idempotency key that the server honours.
    pub fn of(method: &Method, is_keyed: bool) -> Self {
        Self { safety: Safety::of(method), is_keyed }
    }

    /// Where the caller knows better than the method, as of a POST that only searches.
    pub fn new(safety: Safety, is_keyed: bool) -> Self {
        Self { safety, is_keyed }
    }

    /// What the method promises.
    pub fn safety(self) -> Safety {
        self.safety
    }

    /// Whether there is a key.
    pub fn is_keyed(self) -> bool {
        self.is_keyed
    }

    /// Whether a repetition has no second effect.
    pub fn is_protected(self) -> bool {
        self.is_keyed || self.safety != Safety::Neither
    }

    /// What has no effect was not applied.
    fn weigh(self, applied: Applied) -> Applied {
        if self.safety == Safety::Safe { Applied::No } else { applied }
    }

    /// A failure that may pass: retried if that is safe.
    fn failed(self, transient: Transient) -> Class {
        if transient.applied != Applied::No && !self.is_protected() {
            let applied = transient.applied;
            return Class::Permanent { applied, reason: Reason::Unprotected };
        }
        Transient { applied: self.weigh(transient.applied), ..transient }.into()
    }
}

impl Safety {
    /// What the method promises.
    pub fn of(method: &Method) -> Self {
        if method.is_safe() {
            Self::Safe
        } else if method.is_idempotent() {
            Self::Idempotent
        } else {
            Self::Neither
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotSent => "nothing was sent",
            Self::NotProcessed => "the server did not look at the request",
            Self::Lost => "the connection broke",
            Self::AnswerCut => "the answer was cut off",
            Self::Unusable => "the request cannot be made",
        })
    }
}

impl Fault {
    /// Whether the request had its effect.
    pub fn applied(self) -> Applied {
        match self {
            Self::NotSent | Self::NotProcessed | Self::Unusable => Applied::No,
            Self::Lost => Applied::Maybe,
            Self::AnswerCut => Applied::Likely,
        }
    }
}
