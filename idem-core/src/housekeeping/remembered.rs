//! What a reconciler remembers of records that it could not finish.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use tokio::time::Instant;

use crate::housekeeping::reconciler::Reconciled;
use crate::housekeeping::spread;
use crate::record::{Incarnation, Record};

/// The most records that are remembered: what is over it is tried again without a longer wait, and
/// not told one by one.
const MOST: usize = 100_000;

/// Why a record was not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// The operation's policy forbids another attempt.
    Held,
    /// This process has no handler for it, or no input, or cannot read it.
    NotResumable,
    /// It was tried, and ended without a reply, or the store failed.
    Failed,
}

/// What is to be done about a record that is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    /// It failed, and waits its time.
    Later,
    /// Nothing changed since it was found to be for a person.
    ForAPerson(Unfinished),
}

/// Records that could not be finished, while they are listed.
#[derive(Default)]
pub(super) struct Remembered {
    records: HashMap<Incarnation, Known>,
    /// Which round of listings this is: what a whole round did not list is forgotten.
    round: u64,
}

struct Known {
    attempt: u32,
    why: Unfinished,
    failures: u32,
    until: Instant,
    round: u64,
}

impl Remembered {
    pub(super) fn due(&mut self, record: &Record) -> Due {
        let round = self.round;
        let Some(known) = self.records.get_mut(&record.incarnation) else { return Due::Now };
        known.round = round;
        match known.why {
            Unfinished::Failed if known.until > Instant::now() => Due::Later,
            // A verdict is on one attempt: somebody else may have taken the record up since.
            why if why != Unfinished::Failed && known.attempt == record.attempt => {
                Due::ForAPerson(why)
            }
            _ => Due::Now,
        }
    }

    /// Says whether that is news.
    pub(super) fn note(
        &mut self,
        (incarnation, attempt): (Incarnation, u32),
        why: Unfinished,
        longest_wait: Duration,
    ) -> bool {
        let full = self.records.len() >= MOST;
        let round = self.round;
        let known = match self.records.entry(incarnation) {
            Entry::Vacant(_) if full => return false,
            Entry::Vacant(vacant) => {
                let until = Instant::now();
                vacant.insert(Known { attempt: 0, why, failures: 0, until, round })
            }
            Entry::Occupied(known) => known.into_mut(),
        };
        let is_news = known.attempt != attempt || known.why != why;
        known.attempt = attempt;
        known.why = why;
        known.round = round;
        known.failures = known.failures.saturating_add(1);
        let span = Duration::from_secs(1).saturating_mul(1 << known.failures.min(20));
        known.until = Instant::now() + spread(span.min(longest_wait));
        is_news
    }

    pub(super) fn forget(&mut self, incarnation: Incarnation) {
        self.records.remove(&incarnation);
    }

    /// A round of listings is over.
    pub(super) fn end_round(&mut self) {
        let round = self.round;
        self.records.retain(|_, known| known.round == round);
        self.round += 1;
    }

    /// How many records wait for a person: held, and not resumable.
    pub(super) fn for_a_person(&self) -> (u64, u64) {
        let count = |why| self.records.values().filter(|known| known.why == why).count() as u64;
        (count(Unfinished::Held), count(Unfinished::NotResumable))
    }
}

impl Due {
    /// Counts what is not tried; says whether it is tried.
    pub(super) fn is_now(self, done: &mut Reconciled) -> bool {
        match self {
            Self::Now => return true,
            Self::Later => done.waiting += 1,
            Self::ForAPerson(Unfinished::Held) => done.held += 1,
            Self::ForAPerson(_) => done.not_resumable += 1,
        }
        false
    }
}
