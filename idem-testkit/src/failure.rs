//! Why a case failed, and the checks that say so.

use std::error::Error;
use std::fmt;

use idem_core::error::{ErrorKind, StoreError};

/// What was expected and what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub(crate) expected: String,
    pub(crate) seen: String,
}

/// What a case comes to.
pub(crate) type CaseResult = Result<(), Failure>;

impl Failure {
    pub(crate) fn new(expected: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { expected: expected.into(), seen: seen.into() }
    }

    /// Says where in the case it was.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Self { expected: format!("{place}: {}", self.expected), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}; saw {}", self.expected, self.seen)
    }
}

impl Error for Failure {}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(format!("{} to succeed", error.verb()), chain(&error))
    }
}

/// An error with what lay behind it, in one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Fails unless `seen` is `expected`; `what` names it.
pub(crate) fn equal<T: PartialEq + fmt::Debug>(what: &str, seen: T, expected: T) -> CaseResult {
    if seen == expected {
        return Ok(());
    }
    Err(Failure::new(format!("{what} to be {expected:?}"), format!("{seen:?}")))
}

/// Fails unless `holds`.
pub(crate) fn that(holds: bool, expected: &str, seen: impl fmt::Debug) -> CaseResult {
    if holds { Ok(()) } else { Err(Failure::new(expected, format!("{seen:?}"))) }
}

/// Fails unless the call was refused with this kind.
pub(crate) fn refused<T: fmt::Debug>(result: Result<T, StoreError>, kind: ErrorKind) -> CaseResult {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(Failure::new(format!("an error of kind {kind}"), chain(&error))),
        Ok(answer) => Err(Failure::new(format!("an error of kind {kind}"), format!("{answer:?}"))),
    }
}
