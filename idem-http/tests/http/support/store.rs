//! A store that fails when it is told to.

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

/// Passes everything on, except the verbs that are to fail.
#[derive(Debug, Clone)]
pub(crate) struct FaultyStore {
    inner: MemoryStore,
    faults: Arc<Mutex<Vec<(Verb, ErrorKind)>>>,
}

impl FaultyStore {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self { inner, faults: Arc::default() }
    }

    /// From now on this verb fails so.
    pub(crate) fn fail(&self, verb: Verb, kind: ErrorKind) {
        self.faults.lock().unwrap().push((verb, kind));
    }

    /// From now on nothing fails.
    pub(crate) fn heal(&self) {
        self.faults.lock().unwrap().clear();
    }

    fn check(&self, verb: Verb) -> Result<(), StoreError> {
        let faults = self.faults.lock().unwrap();
        match faults.iter().find(|(failing, _)| *failing == verb) {
            Some((_, kind)) => Err(StoreError::new(*kind, verb, "told to fail")),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.check(Verb::Claim)?;
        self.inner.claim(claim).await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.check(Verb::Renew)?;
        self.inner.renew(fence, lease).await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.check(Verb::Checkpoint)?;
        self.inner.checkpoint(fence, recovery, lease).await
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        self.check(Verb::Complete)?;
        self.inner.complete(fence, reply).await
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.check(Verb::Release)?;
        self.inner.release(fence).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        self.check(Verb::Get)?;
        self.inner.get(scope, key).await
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.inner.lapsed(after, limit).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.inner.sweep(limit).await
    }
}
