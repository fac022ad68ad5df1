//! What a record's state means to an operator: who goes on with it, or why nobody does.

use std::time::Duration;

use idem_core::codec::{Codec, CodecErrorKind};
use idem_core::record::{Observed, OperationName, State};

use super::age::short;
use crate::duration;

/// What is told under the help of the commands that show records.
pub(super) const LEGEND: &str = "\
States:
  live       somebody works on it, under a lease that runs
  completed  its reply stands; retries get it
  resumable  it began, and its lease is over: a reconciler goes on with it. With a question mark:
             unless its operation allows no further attempt (--cap tells) or holds such work
  held       it began, its lease is over, and nothing runs it again until you settle or release it
  lapsed     its lease is over, and only a retry of its client goes on with it
  not-begun  its lease is over before anything was done: nothing to do, nobody waits for it

Fields:
  ATTEMPT    how often it was taken up; each takeover by a retry, a reconciler or you counts
  AGE        since its key was first claimed
  TIME       how long its lease still runs or is over, or how long its reply is still kept
  HASH       what stands for its key in the service's logs; only with --hash-secret";

/// What the service's operations allow. The store does not know it.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct PolicyArgs {
    /// How many attempts the service allows: records that have used them are held. Untold, those
    /// count that have used what an operation allows by default.
    #[arg(long, value_name = "N")]
    pub(super) cap: Option<u32>,

    /// How long the service's downstream remembers keys, less the margin: older records are held.
    /// It is never longer than a record's retention.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(super) window: Option<Duration>,

    /// An operation of the service that holds what ended without a reply. May be repeated.
    #[arg(long, value_name = "OPERATION")]
    pub(super) holds: Vec<String>,
}

/// A record's state in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Live,
    Completed,
    Resumable,
    Held,
    Lapsed,
    NotBegun,
}

impl Condition {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Completed => "completed",
            Self::Resumable => "resumable",
            Self::Held => "held",
            Self::Lapsed => "lapsed",
            Self::NotBegun => "not-begun",
        }
    }
}

impl PolicyArgs {
    /// Whether nobody told what the service allows.
    pub(super) fn says_nothing(&self) -> bool {
        self.cap.is_none() && self.window.is_none() && self.holds.is_empty()
    }

    /// Whether it may as well be held, for all that was told.
    pub(super) fn is_unsure(&self, seen: &Observed) -> bool {
        matches!(self.judge(seen), (Condition::Resumable, Some(_)))
    }

    /// What the record is, and why where that is not plain.
    pub(super) fn judge(&self, seen: &Observed) -> (Condition, Option<String>) {
        let record = &seen.record;
        let recovery = match &record.state {
            State::Completed { .. } => return (Condition::Completed, None),
            _ if seen.lapsed_for().is_none() => return (Condition::Live, None),
            State::InProgress { recovery: None, .. } if record.marks_begun => {
                return (Condition::NotBegun, Some("nothing was done".into()));
            }
            State::InProgress { recovery, .. } => recovery.as_ref(),
        };
        let codec = Codec::new();
        if let Some(recovery) = recovery {
            let progress = codec.decode_progress(&recovery.payload, &record.scope, &record.key);
            if progress.is_err_and(|error| error.kind() == CodecErrorKind::Corrupt) {
                return (Condition::Held, Some("its recovery point cannot be read".into()));
            }
        }
        if let Some(why) = self.forbids(seen) {
            return (Condition::Held, Some(why));
        }
        let input = record.input.as_ref();
        let input = input.map(|input| codec.decode_input(input, &record.scope, &record.key));
        match (recovery, input) {
            (None, _) => (Condition::Lapsed, Some("what was done is not known".into())),
            (_, None) => (Condition::Lapsed, Some("no input is stored".into())),
            (_, Some(Ok(stored))) if stored.input.is_none() => {
                (Condition::Lapsed, Some("no input is stored".into()))
            }
            (_, Some(Err(error))) if error.kind() == CodecErrorKind::Corrupt => {
                (Condition::Held, Some("its input cannot be read".into()))
            }
            _ => (Condition::Resumable, self.unsure(record.attempt)),
        }
    }

    fn forbids(&self, seen: &Observed) -> Option<String> {
        let record = &seen.record;
        let window = [self.window, record.retention.total()].into_iter().flatten().min();
        if record.recovery().is_some() && self.is_held(&record.operation) {
            return Some("its operation holds such work".into());
        }
        let cap = self.cap.unwrap_or_else(default_cap);
        if record.attempt >= cap {
            let why = format!("{} of {cap} attempts are used", record.attempt);
            return Some(match self.cap {
                Some(_) => why,
                None => format!("{why}, unless --cap says that the service allows more"),
            });
        }
        let window = window.filter(|window| seen.age() >= *window)?;
        Some(format!("it is older than {}", short(window)))
    }

    fn is_held(&self, operation: &OperationName) -> bool {
        self.holds.iter().any(|name| name == operation.as_str())
    }

    /// What the answer depends on that nobody told.
    fn unsure(&self, attempt: u32) -> Option<String> {
        let attempts = if attempt == 1 { "attempt" } else { "attempts" };
        self.cap.is_none().then(|| format!("held, if the service allows only {attempt} {attempts}"))
    }
}

/// How many attempts an operation allows that sets nothing else.
fn default_cap() -> u32 {
    idem_core::operation::Operation::builder("default").build().map_or(u32::MAX, |it| it.attempts())
}
