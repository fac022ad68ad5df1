//! An outbox that fails as a test wants it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

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

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    NotApplied,
    /// It is applied, and the answer is lost.
    Unknown,
}

/// So long after the outbox was made.
type Decides = Box<dyn Fn(Called, Duration) -> (Duration, Fate) + Send + Sync>;

pub(super) struct Faulty {
    inner: Arc<MemoryOutbox>,
    began: Instant,
    decides: Decides,
    /// How often it was asked to delete, while another relay had all sent messages locked.
    pub(super) deletes: AtomicU32,
    pub(super) sent_are_locked: AtomicBool,
}

impl Faulty {
    /// What fails is not applied.
    pub(super) fn new(
        inner: &Arc<MemoryOutbox>,
        fails: impl Fn(Called, Duration) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with(inner, move |called, time| {
            let fate = if fails(called, time) { Fate::NotApplied } else { Fate::Works };
            (Duration::ZERO, fate)
        })
    }

    /// `decides` says how long a call takes, and how it ends.
    pub(super) fn with(
        inner: &Arc<MemoryOutbox>,
        decides: impl Fn(Called, Duration) -> (Duration, Fate) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (inner, began) = (inner.clone(), Instant::now());
        let (deletes, sent_are_locked) = Default::default();
        Arc::new(Self { inner, began, decides: Box::new(decides), deletes, sent_are_locked })
    }

    async fn through<T>(
        &self,
        called: Called,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (takes, fate) = (self.decides)(called, self.began.elapsed());
        let failed = |kind| StoreError::new(kind, Verb::Relay, "as the test wants it");
        sleep(takes / 2).await;
        if fate == Fate::NotApplied {
            return Err(failed(ErrorKind::NotApplied));
        }
        let answer = call.await?;
        sleep(takes / 2).await;
        if fate == Fate::Unknown { Err(failed(ErrorKind::OutcomeUnknown)) } else { Ok(answer) }
    }
}

#[async_trait]
impl Outbox for Faulty {
    async fn lease(&self, call: &LeaseMessages) -> Result<LeasedBatch, StoreError> {
        self.through(Called::Lease, self.inner.lease(call)).await
    }
    async fn renew(&self, leases: &[MessageLease], lease: Duration) -> Result<Lost, StoreError> {
        self.through(Called::Renew, self.inner.renew(leases, lease)).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Lost, StoreError> {
        self.through(Called::Settle, self.inner.settle(settlements)).await
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
        if self.sent_are_locked.load(Ordering::SeqCst) {
            self.deletes.fetch_add(1, Ordering::SeqCst);
            return Ok(Swept { deleted: 0, more: true });
        }
        self.inner.delete_sent(sent_before, limit).await
    }
    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.inner.backlog().await
    }
}
