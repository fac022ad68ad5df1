//! A store whose claims are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::StoreError;
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};

/// Passes everything on. Those with one count count together.
pub(crate) struct Counted {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) claims: Arc<AtomicU64>,
}

#[async_trait]
impl Store for Counted {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.claims.fetch_add(1, Ordering::Relaxed);
        self.store.claim(claim).await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.store.renew(fence, lease).await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.store.checkpoint(fence, recovery, lease).await
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        self.store.complete(fence, reply).await
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.store.release(fence).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        self.store.get(scope, key).await
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.store.lapsed(after, limit).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.store.sweep(limit).await
    }
}
