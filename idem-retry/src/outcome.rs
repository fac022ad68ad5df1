//! What a call came to.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use crate::class::{Applied, Reason};
use crate::told::{LastTold, Told};

/// What a call came to. Four cases, since they call for four different things.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub enum Outcome<T, E> {
    /// The call was answered.
    Answered(Answered<T>),
    /// The call was answered with the stored answer of an earlier attempt. It had its effect once;
    /// this is what came of it.
    Replayed(Answered<T>),
    /// It failed, and it had no effect: surely, or as good as ([`Unfinished::applied`]). Another
    /// call may be made.
    GaveUp(Unfinished<T, E>),
    /// It failed, and **it may have had its effect**. Neither a failure nor a success: look, or
    /// go on under the same key. A new key could do it twice.
    Unknown(Unfinished<T, E>),
}

/// An answer, and what it took.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answered<T> {
    /// The answer.
    pub answer: T,
    /// How many attempts were made.
    pub attempts: u32,
    /// How long the call took, sleeps included.
    pub elapsed: Duration,
}

/// A call without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished<T, E> {
    /// Why there was no further attempt.
    pub why: Why,
    /// How many attempts were made.
    pub attempts: u32,
    /// How long the call took, sleeps included.
    pub elapsed: Duration,
    /// How the last attempt ended.
    pub last: Last<T, E>,
    /// Whether any attempt had its effect: the worst of them.
    pub applied: Applied,
    /// How long the server said to wait, in its last answer.
    pub hint: Option<Duration>,
    /// The status of the last answer, where an adapter of this crate made an HTTP call and there
    /// was one.
    pub status: Option<StatusCode>,
    /// Whether that answer says that the first request under the key still runs, or that its server
    /// died and its lease is not over: the answer is there later, under the same key.
    /// [`Policy::outlasting`](crate::Policy::outlasting) waits for it.
    pub is_in_flight: bool,
    /// What the last attempt failed of, in a few words, where an adapter made the call: `Connection
    /// refused (os error 111)`. Neither URL nor key nor body stand in it.
    pub cause: Option<Box<str>>,
}

/// How the last attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Last<T, E> {
    /// With an answer that is not the answer to the call: a 503, say.
    Answer(T),
    /// With an error of the client.
    Error(E),
    /// It was dropped at its timeout.
    TimedOut,
}

/// Why there was no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// All attempts were made.
    Attempts,
    /// The deadline would be over.
    Deadline,
    /// The server said to come back after the deadline.
    HintBeyondDeadline,
    /// The destination's budget has no token.
    Budget,
    /// The server's key would be forgotten: a retry could be a second execution.
    KeyLifetime,
    /// The body can be sent once only.
    OneShot,
    /// This call is made inside an attempt of another one, which is retried: one layer is enough.
    Nested,
    /// The failure is not one to be retried.
    Final(Reason),
    /// There is an answer, and it does not say what became of an earlier attempt: a 401 to the
    /// second one, say.
    NotSettled,
}

impl<T, E> Outcome<T, E> {
    /// The answer, its own or replayed.
    ///
    /// # Errors
    /// What is known without one.
    pub fn into_answer(self) -> Result<T, Unfinished<T, E>> {
        match self {
            Self::Answered(answered) | Self::Replayed(answered) => Ok(answered.answer),
            Self::GaveUp(unfinished) | Self::Unknown(unfinished) => Err(unfinished),
        }
    }

    /// Whether it may have had its effect, and nobody knows.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// How many attempts were made.
    pub fn attempts(&self) -> u32 {
        match self {
            Self::Answered(answered) | Self::Replayed(answered) => answered.attempts,
            Self::GaveUp(unfinished) | Self::Unknown(unfinished) => unfinished.attempts,
        }
    }
}

impl<T, E> Unfinished<T, E> {
    /// Whether it may have had its effect, and nobody knows.
    pub fn is_unknown(&self) -> bool {
        self.applied.is_uncertain()
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attempts => "all attempts were made",
            Self::Deadline => "the deadline would be over",
            Self::HintBeyondDeadline => "the server said to come back after the deadline",
            Self::Budget => "the retry budget is used up",
            Self::KeyLifetime => "the lifetime of the key would be over",
            Self::OneShot => "the body can be sent once only",
            Self::Nested => "the call is nested in one that is retried",
            Self::Final(Reason::WouldFailAgain) => "it would fail again",
            Self::Final(Reason::Unprotected) => "a repetition could have a second effect",
            Self::Final(Reason::ToldNotTo) => "the server said not to retry",
            Self::NotSettled => "the answer does not say what became of an earlier attempt",
        })
    }
}

/// With how the last attempt ended: its status, its error, or that it was dropped. Of an error that
/// no adapter of this crate has seen it is the error's own text (`{:#}`).
impl<T, E: fmt::Display> fmt::Display for Unfinished<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, attempts, elapsed, applied, hint, .. } = *self;
        let own_text;
        let last = match (&self.last, &self.cause) {
            (Last::TimedOut, _) => LastTold::TimedOut,
            (Last::Answer(_), Some(cause)) => LastTold::OtherAnswer(cause),
            (Last::Answer(_), None) => LastTold::Answer(self.status, self.is_in_flight),
            (Last::Error(_), Some(cause)) => LastTold::Error(cause),
            (Last::Error(error), None) => {
                own_text = format!("{error:#}");
                LastTold::Error(&own_text)
            }
        };
        Told { why: Some(why), attempts, elapsed, applied, hint, last }.fmt(f)
    }
}

impl<T, E> std::error::Error for Unfinished<T, E>
where
    T: fmt::Debug,
    E: std::error::Error + 'static,
{
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.last {
            Last::Error(error) => Some(error),
            Last::Answer(_) | Last::TimedOut => None,
        }
    }
}
