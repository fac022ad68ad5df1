//! An engine on a store whose clock the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::admin::{Admin, Stats};
use idem_core::engine::Engine;
use idem_core::memory::MemoryStore;
use idem_core::operation::{Operation, OperationBuilder};
use idem_core::time::ManualClock;
use idem_http::{IdempotencyLayer, Scoped, scope};

use super::store::FaultyStore;

/// The lease of the operations here. The store's clock stands still, so that it lapses only when a
/// test says so.
pub(crate) const LEASE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: MemoryStore,
    pub(crate) faults: FaultyStore,
    pub(crate) engine: Engine,
    /// How often a handler had its effect.
    pub(crate) effects: Effects,
}

/// Counts what handlers did, apart from what they answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects(Arc<AtomicU32>);

impl Effects {
    /// Has the effect; says the how-manieth it was.
    pub(crate) fn happen(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_capacity(1_000)
    }

    pub(crate) fn with_capacity(records: usize) -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::with_capacity(Arc::clone(&clock), records);
        let faults = FaultyStore::new(store.clone());
        let engine =
            Engine::builder(faults.clone()).namespace("test").unwrap().build().expect("an engine");
        Self { clock, store, faults, engine, effects: Effects::default() }
    }

    /// A layer for the operation `charge`, whose callers are told apart by `Authorization`.
    pub(crate) fn layer(&self) -> IdempotencyLayer<Scoped, Operation> {
        self.layer_with(|operation| operation)
    }

    pub(crate) fn layer_with(
        &self,
        settings: impl FnOnce(OperationBuilder) -> OperationBuilder,
    ) -> IdempotencyLayer<Scoped, Operation> {
        let operation = settings(Operation::builder("charge").lease(LEASE)).build().unwrap();
        layer_on(&self.engine, &operation)
    }

    /// What stands in the store.
    pub(crate) async fn stats(&self) -> Stats {
        self.store.stats().await.unwrap()
    }

    /// How many records there are, in whatever state.
    pub(crate) async fn records(&self) -> u64 {
        let stats = self.stats().await;
        stats.live + stats.lapsed_begun + stats.lapsed_not_begun + stats.completed + stats.expired
    }
}

pub(crate) fn layer_on(
    engine: &Engine,
    operation: &Operation,
) -> IdempotencyLayer<Scoped, Operation> {
    let scope = scope::hashed_header(http::header::AUTHORIZATION);
    IdempotencyLayer::new(engine.clone()).scope(scope).operation(operation)
}
