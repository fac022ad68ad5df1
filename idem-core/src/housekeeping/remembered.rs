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

/// Records that could not be finished, while they are listed, or would be but for a lease of this
/// process.
pub(super) struct Remembered {
    records: HashMap<Incarnation, Known>,
    /// Which round of listings this is: what a whole round did not list is forgotten.
    round: u64,
    round_began: Instant,
}

struct Known {
    attempt: u32,
    why: Unfinished,
    failures: u32,
    /// It is not tried before.
    until: Instant,
    /// The lease under which it was tried here runs so long, and until it ends nobody lists it.
    leased_until: Instant,
    round: u64,
}

/// How a try ended.
pub(super) struct Tried {
    pub(super) incarnation: Incarnation,
    /// The attempt that stands.
    pub(super) attempt: u32,
    pub(super) why: Unfinished,
    /// How long its lease may still run.
    pub(super) leased_for: Duration,
}

impl Default for Remembered {
    fn default() -> Self {
        Self { records: HashMap::new(), round: 0, round_began: Instant::now() }
    }
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
    pub(super) fn note(&mut self, tried: &Tried, longest_wait: Duration) -> bool {
        let full = self.records.len() >= MOST;
        let (round, now) = (self.round, Instant::now());
        let known = match self.records.entry(tried.incarnation) {
            Entry::Vacant(_) if full => return false,
            Entry::Vacant(vacant) => {
                let (why, until) = (tried.why, now);
                vacant.insert(Known {
                    attempt: 0,
                    why,
                    failures: 0,
                    until,
                    leased_until: now,
                    round,
                })
            }
            Entry::Occupied(known) => known.into_mut(),
        };
        let is_news = known.attempt != tried.attempt || known.why != tried.why;
        known.attempt = tried.attempt;
        known.why = tried.why;
        known.round = round;
        known.failures = known.failures.saturating_add(1);
        let span = Duration::from_secs(1).saturating_mul(1 << known.failures.min(20));
        known.until = now + spread(span.min(longest_wait));
        known.leased_until = now + tried.leased_for;
        is_news
    }

    pub(super) fn forget(&mut self, incarnation: Incarnation) {
        self.records.remove(&incarnation);
    }

    /// A round of listings is over. Forgotten is what it would have listed: a lease that still ran
    /// when it began may have kept a record from it.
    pub(super) fn end_round(&mut self) {
        let (round, began) = (self.round, self.round_began);
        self.records.retain(|_, known| known.round == round || known.leased_until >= began);
        self.round += 1;
        self.round_began = Instant::now();
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
