//! The fixture of [`MemoryStore`]: the suite's own subject, and an example of a fixture.

use std::sync::Arc;

use idem_core::async_trait;
use idem_core::memory::MemoryStore;
use idem_core::time::{Clock, ManualClock};

use crate::capability::{Capabilities, Capability};
use crate::conformance::Conformance;
use crate::fixture::{Connected, Fixture, SetupError, SteppedClock};

/// A fresh memory store. Its connections are clones that share the records.
#[derive(Debug)]
pub struct MemoryFixture {
    store: MemoryStore,
    clock: Option<Arc<ManualClock>>,
}

impl MemoryFixture {
    /// On the machine's clock.
    pub fn on_real_time() -> Self {
        Self { store: MemoryStore::new(), clock: None }
    }

    /// On a clock that stands still unless it is stepped.
    pub fn on_stepped_clock() -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::with_clock(clock.clone() as Arc<dyn Clock>);
        Self { store, clock: Some(clock) }
    }

    /// What it offers.
    pub fn capabilities() -> Capabilities {
        Capabilities::none()
            .with(Capability::Isolated)
            .with(Capability::SteppedClock)
            .with(Capability::Admin)
            .with(Capability::IndependentRecords)
            .without(Capability::Transactions, "a map has none")
            .without(Capability::Restart, "the records live in this process only")
            .without(Capability::NetworkFaults, "there is no network")
            .without(Capability::Processes, "the records live in this process only")
            .without(Capability::Damage, "a record in memory is a value of its type")
    }

    /// The suite on it.
    pub fn conformance() -> Conformance {
        let open = async || Ok(Self::on_stepped_clock());
        Conformance::new("memory", Self::capabilities(), open)
    }
}

#[async_trait]
impl Fixture for MemoryFixture {
    async fn connect(&self) -> Result<Connected, SetupError> {
        Ok(Connected::admin(self.store.clone()))
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        self.clock.clone().map(|clock| clock as Arc<dyn SteppedClock>)
    }
}
