//! What all callers of one destination share.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use crate::budget::Budget;
use crate::classify::Safety;
use crate::latency::Latency;

/// The most destinations with a name of their own in one process. Those beyond it share one.
pub const MAX_DESTINATIONS: usize = 1_024;

/// A service that is called: its budget, its latency and what was counted. Clones share it.
#[derive(Clone)]
pub struct Destination {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    budget: Budget,
    /// Of calls that do not say what their method promises, and of those of each safety. Each is
    /// made when it is first asked for: it takes 4 KiB.
    latencies: [OnceLock<Latency>; 4],
    counts: Counts,
}

/// What has been counted since the destination was first named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Logical calls.
    pub calls: u64,
    /// Attempts that did not come first in their call.
    pub retries: u64,
    /// Calls that were nested in an attempt of another one and so ran once.
    pub nested: u64,
    /// Retries for which there was no token.
    pub refused_by_budget: u64,
    /// Calls that ended without an answer and without an effect.
    pub gave_up: u64,
    /// Calls that ended without an answer and may have had their effect.
    pub unknown: u64,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) calls: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) nested: AtomicU64,
    pub(crate) refused_by_budget: AtomicU64,
    pub(crate) gave_up: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

static NAMED: LazyLock<Mutex<HashMap<String, Destination>>> = LazyLock::new(Mutex::default);

impl Destination {
    /// The destination of this name, the same for all callers in the process: usually host and
    /// port. It has the default budget, unless it was [configured](Self::configure) before.
    ///
    /// Past [`MAX_DESTINATIONS`] names, new names share one destination.
    pub fn named(name: &str) -> Self {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(destination) = named.get(name) {
            return destination.clone();
        }
        let name = if named.len() < MAX_DESTINATIONS { name } else { "(others)" };
        let new = || Self::separate(name, Budget::default());
        named.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// Gives the destination of this name its budget, before anybody calls it.
    ///
    /// # Errors
    /// [`AlreadyNamed`] when it is in use: two budgets for one destination bound nothing.
    pub fn configure(name: &str, budget: Budget) -> Result<Self, AlreadyNamed> {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        if named.contains_key(name) || named.len() >= MAX_DESTINATIONS {
            return Err(AlreadyNamed);
        }
        let destination = Self::separate(name, budget);
        named.insert(name.to_owned(), destination.clone());
        Ok(destination)
    }

    /// A destination that only its clones share.
    pub fn separate(name: &str, budget: Budget) -> Self {
        let name = name.to_owned();
        let (latencies, counts) = Default::default();
        Self { shared: Arc::new(Shared { name, budget, latencies, counts }) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its budget.
    pub fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    /// How long attempts took, of calls that do not say what their method promises: those of
    /// [`Retry::call`](crate::Retry::call).
    pub fn latency(&self) -> &Latency {
        self.latency_for(None)
    }

    /// How long attempts took, of calls with this promise: those that adapters make, and those
    /// with [`CallOptions::safety`](crate::CallOptions::safety). They are kept apart, since a
    /// thousand quick reads say nothing of how long a write takes.
    pub fn latency_of(&self, safety: Safety) -> &Latency {
        self.latency_for(Some(safety))
    }

    pub(crate) fn latency_for(&self, safety: Option<Safety>) -> &Latency {
        let place = match safety {
            None => 0,
            Some(Safety::Safe) => 1,
            Some(Safety::Idempotent) => 2,
            Some(Safety::Neither) => 3,
        };
        self.shared.latencies[place].get_or_init(Latency::new)
    }

    /// What has been counted.
    pub fn stats(&self) -> Stats {
        let counts = self.counts();
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Stats {
            calls: of(&counts.calls),
            retries: of(&counts.retries),
            nested: of(&counts.nested),
            refused_by_budget: of(&counts.refused_by_budget),
            gave_up: of(&counts.gave_up),
            unknown: of(&counts.unknown),
        }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// The destination is in use, or there are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the destination is in use already, or there are too many of them")]
pub struct AlreadyNamed;

/// Counts one more, and says how many there are.
pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}
