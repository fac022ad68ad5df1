//! An outbox that fails as a test wants it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::error::{ErrorKind, StoreError, Verb};
use crate::outbox::{
    Backlog, EntryPage, LeaseMessages, LeasedBatch, Lost, MemoryOutbox, MessageId, MessageLease,
    MessageState, Outbox, Settlement,
};
use crate::store::{Cursor, Swept};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Called {
    Lease,
    Renew,
    Settle,
}

/// Whether a call fails, so long after the outbox was made.
type Fails = Box<dyn Fn(Called, Duration) -> bool + Send + Sync>;

/// What fails was not applied.
pub(super) struct Faulty {
    inner: Arc<MemoryOutbox>,
    began: Instant,
    fails: Fails,
}

impl Faulty {
    pub(super) fn new(
        inner: &Arc<MemoryOutbox>,
        fails: impl Fn(Called, Duration) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), began: Instant::now(), fails: Box::new(fails) })
    }

    fn check(&self, called: Called) -> Result<(), StoreError> {
        if (self.fails)(called, self.began.elapsed()) {
            let detail = "as the test wants it";
            return Err(StoreError::new(ErrorKind::NotApplied, Verb::Relay, detail));
        }
        Ok(())
    }
}

#[async_trait]
impl Outbox for Faulty {
    async fn lease(&self, call: &LeaseMessages) -> Result<LeasedBatch, StoreError> {
        self.check(Called::Lease)?;
        self.inner.lease(call).await
    }
    async fn renew(&self, leases: &[MessageLease], lease: Duration) -> Result<Lost, StoreError> {
        self.check(Called::Renew)?;
        self.inner.renew(leases, lease).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Lost, StoreError> {
        self.check(Called::Settle)?;
        self.inner.settle(settlements).await
    }
    async fn list(
        &self,
        state: MessageState,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<EntryPage, StoreError> {
        self.inner.list(state, after, limit).await
    }
    async fn requeue(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        self.inner.requeue(ids).await
    }
    async fn discard(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        self.inner.discard(ids).await
    }
    async fn delete_sent(&self, sent_before: Duration, limit: u32) -> Result<Swept, StoreError> {
        self.inner.delete_sent(sent_before, limit).await
    }
    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.inner.backlog().await
    }
}
