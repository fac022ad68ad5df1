//! A store with a point before and after each verb of a job.

use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::StoreError;
use idem_core::key::{Key, Scope};
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};
use idem_core::transactional::TransactionalStore;

use crate::points::reach;

/// Heartbeats and listings come as the clock says, so they are no points.
#[derive(Clone)]
pub(crate) struct Failing<S>(pub(crate) S);

/// A point, the call, and another one.
macro_rules! between {
    ($name:literal, $call:expr) => {{
        reach(concat!("before ", $name));
        let answer = $call.await;
        reach(concat!("after ", $name));
        answer
    }};
}

#[async_trait]
impl<S: Store> Store for Failing<S> {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        between!("claim", self.0.claim(claim))
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.0.renew(fence, lease).await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        between!("checkpoint", self.0.checkpoint(fence, recovery, lease))
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        between!("complete", self.0.complete(fence, reply))
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        between!("release", self.0.release(fence))
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        self.0.get(scope, key).await
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.0.lapsed(after, limit).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.0.sweep(limit).await
    }
}

#[async_trait]
impl<S: TransactionalStore> TransactionalStore for Failing<S> {
    type Connection = S::Connection;
    type Transaction = S::Transaction;

    fn connection<'t>(&self, open: &'t mut Self::Transaction) -> &'t mut Self::Connection {
        self.0.connection(open)
    }

    async fn begin(&self) -> Result<Self::Transaction, StoreError> {
        between!("begin", self.0.begin())
    }

    async fn hold_in(&self, open: &mut Self::Transaction, fence: &Fence) -> Result<(), StoreError> {
        between!("hold in", self.0.hold_in(open, fence))
    }

    async fn claim_in(
        &self,
        open: &mut Self::Transaction,
        claim: &Claim<'_>,
    ) -> Result<Claimed, StoreError> {
        between!("claim in", self.0.claim_in(open, claim))
    }

    async fn savepoint_in(&self, open: &mut Self::Transaction) -> Result<(), StoreError> {
        between!("savepoint in", self.0.savepoint_in(open))
    }

    async fn undo_to_savepoint_in(&self, open: &mut Self::Transaction) -> Result<(), StoreError> {
        between!("undo in", self.0.undo_to_savepoint_in(open))
    }

    async fn checkpoint_in(
        &self,
        open: &mut Self::Transaction,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        between!("checkpoint in", self.0.checkpoint_in(open, fence, recovery, lease))
    }

    async fn complete_in(
        &self,
        open: &mut Self::Transaction,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        between!("complete in", self.0.complete_in(open, fence, reply))
    }

    async fn push_in(
        &self,
        open: &mut Self::Transaction,
        message: &OutboxMessage,
    ) -> Result<(), StoreError> {
        between!("push in", self.0.push_in(open, message))
    }

    async fn commit(&self, open: Self::Transaction) -> Result<(), StoreError> {
        between!("commit", self.0.commit(open))
    }

    async fn rollback(&self, open: Self::Transaction) -> Result<(), StoreError> {
        between!("rollback", self.0.rollback(open))
    }
}
