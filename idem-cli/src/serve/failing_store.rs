//! A store with a failpoint right after the write that completes a record.

use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};

use super::failpoint::{Failpoints, Point};

/// Passes every verb on to the store inside.
pub(super) struct FailingStore {
    inner: Arc<dyn Store>,
    failpoints: Failpoints,
}

impl FailingStore {
    pub(super) fn new(inner: Arc<dyn Store>, failpoints: Failpoints) -> Self {
        Self { inner, failpoints }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for FailingStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.inner.claim(claim).await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.inner.renew(fence, lease).await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let written = self.inner.checkpoint(fence, recovery, lease).await;
        report_refusal("a recovery point", fence, &written);
        written
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        let written = self.inner.complete(fence, reply).await;
        report_refusal("a reply", fence, &written);
        if written.is_ok() {
            self.failpoints.reach(Point::AfterComplete).await;
        }
        written
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.inner.release(fence).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        self.inner.get(scope, key).await
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.inner.lapsed(after, limit).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.inner.sweep(limit).await
    }
}

/// What a test and the demo wait for on standard error.
fn report_refusal<T>(what: &str, fence: &Fence, written: &Result<T, StoreError>) {
    if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::FenceLost) {
        let attempt = fence.attempt;
        tracing::warn!("the store refused {what} of attempt {attempt}: its fence is lost");
    }
}
