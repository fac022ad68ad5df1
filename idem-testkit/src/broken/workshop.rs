//! A right store in memory, with a lever for each thing that can be got wrong.
//!
//! Untouched it keeps the whole contract, transactions included; a broken store pulls one lever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Record, Recovery, State};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};
use idem_core::time::{Clock, Timestamp};
use idem_core::transition::{Change, Decision};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore};

use super::rules::{Async, InTransaction, Keeping, Rules};

/// How long a call waits for somebody's transaction (R6).
const BUSY: Duration = Duration::from_millis(1_500);

/// Where a record is filed.
pub(super) type Identity = (Vec<u8>, Vec<u8>);

/// What is committed.
#[derive(Debug, Clone, Default)]
pub(super) struct Data {
    pub(super) records: BTreeMap<Identity, Record>,
    /// A handler's own rows.
    pub(super) rows: Vec<String>,
    pub(super) messages: u64,
    /// What cannot be read any more.
    pub(super) damaged: BTreeSet<Identity>,
    restarts: u64,
}

/// The store. Clones share everything; a connection of its own is another clone.
#[derive(Clone)]
pub(super) struct Workshop {
    pub(super) shared: Arc<Shared>,
    pub(super) rules: Arc<dyn Rules>,
    /// How many restarts there had been when this connection was opened.
    opened_after: u64,
}

pub(super) struct Shared {
    pub(super) clock: Arc<dyn Clock>,
    /// Whoever writes holds this, as in a database with one writer.
    writer: Arc<AsyncMutex<()>>,
    data: Mutex<Data>,
    /// The one connection of a store that counts them; see [`Async::LeaksPermits`].
    permits: Semaphore,
    /// What was committed before the last write.
    before: Mutex<Data>,
}

impl Workshop {
    pub(super) fn new(rules: Arc<dyn Rules>, clock: Arc<dyn Clock>) -> Self {
        let (writer, data) = (Arc::default(), Mutex::default());
        let (permits, before) = (Semaphore::new(1), Mutex::default());
        let shared = Shared { clock, writer, data, permits, before };
        Self { shared: Arc::new(shared), rules, opened_after: 0 }
    }

    /// A connection of its own.
    pub(super) fn connect(&self) -> Self {
        Self { opened_after: self.data().restarts, ..self.clone() }
    }

    pub(super) fn damage(&self, scope: &Scope, key: &Key) {
        self.data().damaged.insert(self.rules.file(scope, key));
    }

    pub(super) fn restart(&self) {
        let mut data = self.data();
        if self.rules.keeping() == Keeping::RestartLosesTheLastWrite {
            *data = self.shared.before.lock().unwrap_or_else(PoisonError::into_inner).clone();
        }
        data.restarts += 1;
    }

    /// Whether this connection can be used, and the record be read.
    fn check(&self, verb: Verb, data: &mut Data, identity: &Identity) -> Result<(), StoreError> {
        let keeping = self.rules.keeping();
        if keeping == Keeping::RestartBreaksConnections && self.opened_after < data.restarts {
            let detail = "the session is unknown";
            return Err(StoreError::new(ErrorKind::InvalidInput, verb, detail));
        }
        if !data.damaged.contains(identity) || keeping == Keeping::DamagedIsRead {
            return Ok(());
        }
        if keeping == Keeping::DamagedIsAbsent {
            data.damaged.remove(identity);
            data.records.remove(identity);
            return Ok(());
        }
        let detail = "what is stored cannot be read as a record";
        Err(StoreError::new(ErrorKind::CorruptRecord, verb, detail))
    }

    pub(super) async fn pause(&self) {
        if let Some(time) = self.rules.pause() {
            tokio::time::sleep(time).await;
        }
    }

    pub(super) fn data(&self) -> MutexGuard<'_, Data> {
        self.shared.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.rules.now(self.shared.clock.now())
    }

    pub(super) async fn writer(&self, verb: Verb) -> Result<OwnedMutexGuard<()>, StoreError> {
        let waiting = self.shared.writer.clone().lock_owned();
        if self.rules.transaction() == InTransaction::WaitsForEver {
            return Ok(waiting.await);
        }
        tokio::time::timeout(BUSY, waiting).await.map_err(|_| {
            StoreError::new(ErrorKind::NotApplied, verb, "somebody's transaction is open")
        })
    }

    /// One verb on one record: read, decide and write in one step, unless the rules do not care.
    async fn decide<T: Send>(
        &self,
        verb: Verb,
        (scope, key): (&Scope, &Key),
        rule: impl Fn(Option<&Record>, Timestamp) -> Decision<T> + Send,
    ) -> Result<T, StoreError> {
        self.pause().await;
        let identity = self.rules.file(scope, key);
        if self.rules.asynchrony() == Async::LeaksPermits {
            // Nobody gives it back when this future is dropped before the end.
            self.shared.permits.acquire().await.expect("it is never closed").forget();
            tokio::task::yield_now().await;
        }
        let is_atomic = self.rules.is_atomic(verb)
            || self.rules.is_atomic_on(self.data().records.get(&identity));
        let decision = if is_atomic {
            let early = self.now();
            let _writer = self.writer(verb).await?;
            let counts_early = self.rules.transaction() == InTransaction::CountsFromBeforeTheWait;
            let now = if counts_early { early } else { self.now() };
            let mut data = self.data();
            self.check(verb, &mut data, &identity)?;
            let decision = rule(data.records.get(&identity), now);
            self.write(&mut data, identity.clone(), &decision.change);
            decision
        } else {
            let found = self.data().records.get(&identity).cloned();
            let decision = rule(found.as_ref(), self.now());
            tokio::time::sleep(Duration::from_millis(1)).await;
            let _writer = self.writer(verb).await?;
            self.write(&mut self.data(), identity.clone(), &decision.change);
            decision
        };
        if self.rules.asynchrony() == Async::LeaksPermits {
            self.shared.permits.add_permits(1);
        }
        self.pause().await;
        decision.outcome.map_err(|refusal| self.rules.error(verb, refusal, key))
    }

    pub(super) fn write(&self, data: &mut Data, identity: Identity, change: &Change) {
        if self.rules.keeping() == Keeping::RestartLosesTheLastWrite {
            let before = data.clone();
            *self.shared.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
        }
        match change {
            Change::None => {}
            Change::Put(record) => {
                let old = data.records.get(&identity);
                let stored = self.rules.stored((**record).clone(), old);
                data.records.insert(identity, stored);
            }
            Change::Delete => drop(data.records.remove(&identity)),
        }
    }

    async fn under<T: Send>(
        &self,
        verb: Verb,
        fence: &Fence,
        rule: impl Fn(Option<&Record>, Timestamp) -> Decision<T> + Send,
    ) -> Result<T, StoreError> {
        self.decide(verb, (&fence.scope, &fence.key), rule).await
    }

    /// What is kept is out of the table for a moment.
    async fn sweep_by_rebuilding(&self, limit: u32) -> Swept {
        let now = self.now();
        let mut kept = std::mem::take(&mut *self.data());
        let swept = self.rules.sweep(&mut kept, limit, now);
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.data().records.append(&mut kept.records);
        swept
    }

    /// The reply's own row is written first, and its bytes a moment later.
    async fn complete_in_two_writes(
        &self,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        let nothing = Sealed::from_bytes(&b""[..]);
        self.under(Verb::Complete, fence, |found, now| {
            self.rules.complete(found, fence, &nothing, now)
        })
        .await?;
        tokio::task::yield_now().await;
        let identity = self.rules.file(&fence.scope, &fence.key);
        if let Some(record) = self.data().records.get_mut(&identity)
            && let State::Completed { reply: stored, .. } = &mut record.state
        {
            *stored = reply.clone();
        }
        Ok(())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Workshop {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.decide(Verb::Claim, (claim.scope, claim.key), |found, now| {
            self.rules.claim(found, claim, now, self.rules.incarnation(claim))
        })
        .await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.under(Verb::Renew, fence, |found, now| self.rules.renew(found, fence, lease, now))
            .await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.under(Verb::Checkpoint, fence, |found, now| {
            self.rules.checkpoint(found, fence, recovery, lease, now)
        })
        .await
        .map(|(_, lease)| lease)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        if self.rules.asynchrony() == Async::CompletesInTwoWrites {
            return self.complete_in_two_writes(fence, reply).await;
        }
        self.under(Verb::Complete, fence, |found, now| {
            self.rules.complete(found, fence, reply, now)
        })
        .await
        .map(drop)
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.under(Verb::Release, fence, |found, now| self.rules.release(found, fence, now)).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        self.pause().await;
        let (now, identity) = (self.now(), self.rules.file(scope, key));
        let mut data = self.data();
        self.check(Verb::Get, &mut data, &identity)?;
        let found = data.records.get(&identity).cloned();
        Ok(self.rules.visible(found, now).map(|record| Observed { record, now }))
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.pause().await;
        let now = self.now();
        self.rules.lapsed(&self.data(), after, limit, now)
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.pause().await;
        let stops = self.rules.keeping() == Keeping::DamageStopsSweeps;
        if stops && !self.data().damaged.is_empty() {
            let detail = "what is stored cannot be read as a record";
            return Err(StoreError::new(ErrorKind::CorruptRecord, Verb::Sweep, detail));
        }
        if self.rules.asynchrony() == Async::SweepsByRebuilding {
            return Ok(self.sweep_by_rebuilding(limit).await);
        }
        if self.rules.is_atomic(Verb::Sweep) {
            let _writer = self.writer(Verb::Sweep).await?;
            let now = self.now();
            return Ok(self.rules.sweep(&mut self.data(), limit, now));
        }
        // It lists what is over, and deletes by key what it has listed.
        let (mut listed, now) = (self.data().clone(), self.now());
        let before: Vec<Identity> = listed.records.keys().cloned().collect();
        let swept = self.rules.sweep(&mut listed, limit, now);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let _writer = self.writer(Verb::Sweep).await?;
        let mut data = self.data();
        for identity in before.iter().filter(|identity| !listed.records.contains_key(*identity)) {
            data.records.remove(identity);
        }
        Ok(swept)
    }
}
