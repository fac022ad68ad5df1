//! The table, with its settings.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};

use super::{Answer, Fault, Traits};
use crate::class::{Applied, Class, Reason, Transient};
use crate::retry_after::{only, retry_after};

/// How answers and failures of HTTP are read. The defaults are the names of `idem-http`.
#[derive(Debug, Clone)]
#[must_use]
pub struct HttpRules {
    replayed_header: HeaderName,
    lifetime_header: HeaderName,
    stored_header: HeaderName,
    in_flight_types: Vec<String>,
    uncertain_types: Vec<String>,
    retries_500: bool,
}

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const LIFETIME: HeaderName = HeaderName::from_static("idempotency-key-lifetime");
const STORED: HeaderName = HeaderName::from_static("idempotency-stored");
const SHOULD_RETRY: [HeaderName; 2] =
    [HeaderName::from_static("x-should-retry"), HeaderName::from_static("stripe-should-retry")];
const PROBLEM_BASE: &str = "urn:idem:problem:";

/// The first request still runs, or another one has taken it over.
const IN_FLIGHT: [&str; 2] = ["key-in-use", "lease-lost"];

/// A 409 that waiting does not end, or a 503 that says more than "later": somebody has to look
/// whether it was done.
const UNCERTAIN: [&str; 4] =
    ["outcome-unknown", "outcome-held", "reply-not-stored", "record-corrupt"];

impl HttpRules {
    /// The rules for a server of `idem-http` as it is by default.
    pub fn new() -> Self {
        let rules = Self {
            replayed_header: REPLAYED,
            lifetime_header: LIFETIME,
            stored_header: STORED,
            in_flight_types: Vec::new(),
            uncertain_types: Vec::new(),
            retries_500: false,
        };
        rules.problem_base(PROBLEM_BASE)
    }

    /// The response header that marks a stored answer with `true`.
    pub fn replayed_header(mut self, name: HeaderName) -> Self {
        self.replayed_header = name;
        self
    }

    /// The response header that says for how many more seconds the key is kept:
    /// `idempotency-key-lifetime` unless set.
    pub fn lifetime_header(mut self, name: HeaderName) -> Self {
        self.lifetime_header = name;
        self
    }

    /// The response header that says with `false` that the answer was not stored under the key:
    /// `idempotency-stored` unless set.
    pub fn stored_header(mut self, name: HeaderName) -> Self {
        self.stored_header = name;
        self
    }

    /// What stands before the last part of the server's problem types; `urn:idem:problem:` unless
    /// set.
    pub fn problem_base(mut self, base: &str) -> Self {
        let all = |names: &[&str]| names.iter().map(|name| format!("{base}{name}")).collect();
        (self.in_flight_types, self.uncertain_types) = (all(&IN_FLIGHT), all(&UNCERTAIN));
        self
    }

    /// One more problem type with which a 409 says that the first request still runs.
    pub fn in_flight_type(mut self, uri: impl Into<String>) -> Self {
        self.in_flight_types.push(uri.into());
        self
    }

    /// Retries a 500 like a 502. Right for a server that frees or resumes its keys on 5xx; one
    /// that stores a 500 under its key gives the same one again.
    pub fn retry_500(mut self, retries: bool) -> Self {
        self.retries_500 = retries;
        self
    }

    /// Whether the body is needed to tell what this answer is: a 409 or a 503 with a problem
    /// document. A 503 may say that the work was done and its reply could not be stored.
    /// Read at most [`MAX_PROBLEM_BYTES`](super::MAX_PROBLEM_BYTES) of it, and give its type to
    /// [`Answer::problem_type`].
    pub fn needs_problem(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let may_be_ours = [StatusCode::CONFLICT, StatusCode::SERVICE_UNAVAILABLE];
        may_be_ours.contains(&status) && super::is_problem(headers)
    }

    /// Whether an answer to a keyed request says that the first one still runs.
    pub(crate) fn is_in_flight(&self, request: Traits, answer: &Answer<'_>) -> bool {
        let is_conflict = answer.status == StatusCode::CONFLICT && request.is_keyed();
        is_conflict && is_one_of(&self.in_flight_types, answer)
    }

    /// What it means that there is no whole answer. A timeout is [`Fault::Lost`], unless it is
    /// known that nothing was sent.
    pub fn fault(&self, request: Traits, fault: Fault) -> Class {
        if fault == Fault::Unusable {
            return Class::permanent(Applied::No);
        }
        request.failed(Transient::new(fault.applied()))
    }

    /// What an answer means.
    pub fn answer(&self, request: Traits, answer: &Answer<'_>) -> Class {
        let (status, headers) = (answer.status, answer.headers);
        if says(headers, &self.replayed_header, "true") {
            return Class::Replayed;
        }
        if !(status.is_client_error() || status.is_server_error()) {
            // A redirect to somewhere else, a login page say, tells nothing of an earlier attempt.
            let settles = !status.is_redirection() || status == StatusCode::SEE_OTHER;
            return Class::Answered { settles };
        }
        let lifetime = only(headers, &self.lifetime_header).and_then(|text| text.parse().ok());
        let lifetime = lifetime.map(Duration::from_secs).filter(|_| request.is_keyed());
        if lifetime.is_some_and(|left| !left.is_zero())
            && !says(headers, &self.stored_header, "false")
        {
            return Class::Answered { settles: true };
        }
        let transient = self.transient(request, answer);
        let may_pass = match should_retry(headers) {
            Some(false) if transient.is_some() => {
                return self.final_failure(request, answer, Reason::ToldNotTo);
            }
            Some(true) => Some(transient.unwrap_or(self.asked_again(request, answer))),
            _ => transient,
        };
        match may_pass {
            Some(_) if lifetime.is_some_and(|left| left.is_zero()) => {
                self.final_failure(request, answer, Reason::ToldNotTo)
            }
            Some(transient) => {
                let hint = retry_after(headers, answer.now);
                request.failed(transient.hint(hint).key_lifetime(lifetime))
            }
            None => self.final_failure(request, answer, Reason::WouldFailAgain),
        }
    }

    /// A failure that may pass, whoever is allowed to repeat it.
    fn transient(&self, request: Traits, answer: &Answer<'_>) -> Option<Transient> {
        let (status, headers) = (answer.status, answer.headers);
        let has_hint = retry_after(headers, answer.now).is_some();
        let transient = match status {
            StatusCode::TOO_EARLY => Transient::new(Applied::No),
            StatusCode::REQUEST_TIMEOUT if answer.is_fresh_connection => {
                Transient::new(Applied::No)
            }
            StatusCode::REQUEST_TIMEOUT => Transient::new(Applied::Unlikely),
            StatusCode::TOO_MANY_REQUESTS => Transient::new(Applied::Unlikely).throttled(),
            StatusCode::SERVICE_UNAVAILABLE if is_one_of(&self.uncertain_types, answer) => {
                Transient::new(Applied::Maybe)
            }
            StatusCode::SERVICE_UNAVAILABLE if has_hint => {
                Transient::new(Applied::Unlikely).throttled()
            }
            StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::BAD_GATEWAY
            | StatusCode::GATEWAY_TIMEOUT => Transient::new(Applied::Maybe),
            StatusCode::INTERNAL_SERVER_ERROR if self.retries_500 => Transient::new(Applied::Maybe),
            StatusCode::CONFLICT if self.is_in_flight(request, answer) => {
                Transient::new(Applied::Maybe)
            }
            _ => return None,
        };
        Some(transient)
    }

    /// An answer that is final by its status, and that the server wants to be asked for again.
    fn asked_again(&self, request: Traits, answer: &Answer<'_>) -> Transient {
        // Whatever a 409 means to this server, the first request may be under way.
        let is_open = answer.status == StatusCode::CONFLICT && request.is_keyed();
        let is_open = is_open || is_one_of(&self.uncertain_types, answer);
        Transient::new(if is_open { Applied::Maybe } else { settled_applied(answer.status) })
    }

    fn final_failure(&self, request: Traits, answer: &Answer<'_>, reason: Reason) -> Class {
        let transient = self.transient(request, answer).map(|transient| transient.applied);
        let applied = request.weigh(transient.unwrap_or(settled_applied(answer.status)));
        let is_uncertain = is_one_of(&self.uncertain_types, answer);
        if is_uncertain || applied.is_uncertain() || transient.is_some() {
            let applied = if is_uncertain { Applied::Maybe } else { applied };
            return Class::Permanent { applied, reason };
        }
        Class::Answered { settles: false }
    }
}

impl Default for HttpRules {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a final answer with this status leaves open what was done.
fn settled_applied(status: StatusCode) -> Applied {
    let is_refusal = status.is_client_error()
        || matches!(status, StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    if is_refusal { Applied::Unlikely } else { Applied::Maybe }
}

fn is_one_of(types: &[String], answer: &Answer<'_>) -> bool {
    answer.problem_type.is_some_and(|found| types.iter().any(|known| known == found))
}

fn should_retry(headers: &HeaderMap) -> Option<bool> {
    let name = SHOULD_RETRY.into_iter().find(|name| headers.contains_key(name))?;
    match only(headers, &name)? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn says(headers: &HeaderMap, name: &HeaderName, text: &str) -> bool {
    only(headers, name).is_some_and(|value| value.trim().eq_ignore_ascii_case(text))
}
