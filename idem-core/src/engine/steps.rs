//! Recovery points: what an execution has done, so that a resumed one does not do it again.

use std::sync::atomic::Ordering;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::Instrument;

use crate::codec::Sealed;
use crate::downstream::DownstreamKey;
use crate::engine::backoff::Backoff;
use crate::engine::execution::{Execution, failure_of_store};
use crate::engine::failure::{Failure, Misuse};
use crate::engine::lease::bounded;
use crate::engine::untaken::StepsChanged;
use crate::error::{StoreError, Verb};
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
    /// the store's failure, or [`StepsChanged`] where a step on record was not asked for before.
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
        if let Some(done) = self.done(name).await? {
            return Ok(done);
        }
        let (key, generation) = self.key_to_act(name).await?;
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
        self.come_to(name).await?;
        let name = name.to_owned();
        self.checkpoint(move |progress| {
            let stands = progress.step(&name).map_or(0, |step| step.generation());
            // At the end of the numbers it stays, and the next call repeats the last key.
            progress.with_generation(&name, stands.saturating_add(1))
        })
        .await
    }

    /// The stored result of a step, where an earlier attempt, or
    /// [`commit_step`](crate::engine::Transaction::commit_step), stored one.
    ///
    /// # Errors
    /// A [`Failure`] with [`StepsChanged`] when it is not JSON of that shape: the step is done,
    /// but not as this build knows it.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub async fn done<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        self.inner.untaken.take(name);
        let standing = self.inner.standing.lock().await;
        let result = standing.progress.step(name).and_then(|step| step.result());
        // The error of the decoder may show the result (R24).
        let decoded = result.map(|result| serde_json::from_slice(result)).transpose();
        let changed = |_| StepsChanged::OtherResult { step: name.to_owned() };
        decoded.map_err(|error| Failure::of_steps(changed(error)))
    }

    /// The key for a call that is about to be made, and its generation.
    pub(super) async fn key_to_act(&self, step: &str) -> Result<(DownstreamKey, u32), Failure> {
        self.refuse_in_transaction()?;
        self.come_to(step).await?;
        self.inner.asked_downstream.store(true, Ordering::SeqCst);
        self.begin().await?;
        // Marking may have taken a while: what allows the call is asked for right before it.
        self.may_go_on().await?;
        let standing = self.inner.standing.lock().await;
        let generation = standing.progress.step(step).map_or(0, |step| step.generation());
        Ok((self.derive(step, generation)?, generation))
    }

    /// Before anything new is done: the handler must have come to what is on record.
    async fn come_to(&self, step: &str) -> Result<(), Failure> {
        self.inner.untaken.take(step);
        self.inner.untaken.check_before_acting().await.map_err(Failure::of_steps)
    }

    /// Writes "begun" where the operation marks it and nothing stands yet.
    pub(super) async fn mark_begun(&self) -> Result<(), Failure> {
        if self.inner.operation.begun() == Begun::Unmarked {
            return Ok(());
        }
        if self.inner.standing.lock().await.has_begun() {
            return Ok(());
        }
        self.refuse_in_transaction()?;
        self.write(|standing| Ok(if standing.has_begun() { None } else { Some(Progress::begun()) }))
            .await
    }

    async fn checkpoint(
        &self,
        change: impl FnOnce(&Progress) -> Result<Progress, ProgressError> + Send + 'static,
    ) -> Result<(), Failure> {
        self.write(|standing| change(&standing.progress).map(Some)).await
    }

    /// Writes the next recovery point in a task of its own: a handler that is dropped half-way
    /// must not leave a number written that this execution does not know of.
    async fn write<F>(&self, next: F) -> Result<(), Failure>
    where
        F: FnOnce(&Standing) -> Result<Option<Progress>, ProgressError> + Send + 'static,
    {
        let execution = self.clone();
        let writing = async move {
            // The row first: a transaction has it while it looks at what stands.
            let _row = execution.inner.lease.row_shared().await;
            let mut standing = execution.inner.standing.lock().await;
            let Some(progress) = next(&standing)? else { return Ok(()) };
            let recovery = execution.next_recovery(&standing, &progress)?;
            execution.write_until_known(&recovery).await.map_err(failure_of_store)?;
            *standing = Standing { number: recovery.number, progress };
            Ok(())
        };
        tokio::spawn(writing.in_current_span()).await?
    }

    pub(super) fn next_recovery(
        &self,
        standing: &Standing,
        progress: &Progress,
    ) -> Result<Recovery, Failure> {
        let inner = &self.inner;
        let payload: Sealed =
            inner.engine.codec().encode_progress(progress, &inner.scope, &inner.key)?;
        let number = standing.number.checked_add(1).ok_or(ProgressError::TooManySteps)?;
        Ok(Recovery { number, payload })
    }

    /// Repeats the write, which is harmless (R5), while the lease runs.
    async fn write_until_known(&self, recovery: &Recovery) -> Result<(), StoreError> {
        let inner = &self.inner;
        let Some(fence) = &inner.fence else { unreachable!("only a claim has recovery points") };
        let mut backoff = Backoff::default();
        loop {
            let sent = Instant::now();
            let lease = inner.operation.lease();
            let writing = inner.engine.store().checkpoint(fence, recovery, lease);
            match bounded(Verb::Checkpoint, self.write_limit(), writing).await {
                Ok(lease) => {
                    inner.lease.extend(sent, lease.remaining);
                    return Ok(());
                }
                Err(error) => {
                    inner.lease.note(&error);
                    // Heartbeats go on meanwhile, so the end of the lease moves.
                    let end = inner.lease.until();
                    if !error.kind().is_transient() || !backoff.wait_until(end).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    pub(super) fn refuse_in_transaction(&self) -> Result<(), Failure> {
        if self.inner.local.is_open() { Err(Misuse::TransactionOpen.into()) } else { Ok(()) }
    }
}
