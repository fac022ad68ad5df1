//! The words for a call without an answer.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use crate::class::Applied;
use crate::outcome::Why;

/// The most characters of an error's text.
const MAX_CHARS: usize = 200;

/// A call without an answer, as far as everybody may know it.
pub(crate) struct Told<'a> {
    pub(crate) why: Option<Why>,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    pub(crate) applied: Applied,
    pub(crate) hint: Option<Duration>,
    pub(crate) last: LastTold<'a>,
}

/// How the last attempt ended.
pub(crate) enum LastTold<'a> {
    /// With this status, and whether that means that the first request still runs.
    Answer(Option<StatusCode>, bool),
    /// With an answer that has another name than its status.
    OtherAnswer(&'a str),
    Error(&'a str),
    TimedOut,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, elapsed, .. } = self;
        let is_unknown = self.applied.is_uncertain();
        f.write_str(if is_unknown { "outcome unknown" } else { "gave up" })?;
        let plural = if *attempts == 1 { "" } else { "s" };
        write!(f, " after {attempts} attempt{plural} in {elapsed:?}")?;
        if let Some(why) = self.why {
            write!(f, ": {why}")?;
        }
        self.last.fmt(f)?;
        // A hint belongs to an answer, and stays after an attempt that had none.
        let is_answer = matches!(self.last, LastTold::Answer(..) | LastTold::OtherAnswer(_));
        if let Some(hint) = self.hint.filter(|_| is_answer) {
            write!(f, ", to come back after {hint:?}")?;
        }
        f.write_str(match self.applied {
            Applied::No => "; it was not applied",
            Applied::Unlikely => "; it was most likely not applied",
            Applied::Maybe | Applied::Likely => "; it may have been applied",
        })
    }
}

impl fmt::Display for LastTold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(None, _) => f.write_str("; the last attempt had an answer"),
            Self::Answer(Some(status), is_in_flight) => {
                write!(f, "; the last answer was {status}")?;
                f.write_str(if *is_in_flight {
                    " (the first request under the key still runs, or its lease is not over)"
                } else {
                    ""
                })
            }
            Self::OtherAnswer(name) => write!(f, "; the last answer was {name}"),
            Self::Error(text) => write!(f, "; the last attempt failed: {}", line(text)),
            Self::TimedOut => f.write_str("; the last attempt was dropped at its timeout"),
        }
    }
}

/// One line of a foreign text, not too long.
fn line(text: &str) -> String {
    let line: String = text.chars().take(MAX_CHARS).map(shown).collect();
    let is_cut = text.chars().nth(MAX_CHARS).is_some();
    if is_cut { line + "…" } else { line }
}

fn shown(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}
