//! What follows the caller into the tasks that an engine spawns.
//!
//! Claim, handler and completion run in tasks of their own, so what the caller's task knows of
//! itself, its task-locals, does not reach the handler. A library that lives on one gives the engine
//! a function that takes it along: it is called in the task that spawns, with the work, and returns
//! the work as it is to run. The engine knows nothing of what is carried, and the library nothing
//! of engines. The current span is carried in any case.
//!
//! ```
//! use idem_core::engine::{CarriedWork, Engine};
//! use idem_core::memory::MemoryStore;
//!
//! tokio::task_local! { static REQUEST: u64; }
//!
//! fn carried(work: CarriedWork) -> CarriedWork {
//!     match REQUEST.try_with(|request| *request) {
//!         Ok(request) => Box::pin(REQUEST.scope(request, work)),
//!         Err(_) => work,
//!     }
//! }
//!
//! let engine = Engine::builder(MemoryStore::new()).namespace("shop")?.carry(carried).build()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::BoxFuture;
use crate::engine::builder::EngineBuilder;

/// Work that an engine is about to spawn.
pub type CarriedWork = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// The functions that an engine was given, in their order.
#[derive(Clone, Default)]
pub(super) struct Carriers(Vec<Arc<dyn Fn(CarriedWork) -> CarriedWork + Send + Sync>>);

impl EngineBuilder {
    /// Takes something of the caller's task along into the tasks that the engine spawns: `carry`
    /// is called where it spawns, and what it returns is run. It may wrap the work and must run
    /// it: a call whose work is dropped has an unknown outcome.
    ///
    /// What a reconciler resumes has no caller. Several functions are called one after the other.
    pub fn carry<F>(mut self, carry: F) -> Self
    where
        F: Fn(CarriedWork) -> CarriedWork + Send + Sync + 'static,
    {
        self.carriers.0.push(Arc::new(carry));
        self
    }
}

impl Carriers {
    /// The work as it is to be spawned from this task.
    pub(super) fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<T> {
        if self.0.is_empty() {
            return Box::pin(work);
        }
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        let mut carried: CarriedWork = Box::pin(async move {
            let done = work.await;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        });
        for carry in &self.0 {
            carried = carry(carried);
        }
        Box::pin(async move {
            carried.await;
            let done = result.lock().unwrap_or_else(PoisonError::into_inner).take();
            // The panic counts as the work's: nobody knows what was done.
            done.expect("what carries work runs it to its end")
        })
    }
}
