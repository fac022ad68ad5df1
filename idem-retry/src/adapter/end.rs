//! How a call ended, where there is room for a response or an error only.

use std::fmt;
use std::time::Duration;

use super::BoxError;
#[cfg(feature = "tower")]
use super::cause_of;
use crate::class::Applied;
#[cfg(feature = "tower")]
use crate::class::Reason;
#[cfg(feature = "reqwest")]
use crate::outcome::Answered;
use crate::outcome::{Last, Outcome, Unfinished, Why};
use crate::told::{LastTold, Told};

/// An answer, and what its body had to be read for.
#[derive(Debug)]
pub(crate) struct Seen<R> {
    pub(crate) response: R,
    pub(crate) problem_type: Option<String>,
}

/// How a call ended: among the extensions of its response, and in [`Failed`].
///
/// A response that is not the answer to the call, such as the 503 of the last attempt, is a
/// response all the same: `why` says why there was no further attempt, and `is_unknown` whether an
/// attempt may have had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How many attempts were made.
    pub attempts: u32,
    /// How long the call took, sleeps included.
    pub elapsed: Duration,
    /// Whether it is the stored answer of an earlier attempt.
    pub is_replayed: bool,
    /// Whether the call **may have had its effect**, and nobody knows.
    pub is_unknown: bool,
    /// Why there was no further attempt, where there is no answer to the call.
    pub why: Option<Why>,
    /// Whether the last answer says that the first request under the key still runs, or that its
    /// lease is not over: the answer is there later, under the same key.
    pub is_in_flight: bool,
    /// How long the server said to wait, in the answer that is not one to the call.
    pub hint: Option<Duration>,
}

/// A call without any response.
#[derive(Debug)]
pub struct Failed {
    report: Report,
    applied: Applied,
    cause: Option<Box<str>>,
    error: Option<BoxError>,
}

impl<R> Seen<R> {
    /// The same outcome, of responses only.
    #[cfg(feature = "reqwest")]
    pub(crate) fn responses<E>(outcome: Outcome<Self, E>) -> Outcome<R, E> {
        let answered = |it: Answered<Self>| Answered {
            answer: it.answer.response,
            attempts: it.attempts,
            elapsed: it.elapsed,
        };
        let unfinished = |it: Unfinished<Self, E>| Unfinished {
            why: it.why,
            attempts: it.attempts,
            elapsed: it.elapsed,
            last: match it.last {
                Last::Answer(seen) => Last::Answer(seen.response),
                Last::Error(error) => Last::Error(error),
                Last::TimedOut => Last::TimedOut,
            },
            applied: it.applied,
            hint: it.hint,
            status: it.status,
            is_in_flight: it.is_in_flight,
            cause: it.cause,
        };
        match outcome {
            Outcome::Answered(it) => Outcome::Answered(answered(it)),
            Outcome::Replayed(it) => Outcome::Replayed(answered(it)),
            Outcome::GaveUp(it) => Outcome::GaveUp(unfinished(it)),
            Outcome::Unknown(it) => Outcome::Unknown(unfinished(it)),
        }
    }
}

impl Report {
    fn of<T, E>(unfinished: &Unfinished<T, E>) -> Self {
        Self {
            attempts: unfinished.attempts,
            elapsed: unfinished.elapsed,
            is_replayed: false,
            is_unknown: unfinished.is_unknown(),
            why: Some(unfinished.why),
            is_in_flight: unfinished.is_in_flight,
            hint: unfinished.hint,
        }
    }
}

impl Failed {
    /// How the call ended.
    pub fn report(&self) -> Report {
        self.report
    }

    /// Whether the call **may have had its effect**, and nobody knows: look, or go on under the
    /// same key.
    pub fn is_unknown(&self) -> bool {
        self.report.is_unknown
    }

    /// Whether any attempt had its effect: the worst of them.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// The error of the last attempt; `None` when it was dropped at its timeout.
    pub fn last_error(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.error.as_deref()
    }

    /// A call that could not be made at all.
    #[cfg(feature = "tower")]
    pub(crate) fn unusable(error: BoxError) -> Self {
        let why = Some(Why::Final(Reason::WouldFailAgain));
        let elapsed = Duration::ZERO;
        let report = Report {
            attempts: 0,
            elapsed,
            is_replayed: false,
            is_unknown: false,
            why,
            is_in_flight: false,
            hint: None,
        };
        let cause = Some(cause_of(&*error).into());
        Self { report, applied: Applied::No, cause, error: Some(error) }
    }

    /// The response and its report, or what failed.
    pub(crate) fn split<T, E: Into<BoxError>>(outcome: Outcome<T, E>) -> Result<(T, Report), Self> {
        let (is_replayed, unfinished) = match outcome {
            Outcome::Answered(answered) => (false, Ok(answered)),
            Outcome::Replayed(answered) => (true, Ok(answered)),
            Outcome::GaveUp(unfinished) | Outcome::Unknown(unfinished) => (false, Err(unfinished)),
        };
        let unfinished = match unfinished {
            Ok(answered) => {
                let (attempts, elapsed) = (answered.attempts, answered.elapsed);
                let report = Report {
                    attempts,
                    elapsed,
                    is_replayed,
                    is_unknown: false,
                    why: None,
                    is_in_flight: false,
                    hint: None,
                };
                return Ok((answered.answer, report));
            }
            Err(unfinished) => unfinished,
        };
        let report = Report::of(&unfinished);
        let Unfinished { applied, cause, .. } = unfinished;
        match unfinished.last {
            Last::Answer(answer) => Ok((answer, report)),
            Last::Error(error) => Err(Self { report, applied, cause, error: Some(error.into()) }),
            Last::TimedOut => Err(Self { report, applied, cause, error: None }),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { attempts, elapsed, why, hint, .. } = self.report;
        let last = match (&self.error, &self.cause) {
            (None, _) => LastTold::TimedOut,
            (Some(_), cause) => LastTold::Error(cause.as_deref().unwrap_or("no answer")),
        };
        Told { why, attempts, elapsed, applied: self.applied, hint, last }.fmt(f)
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.as_deref().map(|error| error as _)
    }
}
