//! Recovery points: what an execution has done, so that a resumed one does not do it again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::codec::Sealed;
use crate::downstream::DownstreamKey;
use crate::engine::backoff::Backoff;
use crate::engine::execution::{Execution, failure_of_store};
use crate::engine::failure::{Failure, Misuse};
use crate::error::{ErrorKind, StoreError};
use crate::operation::Begun;
use crate::progress::{Progress, ProgressError};
use crate::record::Recovery;

/// The recovery point that stands, as this execution knows it.
pub(super) struct Standing {
    /// 0 when there is none.
    pub(super) number: u32,
    pub(super) progress: Progress,
}

impl Standing {
    pub(super) fn has_begun(&self) -> bool {
        self.number > 0
    }
}

impl Execution {
    /// One external effect: calls `effect` with the downstream key of this step, and stores what
    /// it returns as a recovery point. An execution that resumes after it gets the stored result
    /// and does not call again.
    ///
    /// ```
    /// # use idem_core::engine::{Execution, Failure};
    /// # async fn charge_card(key: &str) -> Result<String, std::io::Error> { Ok("ch_1".into()) }
    /// async fn handler(execution: Execution) -> Result<String, Failure> {
    ///     let charge: String =
    ///         execution.step("charge", |key| async move { charge_card(key.as_str()).await }).await?;
    ///     Ok(charge)
    /// }
    /// ```
    ///
    /// A definite refusal that the handler goes on from belongs into the result. An error that
    /// `effect` returns is not stored: the outcome of the step is then unknown, and the next
    /// attempt calls again under the same key. For a downstream that remembers failures under
    /// its key, see [`next_generation`](Self::next_generation).
    ///
    /// # Errors
    /// A [`Failure`] for the handler to return: that of `effect`, lease lost, window over (R27),
    /// or the store's failure.
    ///
    /// # Cancel safety
    /// Dropped while `effect` runs, the step is not done and the next call of it repeats the
    /// downstream call under the same key. A recovery point that is being written is written to
    /// the end.
    pub async fn step<T, E, F, Fut>(&self, name: &str, effect: F) -> Result<T, Failure>
    where
        T: Serialize + DeserializeOwned,
        E: Into<Failure>,
        F: FnOnce(DownstreamKey) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let stored = self.inner.standing.lock().await.progress.step(name).cloned();
        let generation = stored.as_ref().map_or(0, |step| step.generation());
        if let Some(result) = stored.as_ref().and_then(|step| step.result()) {
            return Ok(serde_json::from_slice(result)?);
        }
        self.refuse_in_transaction()?;
        self.inner.asked_downstream.store(true, Ordering::SeqCst);
        self.begin().await?;
        let key = self.derive(name, generation)?;
        let result = effect(key).await.map_err(Into::into)?;
        let bytes = serde_json::to_vec(&result)?;
        let name = name.to_owned();
        self.checkpoint(move |progress| progress.with_result(&name, generation, bytes)).await?;
        Ok(result)
    }

    /// Lets the next call of a step use a new downstream key, after a **definite** failure at a
    /// downstream that remembers failures under their key. The new generation is stored before
    /// it is used, so that a crash does not fall back to the old one (R20).
    ///
    /// Never call it after an unknown outcome: the effect may have happened under the old key.
    ///
    /// # Errors
    /// A [`Failure`] for the handler to return.
    ///
    /// # Cancel safety
    /// The generation is stored in any case.
    pub async fn next_generation(&self, name: &str) -> Result<(), Failure> {
        self.refuse_in_transaction()?;
        self.begin().await?;
        let name = name.to_owned();
        self.checkpoint(move |progress| {
            let next = progress.step(&name).map_or(0, |step| step.generation()) + 1;
            progress.with_generation(&name, next)
        })
        .await
    }

    pub(super) async fn generation(&self, step: &str) -> u32 {
        let standing = self.inner.standing.lock().await;
        standing.progress.step(step).map_or(0, |step| step.generation())
    }

    /// Writes "begun" where the operation marks it and nothing stands yet.
    pub(super) async fn mark_begun(&self) -> Result<(), Failure> {
        if self.inner.operation.begun() == Begun::Unmarked {
            return Ok(());
        }
        let standing = Arc::clone(&self.inner.standing).lock_owned().await;
        if standing.has_begun() {
            return Ok(());
        }
        self.refuse_in_transaction()?;
        self.write(standing, Progress::begun()).await
    }

    async fn checkpoint(
        &self,
        change: impl FnOnce(&Progress) -> Result<Progress, ProgressError>,
    ) -> Result<(), Failure> {
        let standing = Arc::clone(&self.inner.standing).lock_owned().await;
        let next = change(&standing.progress)?;
        self.write(standing, next).await
    }

    /// Writes the next recovery point in a task of its own: a handler that is dropped half-way
    /// must not leave a number written that this execution does not know of.
    async fn write(
        &self,
        mut standing: OwnedMutexGuard<Standing>,
        progress: Progress,
    ) -> Result<(), Failure> {
        let recovery = self.next_recovery(&standing, &progress)?;
        let execution = self.clone();
        let written = tokio::spawn(async move {
            execution.write_until_known(&recovery).await?;
            *standing = Standing { number: recovery.number, progress };
            Ok::<_, StoreError>(())
        });
        written.await?.map_err(failure_of_store)
    }

    pub(super) fn next_recovery(
        &self,
        standing: &Standing,
        progress: &Progress,
    ) -> Result<Recovery, Failure> {
        let inner = &self.inner;
        let payload: Sealed =
            inner.engine.codec().encode_progress(progress, &inner.scope, &inner.key)?;
        Ok(Recovery { number: standing.number + 1, payload })
    }

    /// Repeats the write, which is harmless (R5), while the lease runs.
    async fn write_until_known(&self, recovery: &Recovery) -> Result<(), StoreError> {
        let inner = &self.inner;
        let Some(fence) = &inner.fence else { unreachable!("only a claim has recovery points") };
        let mut backoff = Backoff::until(inner.lease.until());
        loop {
            let sent = Instant::now();
            let lease = inner.operation.lease();
            match inner.engine.store().checkpoint(fence, recovery, lease).await {
                Ok(lease) => {
                    inner.lease.extend(sent, lease.remaining);
                    return Ok(());
                }
                Err(error) => {
                    if error.kind() == ErrorKind::FenceLost {
                        inner.lease.mark_lost();
                    }
                    if !error.kind().is_transient() || !backoff.wait().await {
                        return Err(error);
                    }
                }
            }
        }
    }

    pub(super) fn refuse_in_transaction(&self) -> Result<(), Failure> {
        if self.lock_local().is_open() { Err(Misuse::TransactionOpen.into()) } else { Ok(()) }
    }
}
