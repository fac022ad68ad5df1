//! The engine's rules R12 to R18, R20, R26 and R27, over a store that fails as it is told and a
//! clock that follows the runtime's.

mod changed_steps;
mod chaos;
mod claims;
mod counting;
mod dropping;
mod faulty;
mod handlers;
mod hanging;
mod replies;
mod resuming;
mod running;
mod shutting_down;
mod taking_over;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::engine::{Call, Engine, EngineBuilder, Execution, Failure, Outcome, RunError};
use idem_core::fingerprint::Fingerprint;
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::{Operation, OperationBuilder};
use idem_core::record::{Observed, State};
use idem_core::reply::Reply;
use idem_core::store::Store;
use idem_core::time::RuntimeClock;

use faulty::FaultyStore;

const LEASE: Duration = Duration::from_secs(30);

/// One engine on one faulty store, one operation, and a count of handler runs.
#[derive(Clone)]
struct World {
    store: FaultyStore,
    engine: Engine,
    operation: Operation,
    runs: Arc<AtomicU32>,
}

impl World {
    fn new(settings: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Self {
        Self::with(settings, |builder, _| builder)
    }

    fn with(
        settings: impl FnOnce(OperationBuilder) -> OperationBuilder,
        engine: impl FnOnce(EngineBuilder, &Operation) -> EngineBuilder,
    ) -> Self {
        let operation = settings(Operation::builder("op").lease(LEASE)).build().unwrap();
        let store = FaultyStore::new(MemoryStore::with_clock(RuntimeClock::new()));
        let builder = Engine::builder(store.clone()).namespace("test").unwrap();
        let engine = engine(builder, &operation).build().unwrap();
        Self { store, engine, operation, runs: Arc::default() }
    }

    fn call() -> Call {
        let (scope, key) = (Scope::new("a").unwrap(), Key::new("k").unwrap());
        Call::new(scope, key, Fingerprint::of_bytes("k")).with_input(Input::new("input"))
    }

    /// Runs a handler and counts that it ran.
    async fn run<F, Fut, R>(&self, handler: F) -> Result<Outcome, RunError>
    where
        F: FnOnce(Execution) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Into<Reply> + Send + 'static,
    {
        let runs = Arc::clone(&self.runs);
        let counted = move |execution| {
            runs.fetch_add(1, Ordering::SeqCst);
            let running = handler(execution);
            async move { running.await.map(Into::into) }
        };
        self.engine.run::<_, _, Reply>(&self.operation, Self::call(), counted).await
    }

    /// Runs a handler that answers `text` at once.
    async fn answer(&self, text: &str) -> Result<Outcome, RunError> {
        let text = text.to_owned();
        self.run(async |_| Ok(text)).await
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    async fn record(&self) -> Option<Observed> {
        let (scope, key) = (Scope::new("a").unwrap(), Key::new("k").unwrap());
        self.store.inner().get(&scope, &key).await.unwrap()
    }

    async fn is_completed(&self) -> bool {
        matches!(self.record().await.map(|seen| seen.record.state), Some(State::Completed { .. }))
    }
}

fn body(outcome: &Outcome) -> &str {
    std::str::from_utf8(outcome.reply.body().expect("a body")).unwrap()
}
