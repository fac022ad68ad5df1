//! How HTTP calls are retried.

use std::time::Duration;

use http::{Extensions, HeaderMap, HeaderName, Method, StatusCode};

use super::Seen;
use crate::attempt::Attempt;
use crate::class::{Attempted, Class};
use crate::classify::{Answer, Fault, HttpRules, Traits};
use crate::destination::Destination;
use crate::key::{IdempotencyKey, KEY_HEADER};
use crate::outcome::{Last, Outcome};
use crate::policy::Policy;
use crate::retry::{CallOptions, Retry};
use crate::retry_after::only;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// How HTTP calls are retried: the settings that all adapters share.
///
/// A call is keyed when its request carries the key header, as the caller set it or as
/// [`makes_keys`](Self::makes_keys) does. An [`IdempotencyKey`] among the extensions of a request
/// sets it too, unless the header is there; a [`Traits`] says otherwise for that request.
///
/// Timeouts follow what was measured at the destination for requests whose methods promise the
/// same ([`Destination::latency_of`]): a rare POST is not cut off by what GETs take. Where POSTs of
/// two kinds go to one host, one quick and frequent and one slow and rare, give one of them a
/// [`destination`](Self::destination) of its own, or both a fixed timeout.
#[derive(Debug, Clone)]
#[must_use]
pub struct HttpRetry {
    retry: Retry,
    rules: HttpRules,
    key_header: HeaderName,
    makes_keys: bool,
    key_lifetime: Option<Duration>,
    announces: bool,
    follows_redirects: bool,
    destination: Option<Destination>,
}

/// What the caller says of one request besides its headers.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) traits: Option<Traits>,
    pub(crate) key: Option<IdempotencyKey>,
}

/// What is decided before the first attempt.
#[derive(Debug)]
pub(crate) struct Prepared {
    settings: HttpRetry,
    destination: Destination,
    traits: Traits,
    options: CallOptions,
}

impl HttpRetry {
    /// With a policy, the names of `idem-http`, and one destination for each host and port.
    pub fn new(policy: Policy) -> Self {
        Self::with(Retry::new(policy))
    }

    /// With a clock and randomness of the caller's.
    pub fn with(retry: Retry) -> Self {
        Self {
            retry,
            rules: HttpRules::new(),
            key_header: KEY_HEADER,
            makes_keys: false,
            key_lifetime: None,
            announces: true,
            follows_redirects: true,
            destination: None,
        }
    }

    /// How answers and failures are read.
    pub fn rules(mut self, rules: HttpRules) -> Self {
        self.rules = rules;
        self
    }

    /// The request header that carries the key.
    pub fn key_header(mut self, name: HeaderName) -> Self {
        self.key_header = name;
        self
    }

    /// Gives every POST and PATCH without a key a random one, the same on each attempt.
    ///
    /// Only for servers that honour keys: a server that ignores the header has the effect again on
    /// each retry. And only where the process itself is the one that would try again; a key that
    /// must outlive it is made where the call is decided on ([`IdempotencyKey`]).
    pub fn makes_keys(mut self, makes: bool) -> Self {
        self.makes_keys = makes;
        self
    }

    /// For how long the server keeps a key, as its contract says.
    pub fn key_lifetime(mut self, lifetime: Duration) -> Self {
        self.key_lifetime = Some(lifetime);
        self
    }

    /// Whether attempts carry the [attempt header](crate::ATTEMPT_HEADER). They do unless this
    /// says no, as for a server whose signature covers all headers.
    pub fn announces(mut self, announces: bool) -> Self {
        self.announces = announces;
        self
    }

    /// Whether the client follows redirects inside one attempt. It does, unless this says no: then
    /// a connection that was refused, or a URL that was wrong, may be those of a second hop, after
    /// the first one had its effect, and nothing tells them apart. They count as
    /// [`Fault::Lost`], so that an unprotected request is sent once.
    ///
    /// Say no where the client is so built; then what never left may be sent again without a key.
    pub fn follows_redirects(mut self, follows: bool) -> Self {
        self.follows_redirects = follows;
        self
    }

    /// One destination for all calls, instead of one for each host and port.
    pub fn destination(mut self, destination: Destination) -> Self {
        self.destination = Some(destination);
        self
    }

    /// Sets the key where one is to be made, and decides what holds for the whole call.
    pub(crate) fn prepare(
        &self,
        method: &Method,
        destination: &str,
        headers: &mut HeaderMap,
        said: Said,
        one_shot: bool,
    ) -> Prepared {
        if let Some(key) = said.key {
            key.set_unless_present(headers, &self.key_header);
        }
        if self.makes_keys && (method == Method::POST || method == Method::PATCH) {
            IdempotencyKey::random().set_unless_present(headers, &self.key_header);
        }
        let is_keyed = headers.contains_key(&self.key_header);
        let traits = said.traits.unwrap_or_else(|| Traits::of(method, is_keyed));
        let mut options = CallOptions::default().one_shot(one_shot).safety(traits.safety());
        if let Some(lifetime) = self.key_lifetime.filter(|_| is_keyed) {
            options = options.key_lifetime(lifetime);
        }
        let shared = self.destination.clone();
        Prepared {
            settings: self.clone(),
            destination: shared.unwrap_or_else(|| Destination::named(destination)),
            traits,
            options,
        }
    }
}

impl Said {
    /// What stands among the extensions of a request.
    pub(crate) fn in_extensions(extensions: &Extensions) -> Self {
        Self { traits: extensions.get().copied(), key: extensions.get().cloned() }
    }
}

impl Prepared {
    /// Marks the headers of one attempt.
    pub(crate) fn announce(&self, attempt: Attempt, headers: &mut HeaderMap) {
        if self.settings.announces {
            attempt.announce(headers);
        }
    }

    /// How answers are read.
    pub(crate) fn rules(&self) -> &HttpRules {
        &self.settings.rules
    }

    /// What is known not to have left, only where it is known of every hop and of every byte.
    fn cautious(&self, fault: Fault) -> Fault {
        let never_left = matches!(fault, Fault::NotSent | Fault::Unusable);
        if never_left && self.settings.follows_redirects { Fault::Lost } else { fault }
    }

    /// Makes the attempts. `head` shows what is read of an answer, `judge` may read it otherwise
    /// than the rules do, and `cause_of` names what an error comes from, without the URL.
    pub(crate) async fn run<R, E, F, Fut>(
        &self,
        head: impl Fn(&R) -> (StatusCode, &HeaderMap),
        judge: impl Fn(&HttpRules, Traits, &HeaderMap) -> Option<Class>,
        fault_of: impl Fn(&E) -> Fault,
        cause_of: impl Fn(&E) -> String,
        op: F,
    ) -> Outcome<Seen<R>, E>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<Seen<R>, E>>,
    {
        let Self { settings: HttpRetry { retry, rules, .. }, traits, .. } = self;
        let classify = |attempted: Attempted<'_, Seen<R>, E>| match attempted {
            Attempted::Answer(seen) => {
                let (status, headers) = head(&seen.response);
                judge(rules, *traits, headers).unwrap_or_else(|| {
                    let answer = Answer::new(status, headers, retry.time_of_day());
                    rules.answer(*traits, &answer.problem_type(seen.problem_type.as_deref()))
                })
            }
            Attempted::Error(error) => rules.fault(*traits, self.cautious(fault_of(error))),
            // How far it came is not known.
            Attempted::TimedOut => rules.fault(*traits, Fault::Lost),
        };
        let mut outcome = retry.call_with(&self.destination, self.options, classify, op).await;
        let (Outcome::GaveUp(end) | Outcome::Unknown(end)) = &mut outcome else { return outcome };
        match &end.last {
            Last::Answer(seen) => {
                let (status, headers) = head(&seen.response);
                if judge(rules, *traits, headers).is_some() {
                    let code = only(headers, &GRPC_STATUS).and_then(|code| code.parse().ok());
                    end.cause = code.map(|code: u16| format!("gRPC status {code}").into());
                }
                let answer = Answer::new(status, headers, retry.time_of_day());
                let answer = answer.problem_type(seen.problem_type.as_deref());
                (end.status, end.is_in_flight) =
                    (Some(status), rules.is_in_flight(*traits, &answer));
            }
            Last::Error(error) => {
                let cause = cause_of(error);
                let fault = fault_of(error);
                end.cause = Some(if self.cautious(fault) == fault {
                    cause.into()
                } else {
                    format!("{cause} (perhaps after a redirect: see `follows_redirects`)").into()
                });
            }
            Last::TimedOut => {}
        }
        outcome
    }
}
