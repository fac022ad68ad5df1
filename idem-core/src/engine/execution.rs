//! What a handler sees of its own execution.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::downstream::{Derivation, DownstreamKey, KeyParts};
use crate::engine::Engine;
use crate::engine::failure::{Failure, Misuse};
use crate::engine::lease::LeaseState;
use crate::engine::local_state::Local;
use crate::engine::steps::Standing;
use crate::engine::untaken::Untaken;
use crate::fingerprint::Fingerprint;
use crate::input::Input;
use crate::key::{Key, Scope};
use crate::log_hash::KeyHash;
use crate::operation::{LocalForm, Operation};
use crate::record::Fence;
use crate::reply::Reply;

/// One execution of a handler. Clones are the same execution.
///
/// What may be done elsewhere is done through it: [`step`](Self::step) and
/// [`downstream_key`](Self::downstream_key) for external effects,
/// [`transaction`](Self::transaction) for rows in the store's own database.
#[derive(Clone)]
pub struct Execution {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) operation: Operation,
    pub(super) scope: Scope,
    pub(super) key: Key,
    /// `None` when it runs without protection.
    pub(super) fence: Option<Fence>,
    pub(super) fingerprint: Fingerprint,
    pub(super) derivation: Derivation,
    pub(super) input: Option<Input>,
    /// What is stored where the operation wants a server error stored.
    pub(super) server_error: Reply,
    pub(super) age_at_start: Duration,
    pub(super) started: Instant,
    pub(super) lease: LeaseState,
    pub(super) standing: tokio::sync::Mutex<Standing>,
    pub(super) untaken: Untaken,
    /// A downstream key was asked for.
    pub(super) asked_downstream: AtomicBool,
    pub(super) local: Local,
}

impl Execution {
    /// 1 for the first attempt of this life of the key; 0 without protection.
    pub fn attempt(&self) -> u32 {
        self.inner.fence.as_ref().map_or(0, |fence| fence.attempt)
    }

    /// The operation that runs.
    pub fn operation(&self) -> &Operation {
        &self.inner.operation
    }

    /// Whose key.
    pub fn scope(&self) -> &Scope {
        &self.inner.scope
    }

    /// Which key.
    pub fn key(&self) -> &Key {
        &self.inner.key
    }

    /// The key as logs may show it (R24).
    pub fn key_hash(&self) -> KeyHash {
        self.inner.engine.key_hasher().hash(&self.inner.scope, &self.inner.key)
    }

    /// The input: of the first claim of this life of the key, where the operation keeps it, so
    /// that every attempt sees the same.
    pub fn input(&self) -> Option<&Input> {
        self.inner.input.as_ref()
    }

    /// How long ago this life of the key was first claimed.
    pub fn age(&self) -> Duration {
        self.inner.age_at_start + self.inner.started.elapsed()
    }

    /// Whether another execution has taken over, as far as this one knows.
    pub fn is_lease_lost(&self) -> bool {
        self.inner.lease.is_lost()
    }

    /// Waits until another execution has taken over. A handler that watches it can stop early;
    /// its result does not count any more.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub async fn lease_lost(&self) {
        self.inner.lease.lost().await;
    }

    /// Marks that the execution began (R26), unless a recovery point stands already. What the
    /// handler found before this was checking the request; from here on something may be done.
    ///
    /// # Errors
    /// A [`Failure`] when the recovery point could not be written; the handler returns it.
    ///
    /// # Cancel safety
    /// The recovery point is written to the end in any case.
    pub async fn begin(&self) -> Result<(), Failure> {
        self.may_go_on().await?;
        self.mark_begun().await
    }

    /// The key to pass to a downstream at `step`: the same on every attempt, under the
    /// generation that stands. Marks begun where the operation does so.
    ///
    /// It is given only while the lease is held and the record is younger than the downstream's
    /// window (R27). Ask for it right before the call.
    ///
    /// # Errors
    /// A [`Failure`] for the handler to return: lease lost, window over, or the store's failure.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub async fn downstream_key(&self, step: &str) -> Result<DownstreamKey, Failure> {
        self.key_to_act(step).await.map(|(key, _)| key)
    }

    /// Runs the handler that is registered for this operation, as a reconciler would: on the
    /// stored input, after marking begun. For the HTTP handler of such an operation, once it has
    /// checked the request.
    ///
    /// # Errors
    /// What the handler fails with, or [`Misuse::NotRegistered`].
    ///
    /// # Cancel safety
    /// As the handler's.
    pub async fn registered(&self) -> Result<Reply, Failure> {
        let handler =
            self.inner.engine.registered(&self.inner.operation).ok_or(Misuse::NotRegistered)?;
        self.begin().await?;
        handler(self.clone()).await
    }

    /// Whether this execution may still act: it is protected, has not ended, its lease is held,
    /// and the record is young enough. A lease that has run out by the local count is asked for.
    pub(super) async fn may_go_on(&self) -> Result<(), Failure> {
        let inner = &self.inner;
        let Some(fence) = &inner.fence else { return Err(Misuse::Unprotected.into()) };
        if inner.operation.local_form() == LocalForm::OneCommit {
            return Err(Misuse::OneCommitHasNoSteps.into());
        }
        if inner.local.is_over() {
            return Err(Misuse::ExecutionEnded.into());
        }
        // While a transaction is open it holds the row, and nobody takes over.
        if inner.lease.has_run_out() && !inner.lease.is_lost() && !inner.local.is_open() {
            let _row = inner.lease.row_shared().await;
            let lease = inner.operation.lease();
            let renewed = inner.lease.renew(inner.engine.store(), fence, lease).await;
            if !renewed.map_err(failure_of_store)? {
                return Err(Failure::lease_lost());
            }
        }
        if inner.lease.is_lost() {
            return Err(Failure::lease_lost());
        }
        // Last, since asking for the lease may have taken a while.
        if inner.operation.resumable_until().is_some_and(|limit| self.age() >= limit) {
            return Err(Failure::window_over());
        }
        Ok(())
    }

    pub(super) fn derive(&self, step: &str, generation: u32) -> Result<DownstreamKey, Failure> {
        let inner = &self.inner;
        let parts = KeyParts {
            scope: &inner.scope,
            key: &inner.key,
            operation: inner.operation.name().as_str(),
            fingerprint_scheme: inner.fingerprint.scheme().as_byte(),
            fingerprint_digest: inner.fingerprint.digest(),
            step,
            generation,
        };
        Ok(inner.engine.downstream_keys().key(&inner.derivation, &parts)?)
    }

    /// Whether a downstream key was asked for.
    pub(super) fn asked_downstream(&self) -> bool {
        self.inner.asked_downstream.load(Ordering::SeqCst)
    }

    /// Whether this execution asked for something that may have left a mark elsewhere.
    pub(super) fn may_have_acted(&self) -> bool {
        self.asked_downstream() || self.inner.local.was_asked()
    }
}

/// A store's failure as a handler passes it on.
pub(super) fn failure_of_store(error: crate::error::StoreError) -> Failure {
    if error.kind() == crate::error::ErrorKind::FenceLost {
        Failure::lease_lost()
    } else {
        error.into()
    }
}
