//! A store that loses requests and replies as it is told.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};

/// What befalls one call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The request is lost; the error says this.
    Request(ErrorKind),
    /// The call is carried out, and its reply is lost.
    Reply,
    /// The call is carried out, and its reply comes late.
    Late(Duration),
    /// The request is lost, and nobody ever says so.
    Silence,
    /// The store's code panics.
    Panic,
}

/// Says what befalls the next call.
type Chance = Box<dyn FnMut() -> Option<Fault> + Send>;

#[derive(Clone)]
pub(crate) struct FaultyStore {
    inner: MemoryStore,
    script: Arc<Mutex<HashMap<Verb, VecDeque<Fault>>>>,
    chance: Arc<Mutex<HashMap<Verb, Chance>>>,
    calls: Arc<Mutex<Vec<Verb>>>,
}

impl FaultyStore {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self { inner, script: Arc::default(), chance: Arc::default(), calls: Arc::default() }
    }

    pub(crate) fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    /// The next calls of this verb fail like this, one after the other.
    pub(crate) fn fail(&self, verb: Verb, faults: impl IntoIterator<Item = Fault>) {
        self.script.lock().unwrap().entry(verb).or_default().extend(faults);
    }

    /// Each call of this verb fails as `chance` says, until it heals.
    pub(crate) fn fail_by(
        &self,
        verb: Verb,
        chance: impl FnMut() -> Option<Fault> + Send + 'static,
    ) {
        self.chance.lock().unwrap().insert(verb, Box::new(chance));
    }

    pub(crate) fn heal(&self) {
        self.script.lock().unwrap().clear();
        self.chance.lock().unwrap().clear();
    }

    pub(crate) fn calls(&self, verb: Verb) -> usize {
        self.calls.lock().unwrap().iter().filter(|called| **called == verb).count()
    }

    async fn befall<T>(
        &self,
        verb: Verb,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.calls.lock().unwrap().push(verb);
        let scripted = self.script.lock().unwrap().get_mut(&verb).and_then(VecDeque::pop_front);
        let fault = scripted
            .or_else(|| self.chance.lock().unwrap().get_mut(&verb).and_then(|chance| chance()));
        match fault {
            None => call.await,
            Some(Fault::Request(kind)) => Err(StoreError::new(kind, verb, "the request was lost")),
            Some(Fault::Reply) => {
                let _ = call.await;
                Err(StoreError::new(ErrorKind::OutcomeUnknown, verb, "the reply was lost"))
            }
            Some(Fault::Late(by)) => {
                let result = call.await;
                tokio::time::sleep(by).await;
                result
            }
            Some(Fault::Silence) => std::future::pending().await,
            Some(Fault::Panic) => panic!("asked for by the test"),
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.befall(Verb::Claim, self.inner.claim(claim)).await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.befall(Verb::Renew, self.inner.renew(fence, lease)).await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.befall(Verb::Checkpoint, self.inner.checkpoint(fence, recovery, lease)).await
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        self.befall(Verb::Complete, self.inner.complete(fence, reply)).await
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.befall(Verb::Release, self.inner.release(fence)).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        self.befall(Verb::Get, self.inner.get(scope, key)).await
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.befall(Verb::Lapsed, self.inner.lapsed(after, limit)).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.befall(Verb::Sweep, self.inner.sweep(limit)).await
    }
}
