//! The engine: claim, run the handler once, store its reply, replay it for ever after.
//!
//! It knows nothing of HTTP. A webhook consumer keyed by event id and a job keyed by order id
//! and step use it as it is:
//!
//! ```
//! use idem_core::engine::{Call, Engine, Failure};
//! use idem_core::fingerprint::Fingerprints;
//! use idem_core::key::{Key, Scope};
//! use idem_core::memory::MemoryStore;
//! use idem_core::operation::Operation;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder(MemoryStore::new()).namespace("shop")?.build()?;
//! let paid = Operation::builder("webhooks.paid").without_comparison().build()?;
//! for delivery in 0..2 {
//!     let call = Call::new(
//!         Scope::new("payment-provider")?,
//!         Key::new("evt_1")?,
//!         Fingerprints::not_compared(),
//!     );
//!     let outcome = engine
//!         .run(&paid, call, |execution| async move { Ok::<_, Failure>("shipped".to_owned()) })
//!         .await?;
//!     assert_eq!(outcome.reply.body().unwrap(), "shipped");
//!     assert_eq!(outcome.is_executed(), delivery == 0);
//! }
//! # Ok(()) }
//! ```

mod ask_record;
mod backoff;
mod builder;
mod call;
mod caller;
mod carry;
mod claiming;
mod commit;
mod erased;
mod execution;
mod failure;
mod failure_log;
mod gate;
mod lease;
mod local;
mod local_state;
mod one_commit;
mod outcome;
mod resume;
mod run;
mod settle;
mod steps;
mod storing;
mod supervise;
mod taking_over;
mod untaken;
mod winner;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

pub use builder::{BuildError, EngineBuilder};
pub use call::Call;
pub use carry::CarriedWork;
pub use execution::Execution;
pub use failure::{Failure, Misuse};
pub use local::{Committed, Transaction};
pub use outcome::{Answer, How, Outcome, RunError};
pub use untaken::StepsChanged;

use crate::codec::Codec;
use crate::downstream::DownstreamKeys;
use crate::input::StoredInput;
use crate::log_hash::KeyHasher;
use crate::operation::{LocalForm, Operation};
use crate::record::OperationName;
use crate::reply::Reply;
use crate::store::Store;
use crate::telemetry::{self, spans};
use builder::Shared;
use caller::{Caller, RunResult};
use claiming::Asked;
use run::Run;
use taking_over::Route;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;
type BoxHandler = Box<dyn FnOnce(Execution) -> BoxFuture<Result<Answer, Failure>> + Send + 'static>;
type ResumeHandler =
    Arc<dyn Fn(Execution) -> BoxFuture<Result<Reply, Failure>> + Send + Sync + 'static>;

/// Runs operations so that they are safe to retry. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

impl Engine {
    /// Starts an engine on a store.
    pub fn builder(store: impl Store) -> EngineBuilder {
        EngineBuilder::new(Arc::new(store))
    }

    /// Runs `handler` unless this call was made before; then gives the first one's reply.
    ///
    /// Claim, handler and completion run in a task of their own: a caller that goes away changes
    /// nothing (R12).
    ///
    /// # Errors
    /// [`RunError`] says why there is no reply.
    ///
    /// # Cancel safety
    /// Dropped before an execution slot was free, nothing was claimed. Dropped later, the work
    /// goes on, and a retry of the call finds its reply.
    pub async fn run<F, Fut, R>(
        &self,
        operation: &Operation,
        call: Call,
        handler: F,
    ) -> Result<Outcome, RunError>
    where
        F: FnOnce(Execution) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Into<Answer> + Send + 'static,
    {
        let handler: BoxHandler =
            Box::new(|execution| Box::pin(async move { handler(execution).await.map(Into::into) }));
        let called = Instant::now();
        let asked = self.asked(operation, &call);
        let asked = noted(operation, called, asked)?;
        self.submit(asked, call.input, handler).await
    }

    /// Runs the handler that is registered for `operation`, on the call's input.
    ///
    /// # Errors
    /// [`RunError`]; [`RunError::NotResumable`] when none is registered.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_registered(
        &self,
        operation: &Operation,
        call: Call,
    ) -> Result<Outcome, RunError> {
        let handler = self
            .registered(operation)
            .ok_or(RunError::NotResumable { detail: "no handler is registered for it" })?;
        self.run(operation, call, move |execution| handler(execution)).await
    }

    /// Stops taking calls and waits until those that run have ended; their heartbeats go on.
    /// Says how many were still running when `limit` was over.
    ///
    /// # Cancel safety
    /// The engine takes no more calls in any case; it can be called again.
    pub async fn drain(&self, limit: Duration) -> usize {
        self.shared.gate.drain(limit).await
    }

    /// The store that it runs on.
    pub fn store(&self) -> &dyn Store {
        &*self.shared.store
    }

    /// The codec of replies, inputs and recovery points.
    pub fn codec(&self) -> &Codec {
        &self.shared.codec
    }

    /// How keys are shown in logs (R24).
    pub fn key_hasher(&self) -> &KeyHasher {
        &self.shared.key_hasher
    }

    /// How downstream keys are derived.
    pub fn downstream_keys(&self) -> &DownstreamKeys {
        &self.shared.downstream_keys
    }

    /// What is stored where an operation wants a server error stored and the call brings none.
    fn server_error(&self) -> Reply {
        self.shared.server_error.clone()
    }

    /// The operation that is registered under this name.
    pub(crate) fn registered_as(&self, name: &OperationName) -> Option<&Operation> {
        self.shared.registry.get(name).map(|(operation, _)| operation)
    }

    fn registered(&self, operation: &Operation) -> Option<ResumeHandler> {
        let (_, handler) = self.shared.registry.get(operation.name())?;
        Some(Arc::clone(handler))
    }

    fn asked(&self, operation: &Operation, call: &Call) -> Result<Asked, RunError> {
        if operation.compares() != call.fingerprints.primary().is_compared() {
            let detail = if operation.compares() {
                "the operation compares requests, and the call has no fingerprint"
            } else {
                "the operation does not compare requests, and the call has a fingerprint"
            };
            return Err(RunError::Invalid { detail });
        }
        let stored = StoredInput {
            derivation: self.downstream_keys().derivation(),
            input: call.input.clone().filter(|_| operation.keeps_input()),
        };
        let input = self
            .codec()
            .encode_input(&stored, &call.scope, &call.key)
            .map_err(|_| RunError::Invalid { detail: "the input cannot be stored" })?;
        Ok(Asked {
            operation: operation.clone(),
            scope: call.scope.clone(),
            key: call.key.clone(),
            fingerprints: call.fingerprints.clone(),
            input: Some(input),
            key_hash: self.key_hasher().hash(&call.scope, &call.key),
            takeover: operation.takeover(),
            server_error: call.server_error.clone().unwrap_or_else(|| self.server_error()),
            route: call.input.as_ref().map(Route::of),
            patience: operation.wait(),
        })
    }

    async fn submit(
        &self,
        asked: Asked,
        input: Option<crate::input::Input>,
        handler: BoxHandler,
    ) -> RunResult {
        let called = Instant::now();
        let pass = noted(&asked.operation, called, self.shared.gate.enter().await)?;
        let span = spans::run(&asked.operation, asked.key_hash);
        let (caller, receiver) = Caller::new(asked.operation.clone(), called, span.clone());
        let form = asked.operation.local_form();
        let run = Run { engine: self.clone(), asked, input, handler, pass };
        let work = async move {
            match form {
                LocalForm::ClaimFirst => run.go(caller).await,
                LocalForm::OneCommit => run.go_in_one_commit(caller).await,
            }
        };
        tokio::spawn(self.shared.carriers.carry(work.instrument(span)));
        // The sender is dropped unused only when the runtime ends.
        receiver.await.unwrap_or(Err(RunError::Unknown))
    }
}

/// Notes a call that is refused before it is submitted.
fn noted<T>(
    operation: &Operation,
    called: Instant,
    admitted: Result<T, RunError>,
) -> Result<T, RunError> {
    admitted.inspect_err(|error| telemetry::answered(operation, error.name(), called.elapsed()))
}

/// The examples of the page on the engine compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/engine.md")]
struct Page;
