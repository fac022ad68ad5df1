//! The lease as its holder counts it, and the heartbeat that renews it (R6, R13).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedRwLockWriteGuard, RwLock, RwLockReadGuard, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::engine::execution::Execution;
use crate::error::{ErrorKind, StoreError, Verb};
use crate::operation::Operation;
use crate::record::Fence;
use crate::store::{Renewed, Store};
use crate::telemetry;

/// How often a lease is renewed in its span.
const BEATS_PER_LEASE: u32 = 3;

pub(super) struct LeaseState {
    operation: Operation,
    until: Mutex<Instant>,
    lost: watch::Sender<bool>,
    /// The record as this process writes to it: shared by heartbeats and recovery points, alone
    /// for the handler's transaction, which locks the row until it ends.
    row: Arc<RwLock<()>>,
}

impl LeaseState {
    pub(super) fn held_until(until: Instant, operation: Operation) -> Self {
        Self {
            operation,
            until: Mutex::new(until),
            lost: watch::Sender::new(false),
            row: Arc::default(),
        }
    }

    pub(super) fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_run_out(&self) -> bool {
        self.until() <= Instant::now()
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    pub(super) async fn lost(&self) {
        let mut lost = self.lost.subscribe();
        // The sender lives as long as this state.
        let _ = lost.wait_for(|lost| *lost).await;
    }

    pub(super) fn mark_lost(&self) {
        if self.lost.send_if_modified(|lost| !std::mem::replace(lost, true)) {
            telemetry::fence_lost(&self.operation);
        }
    }

    /// Takes note of an error: a lost fence is lost for good.
    pub(super) fn note(&self, error: &StoreError) {
        if error.kind() == ErrorKind::FenceLost {
            self.mark_lost();
        }
    }

    /// A write that set the lease was sent at `sent` and answered with `remaining`.
    pub(super) fn extend(&self, sent: Instant, remaining: Duration) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(sent + remaining);
    }

    /// The right to write to the record outside a transaction. It waits while one is open.
    pub(super) async fn row_shared(&self) -> RwLockReadGuard<'_, ()> {
        self.row.read().await
    }

    /// The right to lock the row. It waits for the writes that are under way.
    pub(super) async fn row_alone(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.row).write_owned().await
    }

    /// Renews once; the caller has the right to write. `Ok(false)` when there is nothing left to
    /// renew.
    pub(super) async fn renew(
        &self,
        store: &dyn Store,
        fence: &Fence,
        lease: Duration,
    ) -> Result<bool, StoreError> {
        let sent = Instant::now();
        let bound = (lease / BEATS_PER_LEASE).max(MIN_BOUND);
        let renewed = bounded(Verb::Renew, bound, store.renew(fence, lease)).await;
        match renewed {
            Ok(Renewed::Held(lease)) => {
                self.extend(sent, lease.remaining);
                Ok(true)
            }
            Ok(Renewed::GivenUp | Renewed::Completed) => Ok(false),
            Err(error) => {
                self.note(&error);
                Err(error)
            }
        }
    }
}

/// The shortest time that a store is given to answer.
pub(super) const MIN_BOUND: Duration = Duration::from_secs(1);

/// A store's answer within `bound`; without one the outcome is unknown.
pub(super) async fn bounded<T>(
    verb: Verb,
    bound: Duration,
    asked: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(bound, asked).await.unwrap_or_else(|_| {
        let detail = "the store did not answer in time";
        Err(StoreError::new(ErrorKind::OutcomeUnknown, verb, detail))
    })
}

/// Renews the lease until the fence is lost, the record is completed, or the operation's longest
/// run is over. It pauses while the handler's own transaction holds the row.
pub(super) async fn beat(execution: Execution, fence: Fence) {
    let inner = &execution.inner;
    let lease = inner.operation.lease();
    let end = inner.started + inner.operation.max_run_time();
    // What the claim itself took is gone from the lease already.
    let left = inner.lease.until().saturating_duration_since(Instant::now());
    let mut pause = lease.min(left) / BEATS_PER_LEASE;
    loop {
        sleep(pause).await;
        let row = inner.lease.row_shared().await;
        if Instant::now() >= end {
            return;
        }
        let renewed = inner.lease.renew(inner.engine.store(), &fence, lease).await;
        drop(row);
        match renewed {
            Ok(true) => pause = lease / BEATS_PER_LEASE,
            Ok(false) => return,
            Err(error) if error.kind() == ErrorKind::FenceLost => {
                tracing::warn!(
                    idem.key_hash = %execution.key_hash(),
                    idem.attempt = fence.attempt,
                    "lease lost to another execution"
                );
                return;
            }
            Err(error) => {
                telemetry::heartbeat_failed(&inner.operation);
                tracing::debug!(
                    idem.key_hash = %execution.key_hash(),
                    error = %error,
                    "heartbeat failed; trying again"
                );
                pause = (lease / (BEATS_PER_LEASE * 4)).max(Duration::from_millis(1));
            }
        }
    }
}
