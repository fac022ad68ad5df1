//! Resumes lapsed work through the handlers that are registered for it (R15, R26, R27).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::engine::{Engine, RunError};
use crate::error::StoreError;
use crate::housekeeping::spread;
use crate::record::{Incarnation, Observed};
use crate::store::Cursor;
use crate::telemetry;

/// Pages through lapsed records and resumes those that began.
///
/// Two reconcilers may list the same record; the claim lets one of them have it. A record whose
/// resumption fails waits longer each time before this reconciler tries it again.
pub struct Reconciler {
    engine: Engine,
    interval: Duration,
    concurrency: usize,
    page: u32,
    longest_wait: Duration,
    waits: Mutex<HashMap<Incarnation, Wait>>,
}

/// Which record, and how its resumption ended.
type Ended = (Incarnation, Result<(), RunError>);

struct Wait {
    failures: u32,
    until: Instant,
    /// In which pass it was last listed: what is not listed any more is forgotten.
    pass: u64,
}

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// Resumed to a reply.
    pub resumed: u64,
    /// Left alone: nothing began, so nobody waits for it (R26).
    pub not_begun: u64,
    /// Held for a person: by policy, too many attempts, or too old.
    pub held: u64,
    /// For a person too: no handler is registered, or no input was stored.
    pub not_resumable: u64,
    /// Changed hands since it was listed.
    pub gone: u64,
    /// Resumed, and without a reply again.
    pub failed: u64,
    /// Failed before, and waiting its time.
    pub waiting: u64,
}

impl Reconciler {
    /// A reconciler on the engine's store: a pass every 10 s, 8 records at once, and at most
    /// 10 min between tries of one record.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            interval: Duration::from_secs(10),
            concurrency: 8,
            page: 100,
            longest_wait: Duration::from_secs(600),
            waits: Mutex::default(),
        }
    }

    /// How long to wait between passes.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How many records are resumed at once; at least one.
    #[must_use]
    pub fn concurrency(mut self, records: usize) -> Self {
        self.concurrency = records.max(1);
        self
    }

    /// The longest wait between tries of one record.
    #[must_use]
    pub fn longest_wait(mut self, wait: Duration) -> Self {
        self.longest_wait = wait;
        self
    }

    /// Passes for ever. A pass that fails is logged, and the next one tries again.
    ///
    /// # Cancel safety
    /// Dropped, it starts nothing more; what was resumed goes on in the engine.
    pub async fn run(&self) {
        for pass in 1.. {
            match self.pass(pass).await {
                Ok(done) => {
                    if done.held + done.not_resumable > 0 {
                        tracing::warn!(
                            held = done.held,
                            not_resumable = done.not_resumable,
                            "records wait for a person"
                        );
                    }
                    tracing::debug!(?done, "reconciled");
                }
                Err(error) => tracing::warn!(error = %error, "reconciling failed"),
            }
            sleep(spread(self.interval)).await;
        }
    }

    /// One pass over all lapsed records.
    ///
    /// # Errors
    /// The store's, when it cannot be listed.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn once(&self) -> Result<Reconciled, StoreError> {
        self.pass(0).await
    }

    async fn pass(&self, pass: u64) -> Result<Reconciled, StoreError> {
        let done = self.pass_over_all(pass).await;
        telemetry::reconciled(&done);
        done
    }

    async fn pass_over_all(&self, pass: u64) -> Result<Reconciled, StoreError> {
        let mut done = Reconciled::default();
        let mut running = JoinSet::new();
        let mut after: Option<Cursor> = None;
        loop {
            let listed = self.engine.store().lapsed(after.as_ref(), self.page).await?;
            for lapsed in listed.records {
                if lapsed.record.recovery().is_none() {
                    done.not_begun += 1;
                    continue;
                }
                if self.must_wait(&lapsed, pass) {
                    done.waiting += 1;
                    continue;
                }
                if running.len() >= self.concurrency {
                    self.note(running.join_next().await, &mut done, pass);
                }
                let engine = self.engine.clone();
                running.spawn(async move {
                    let result = engine.resume(&lapsed).await;
                    (lapsed.record.incarnation, result.map(|_| ()))
                });
            }
            after = listed.next;
            if after.is_none() {
                break;
            }
        }
        while let Some(ended) = running.join_next().await {
            self.note(Some(ended), &mut done, pass);
        }
        self.lock().retain(|_, wait| wait.pass == pass);
        Ok(done)
    }

    fn must_wait(&self, lapsed: &Observed, pass: u64) -> bool {
        let mut waits = self.lock();
        let Some(wait) = waits.get_mut(&lapsed.record.incarnation) else { return false };
        wait.pass = pass;
        wait.until > Instant::now()
    }

    fn note(
        &self,
        ended: Option<Result<Ended, tokio::task::JoinError>>,
        done: &mut Reconciled,
        pass: u64,
    ) {
        let Some(ended) = ended else { return };
        let Ok((incarnation, result)) = ended else {
            done.failed += 1;
            return;
        };
        match result {
            Ok(()) => {
                done.resumed += 1;
                self.lock().remove(&incarnation);
                return;
            }
            Err(RunError::NothingToResume | RunError::InProgress { .. }) => {
                done.gone += 1;
                return;
            }
            Err(RunError::Held { .. }) => done.held += 1,
            Err(RunError::NotResumable { .. } | RunError::Corrupt(_)) => done.not_resumable += 1,
            Err(_) => done.failed += 1,
        }
        let mut waits = self.lock();
        let wait =
            waits.entry(incarnation).or_insert(Wait { failures: 0, until: Instant::now(), pass });
        wait.failures = wait.failures.saturating_add(1);
        let span = Duration::from_secs(1).saturating_mul(1 << wait.failures.min(20));
        wait.until = Instant::now() + spread(span.min(self.longest_wait));
        wait.pass = pass;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Incarnation, Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
