//! The lease as its holder counts it, and the heartbeat that renews it (R6, R13).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::engine::execution::Execution;
use crate::error::{ErrorKind, StoreError, Verb};
use crate::record::Fence;
use crate::store::{Renewed, Store};

/// How often a lease is renewed in its span.
const BEATS_PER_LEASE: u32 = 3;

pub(super) struct LeaseState {
    until: Mutex<Instant>,
    lost: watch::Sender<bool>,
    /// Held while a renewal is under way: a transaction waits for it before it locks the row.
    renewing: tokio::sync::Mutex<()>,
}

impl LeaseState {
    pub(super) fn held_until(until: Instant) -> Self {
        Self {
            until: Mutex::new(until),
            lost: watch::Sender::new(false),
            renewing: tokio::sync::Mutex::new(()),
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
        self.lost.send_replace(true);
    }

    /// A write that set the lease was sent at `sent` and answered with `remaining`.
    pub(super) fn extend(&self, sent: Instant, remaining: Duration) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(sent + remaining);
    }

    /// Renews once. `Ok(false)` when there is nothing left to renew.
    pub(super) async fn renew(
        &self,
        store: &dyn Store,
        fence: &Fence,
        lease: Duration,
    ) -> Result<bool, StoreError> {
        let _alone = self.renewing.lock().await;
        let sent = Instant::now();
        let bound = (lease / BEATS_PER_LEASE).max(MIN_BOUND);
        let renewed = timeout(bound, store.renew(fence, lease)).await.unwrap_or_else(|_| {
            let detail = "the store did not answer in time";
            Err(StoreError::new(ErrorKind::OutcomeUnknown, Verb::Renew, detail))
        });
        match renewed {
            Ok(Renewed::Held(lease)) => {
                self.extend(sent, lease.remaining);
                Ok(true)
            }
            Ok(Renewed::GivenUp | Renewed::Completed) => Ok(false),
            Err(error) => {
                if error.kind() == ErrorKind::FenceLost {
                    self.mark_lost();
                }
                Err(error)
            }
        }
    }
}

const MIN_BOUND: Duration = Duration::from_secs(1);

/// Renews the lease until the fence is lost, the record is completed, or the operation's longest
/// run is over. It pauses while the handler's own transaction holds the row.
pub(super) async fn beat(execution: Execution, fence: Fence) {
    let inner = &execution.inner;
    let lease = inner.operation.lease();
    let end = inner.started + inner.operation.max_run_time();
    let mut open = inner.local_open.subscribe();
    let mut pause = lease / BEATS_PER_LEASE;
    loop {
        sleep(pause).await;
        if open.wait_for(|open| !*open).await.is_err() || Instant::now() >= end {
            return;
        }
        match inner.lease.renew(inner.engine.store(), &fence, lease).await {
            Ok(true) => pause = lease / BEATS_PER_LEASE,
            Ok(false) => return,
            Err(error) if error.kind() == ErrorKind::FenceLost => {
                tracing::warn!(
                    key_hash = %execution.key_hash(),
                    attempt = fence.attempt,
                    "lease lost to another execution"
                );
                return;
            }
            Err(error) => {
                tracing::debug!(error = %error, "heartbeat failed; trying again");
                pause = (lease / (BEATS_PER_LEASE * 4)).max(Duration::from_millis(1));
            }
        }
    }
}
