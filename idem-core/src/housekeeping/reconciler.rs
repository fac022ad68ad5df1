//! Resumes lapsed work through the handlers that are registered for it (R15, R26, R27).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::codec::CodecErrorKind;
use crate::engine::{Engine, How, Outcome, RunError};
use crate::error::StoreError;
use crate::housekeeping::chore::{Chore, ChoreError, Pass, Stop};
use crate::housekeeping::remembered::{Remembered, Tried, Unfinished};
use crate::housekeeping::spread;
use crate::record::{Observed, Record};
use crate::store::Cursor;
use crate::telemetry;

/// How many records one page has, and how many pages one pass reads: the next one goes on there.
const PAGE: u32 = 100;
const PAGES: usize = 100;
/// How soon after a pass that took records up the next one comes.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Pages through lapsed records and resumes those that began.
///
/// Two reconcilers may list the same record; the claim lets one of them have it. A record whose
/// resumption fails waits longer each time before this reconciler tries it again. One that is for
/// a person (held, or without a handler or an input here) is logged once, with its operation and
/// the hash of its key, and counted in each pass.
pub struct Reconciler {
    shared: Arc<Shared>,
    interval: Duration,
    longest_wait: Duration,
    concurrency: usize,
    slots: Arc<Semaphore>,
    /// One pass at a time, and where the next one goes on.
    position: tokio::sync::Mutex<Option<Cursor>>,
}

struct Shared {
    engine: Engine,
    remembered: Mutex<Remembered>,
    /// What ended since the last pass was counted.
    done: Mutex<Reconciled>,
}

/// What a pass did. What was still running when it ended counts in the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// Resumed to a reply.
    pub resumed: u64,
    /// Left alone: nothing began, so nobody waits for it (R26).
    pub not_begun: u64,
    /// Held for a person: by policy, too many attempts, or too old.
    pub held: u64,
    /// For a person too: no handler is registered, no input was stored, or it cannot be read.
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
        let shared = Shared { engine, remembered: Mutex::default(), done: Mutex::default() };
        Self {
            shared: Arc::new(shared),
            interval: Duration::from_secs(10),
            longest_wait: Duration::from_secs(600),
            concurrency: 8,
            slots: Arc::new(Semaphore::new(8)),
            position: tokio::sync::Mutex::default(),
        }
    }

    /// How long to wait between passes.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How many records are resumed at once, over all passes; at least one.
    #[must_use]
    pub fn concurrency(mut self, records: usize) -> Self {
        self.concurrency = records.clamp(1, Semaphore::MAX_PERMITS);
        self.slots = Arc::new(Semaphore::new(self.concurrency));
        self
    }

    /// The longest wait between tries of one record.
    #[must_use]
    pub fn longest_wait(mut self, wait: Duration) -> Self {
        self.longest_wait = wait.min(crate::time::MAX_DURATION);
        self
    }

    /// Passes for ever. A pass that fails is logged, and the next one tries again.
    ///
    /// # Cancel safety
    /// Dropped, it starts nothing more; what was resumed goes on in the engine.
    pub async fn run(&self) {
        let stop = Stop::new();
        loop {
            if let Err(error) = self.reconcile(&stop).await {
                tracing::warn!(error = %error, "reconciling failed");
            }
            sleep(spread(self.interval)).await;
        }
    }

    /// One pass over all lapsed records, to the end of what it resumed.
    ///
    /// # Errors
    /// The store's, when it cannot be listed.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn once(&self) -> Result<Reconciled, StoreError> {
        let mut position = self.position.lock().await;
        let stop = Stop::new();
        let mut running = JoinSet::new();
        *position = None;
        let mut listed = self.list(&mut position, &mut running, &stop).await;
        while listed.is_ok() && position.is_some() {
            listed = self.list(&mut position, &mut running, &stop).await;
        }
        while running.join_next().await.is_some() {}
        self.report(listed)
    }

    /// A pass that does not wait for what it resumed: one slow record does not keep others.
    /// Also says how many it took up.
    async fn reconcile(&self, stop: &Stop) -> Result<(Reconciled, usize), StoreError> {
        let mut position = self.position.lock().await;
        let mut running = JoinSet::new();
        let listed = self.list(&mut position, &mut running, stop).await;
        let started = running.len();
        running.detach_all();
        self.report(listed).map(|done| (done, started))
    }

    fn report(&self, listed: Result<(), StoreError>) -> Result<Reconciled, StoreError> {
        let done = std::mem::take(&mut *lock(&self.shared.done));
        let done = listed.map(|()| done);
        telemetry::reconciled(&done);
        tracing::debug!(?done, "reconciled");
        done
    }

    async fn list(
        &self,
        position: &mut Option<Cursor>,
        running: &mut JoinSet<()>,
        stop: &Stop,
    ) -> Result<(), StoreError> {
        for _ in 0..PAGES {
            let page = self.shared.engine.store().lapsed(position.as_ref(), PAGE).await?;
            for lapsed in page.records {
                if !self.shared.is_due(&lapsed.record) {
                    continue;
                }
                let slot = tokio::select! {
                    biased;
                    () = stop.requested() => return Ok(()),
                    slot = Arc::clone(&self.slots).acquire_owned() => slot,
                };
                let (shared, longest_wait) = (Arc::clone(&self.shared), self.longest_wait);
                running.spawn(async move {
                    let _slot = slot;
                    shared.resume(&lapsed, longest_wait).await;
                });
            }
            *position = page.next;
            if position.is_none() {
                lock(&self.shared.remembered).end_round();
                break;
            }
            if stop.is_requested() {
                break;
            }
        }
        Ok(())
    }
}

impl Shared {
    fn is_due(&self, record: &Record) -> bool {
        let mut done = lock(&self.done);
        if record.recovery().is_none() {
            done.not_begun += 1;
            return false;
        }
        lock(&self.remembered).due(record).is_now(&mut done)
    }

    async fn resume(&self, lapsed: &Observed, longest_wait: Duration) {
        let result = self.engine.resume(lapsed).await;
        let record = &lapsed.record;
        let why = match fate(&result) {
            Fate::Unfinished(why) => why,
            Fate::Resumed | Fate::Gone => {
                lock(&self.remembered).forget(record.incarnation);
                let mut done = lock(&self.done);
                match result.is_ok_and(|outcome| outcome.how != How::Replayed) {
                    true => done.resumed += 1,
                    false => done.gone += 1,
                }
                return;
            }
            // It is not the record's fault.
            Fate::NoRoom => {
                lock(&self.done).waiting += 1;
                return;
            }
        };
        {
            let mut done = lock(&self.done);
            match why {
                Unfinished::Held => done.held += 1,
                Unfinished::NotResumable => done.not_resumable += 1,
                Unfinished::Failed => done.failed += 1,
            }
        }
        let tried = self.tried(record, why, &result);
        let is_news = lock(&self.remembered).note(&tried, longest_wait);
        if let (true, Err(error)) = (is_news && why != Unfinished::Failed, &result) {
            self.tell(record, tried.attempt, error);
        }
    }

    fn tried(&self, record: &Record, why: Unfinished, result: &Result<Outcome, RunError>) -> Tried {
        // What was taken over stands at the next attempt: this process need not use up another.
        let took_over = matches!(result, Err(RunError::StepsChanged(_)));
        let ran = took_over || why == Unfinished::Failed;
        let operation = self.engine.registered_as(&record.operation).filter(|_| ran);
        // A transaction prolongs the lease by its limit.
        let leased_for = operation.map(|known| known.lease() + known.transaction_limit());
        Tried {
            incarnation: record.incarnation,
            attempt: record.attempt + u32::from(took_over),
            why,
            leased_for: leased_for.unwrap_or_default(),
        }
    }

    /// Once for each record and reason, so that a person finds it: `idem stuck` shows it as well.
    fn tell(&self, record: &Record, attempt: u32, error: &RunError) {
        tracing::warn!(
            idem.operation = %record.operation,
            idem.key_hash = %self.engine.key_hasher().hash(&record.scope, &record.key),
            idem.attempt = attempt,
            reason = %error,
            "a record waits for a person"
        );
    }
}

enum Fate {
    Resumed,
    Gone,
    NoRoom,
    Unfinished(Unfinished),
}

fn fate(result: &Result<Outcome, RunError>) -> Fate {
    match result {
        Ok(_) => Fate::Resumed,
        Err(
            RunError::NothingToResume
            | RunError::InProgress { .. }
            | RunError::LeaseLost
            | RunError::ReplyNotKept { .. },
        ) => Fate::Gone,
        Err(RunError::Busy | RunError::Draining) => Fate::NoRoom,
        Err(RunError::Held { .. }) => Fate::Unfinished(Unfinished::Held),
        Err(RunError::NotResumable { .. } | RunError::StepsChanged(_)) => {
            Fate::Unfinished(Unfinished::NotResumable)
        }
        Err(RunError::Corrupt(error)) if error.kind() != CodecErrorKind::SealerFailed => {
            Fate::Unfinished(Unfinished::NotResumable)
        }
        Err(_) => Fate::Unfinished(Unfinished::Failed),
    }
}

/// A pass takes up what is lapsed; what it resumed may go on after it.
#[async_trait]
impl Chore for Reconciler {
    fn name(&self) -> &'static str {
        "reconciler"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn pass(&self, stop: &Stop) -> Result<Pass, ChoreError> {
        let (done, started) = self.reconcile(stop).await?;
        let (held, not_resumable) = lock(&self.shared.remembered).for_a_person();
        let running = self.concurrency - self.slots.available_permits().min(self.concurrency);
        let pass = Pass::of(done.resumed)
            .counting("held", held)
            .counting("not_resumable", not_resumable)
            .counting("failed", done.failed)
            .counting("waiting", done.waiting)
            .counting("running", running as u64);
        // What was taken up ends after the pass. The next one tells what came of it.
        let soon = self.interval.min(TELL_AFTER);
        Ok(if started > 0 { pass.again_in(soon) } else { pass })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
