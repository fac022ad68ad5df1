//! What one attempt came to.

use std::time::Duration;

use crate::budget::Load;

/// Whether an attempt had its effect. The order is that of certainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Applied {
    /// Surely not: it never left, or the server says that it did nothing.
    No,
    /// Normally not, and nobody guarantees it: a 429, a 503 that says when to come back.
    Unlikely,
    /// Nobody knows: a reset after a byte was written, a timeout, a 502.
    Maybe,
    /// Most likely: the answer had begun and was cut off.
    Likely,
}

impl Applied {
    /// Whether an outcome that rests on it is unknown.
    pub fn is_uncertain(self) -> bool {
        self >= Self::Maybe
    }
}

/// How an attempt ended, for whoever classifies it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Attempted<'a, T, E> {
    /// With an answer, welcome or not.
    Answer(&'a T),
    /// With an error of the client.
    Error(&'a E),
    /// It was dropped at its timeout: it may have been applied, unless nothing can have been sent.
    TimedOut,
}

/// What an attempt means for the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// The answer to the call: not retried, whatever it says.
    Answered {
        /// Whether it also settles what became of an earlier attempt that may have been applied.
        /// Success does, and so does an answer that is stored under the key; a refusal at the
        /// door (401, say) does not.
        settles: bool,
    },
    /// The stored answer of an earlier attempt: final, whatever its status.
    Replayed,
    /// A failure that may pass, of a call that may be repeated.
    Transient(Transient),
    /// A failure that is not retried.
    Permanent {
        /// Whether this attempt had its effect.
        applied: Applied,
        /// Why not.
        reason: Reason,
    },
}

/// A failure that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Transient {
    pub(crate) applied: Applied,
    pub(crate) load: Load,
    pub(crate) hint: Option<Duration>,
    pub(crate) key_lifetime: Option<Duration>,
}

/// Why a failure is not retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It would fail again.
    WouldFailAgain,
    /// A repetition could have a second effect: the method is not idempotent and there is no key.
    Unprotected,
    /// The server said not to.
    ToldNotTo,
}

impl Class {
    /// The call succeeded, or was answered for good.
    pub fn answered() -> Self {
        Self::Answered { settles: true }
    }

    /// A failure that may pass, of a call that may be repeated.
    pub fn transient(applied: Applied) -> Self {
        Transient::new(applied).into()
    }

    /// A failure that would come again.
    pub fn permanent(applied: Applied) -> Self {
        Self::Permanent { applied, reason: Reason::WouldFailAgain }
    }
}

impl Transient {
    /// A failure that may pass.
    pub fn new(applied: Applied) -> Self {
        Self { applied, load: Load::Normal, hint: None, key_lifetime: None }
    }

    /// The server said that there are too many.
    pub fn throttled(mut self) -> Self {
        self.load = Load::Throttled;
        self
    }

    /// The server said when to come back; never earlier.
    pub fn hint(mut self, after: Option<Duration>) -> Self {
        self.hint = after;
        self
    }

    /// The server said for how much longer a retry is safe, counted from before this attempt.
    pub fn key_lifetime(mut self, left: Option<Duration>) -> Self {
        self.key_lifetime = left;
        self
    }

    /// Whether this attempt had its effect.
    pub fn applied(&self) -> Applied {
        self.applied
    }
}

impl From<Transient> for Class {
    fn from(transient: Transient) -> Self {
        Self::Transient(transient)
    }
}
