//! Deliberately broken stores: the suite's own test (DESIGN: each must fail the case named for
//! it, and the right store none).
//!
//! Each is a store that somebody could have written: a right store with one mistake, out of a
//! known list of them. [`catalogue`] names them all, and `docs/testkit-kill-matrix.md` says which
//! cases catch which. A mistake in a store of your own is planted with [`BrokenStore::planted`]:
//! the suite's own tests do so with changed SQL, in `tests/broken_stores/sql`.

mod admins;
mod claims;
mod clocks;
mod completions;
mod fences;
mod files;
mod heartbeats;
mod lent;
mod listing;
mod lives;
mod networks;
mod outboxes;
mod planted;
mod races;
mod requests;
mod rules;
mod slow;
mod sweeps;
mod takeovers;
mod transactions;
mod wire;
mod workshop;

use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::key::{Key, Scope};
use idem_core::time::{Clock, ManualClock, SystemClock};

use crate::capability::{Capabilities, Capability};
use crate::conformance::Conformance;
use crate::fixture::{Connected, Fixture, SetupError, SteppedClock};
use crate::memory::MemoryFixture;
pub use planted::double_acquirer;
pub use slow::{right_but_slow, right_but_slow_in_real_time};

use lent::Rows;
use rules::{Right, Rules};
use workshop::Workshop;

/// A store with one mistake in it, and the case that must find it.
#[derive(Clone)]
pub struct BrokenStore {
    name: &'static str,
    mistake: &'static str,
    rules: &'static str,
    caught_by: &'static str,
    suite: Arc<dyn Fn() -> Conformance + Send + Sync>,
    hangs: bool,
}

impl BrokenStore {
    fn new(
        name: &'static str,
        mistake: &'static str,
        rules: &'static str,
        caught_by: &'static str,
        decides: impl Rules,
    ) -> Self {
        let decides: Arc<dyn Rules> = Arc::new(decides);
        let suite = move || conformance(name, decides.clone());
        Self::planted(name, mistake, rules, caught_by, suite)
    }

    /// A store of the caller's own with a mistake planted in it: what it is called, what is wrong,
    /// the rules that this breaks, the case that must find it, and the suite on it.
    pub fn planted(
        name: &'static str,
        mistake: &'static str,
        rules: &'static str,
        caught_by: &'static str,
        suite: impl Fn() -> Conformance + Send + Sync + 'static,
    ) -> Self {
        Self { name, mistake, rules, caught_by, suite: Arc::new(suite), hangs: false }
    }

    /// It does not come back with an answer: its cases are given little time.
    #[must_use]
    pub fn hanging(mut self) -> Self {
        self.hangs = true;
        self
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What is wrong with it.
    pub fn mistake(&self) -> &'static str {
        self.mistake
    }

    /// The rules that it breaks.
    pub fn rules(&self) -> &'static str {
        self.rules
    }

    /// The case that is named for it.
    pub fn caught_by(&self) -> &'static str {
        self.caught_by
    }

    /// The suite on it.
    pub fn conformance(&self) -> Conformance {
        let suite = (self.suite)();
        if self.hangs { suite.case_limit(SOON) } else { suite }
    }
}

/// How long a case on a store that hangs may take: well over what the right one takes.
const SOON: Duration = Duration::from_secs(8);

impl std::fmt::Debug for BrokenStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokenStore").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every broken store, by the part of the contract that it breaks.
pub fn catalogue() -> Vec<BrokenStore> {
    [
        races::stores(),
        requests::stores(),
        claims::stores(),
        takeovers::stores(),
        fences::stores(),
        lives::stores(),
        completions::stores(),
        heartbeats::stores(),
        clocks::stores(),
        sweeps::stores(),
        files::stores(),
        admins::stores(),
        transactions::stores(),
        outboxes::stores(),
        networks::stores(),
    ]
    .concat()
}

/// The suite on the store that the broken ones are made from, with nothing wrong in it.
pub fn right() -> Conformance {
    conformance("right", Arc::new(Right))
}

/// The same behind a connection, for what the network can do.
pub fn right_behind_a_connection() -> Conformance {
    networks::suite("right-behind-a-connection", wire::Manners::Right)
}

/// The suite's cases about outboxes on a store that has one, with nothing wrong in it.
pub fn right_with_an_outbox() -> Conformance {
    outboxes::right()
}

fn conformance(name: &'static str, rules: Arc<dyn Rules>) -> Conformance {
    let open = move || {
        let rules = rules.clone();
        async move { Ok(Fresh::on_stepped_clock(rules)) }
    };
    Conformance::new(name, capabilities(), open)
}

fn capabilities() -> Capabilities {
    MemoryFixture::capabilities()
        .with(Capability::Transactions)
        .with(Capability::Restart)
        .with(Capability::Damage)
        .without(Capability::IndependentRecords, "it has one writer")
}

struct Fresh {
    store: Workshop,
    clock: Option<Arc<ManualClock>>,
}

impl Fresh {
    fn on_stepped_clock(rules: Arc<dyn Rules>) -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = Workshop::new(rules, clock.clone() as Arc<dyn Clock>);
        Self { store, clock: Some(clock) }
    }

    fn on_real_time(rules: Arc<dyn Rules>) -> Self {
        Self { store: Workshop::new(rules, Arc::new(SystemClock)), clock: None }
    }
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        let store = self.store.connect();
        Ok(Connected::admin(store.clone()).with_transactions(store, Rows))
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        self.clock.clone().map(|clock| clock as Arc<dyn SteppedClock>)
    }

    async fn restart(&self) -> Result<(), SetupError> {
        self.store.restart();
        Ok(())
    }

    async fn damage(&self, scope: &Scope, key: &Key) -> Result<(), SetupError> {
        self.store.damage(scope, key);
        Ok(())
    }
}
