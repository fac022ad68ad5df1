//! A store in memory: for tests, for one process, and as the rules' plainest reading.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, PoisonError};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
#[cfg(loom)] // tests/loom.rs: every order of its locking is tried.
use loom::sync::{Mutex, MutexGuard};

use crate::admin::{Admin, Filter, Forgotten, StateFilter, Stats};
use crate::claim::{Claim, Claimed};
use crate::codec::Sealed;
use crate::cursor::ListPosition;
use crate::error::{ErrorKind, StoreError, Verb};
use crate::key::{Key, Scope};
use crate::outbox::MemoryOutbox;
use crate::record::{Fence, Incarnation, Observed, Record, Recovery, State};
use crate::store::{Cursor, Lease, Page, Renewed, Store, Swept, page_size};
use crate::time::{Clock, SystemClock, Timestamp};
use crate::transition::{self, Change, Decision};

/// How many records a [`MemoryStore`] holds unless told otherwise.
pub const DEFAULT_CAPACITY: usize = 1_000_000;

/// A store in memory. Clones share the records; they are gone with the last clone.
///
/// It holds a bounded number of records, and says `StoreFull` when an insert would be one more.
///
/// ```
/// use std::time::Duration;
/// use idem_core::memory::MemoryStore;
/// use idem_core::store::Store;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// assert!(!store.sweep(100).await?.more);
/// # Ok::<_, idem_core::error::StoreError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    capacity: usize,
    records: Mutex<Records>,
    outbox: MemoryOutbox,
}

type Records = BTreeMap<(Scope, Key), Record>;

impl MemoryStore {
    /// An empty store on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }

    /// An empty store on a clock of the caller's.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self::with_capacity(clock, DEFAULT_CAPACITY)
    }

    /// An empty store that holds no more than `capacity` records.
    pub fn with_capacity(clock: impl Clock, capacity: usize) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let outbox = MemoryOutbox::with_clock(clock.clone());
        Self { shared: Arc::new(Shared { clock, capacity, records: Mutex::default(), outbox }) }
    }

    /// The outbox beside the records. A message is put in by [`MemoryOutbox::push`], since this
    /// store has no transactions.
    pub fn outbox(&self) -> MemoryOutbox {
        self.shared.outbox.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        // No code that can panic runs between a change and the end of its guard.
        self.shared.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide<T>(
        &self,
        verb: Verb,
        scope: &Scope,
        key: &Key,
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T>,
    ) -> Result<T, StoreError> {
        let mut records = self.lock();
        let now = self.shared.clock.now();
        let identity = (scope.clone(), key.clone());
        let decision = rule(records.get(&identity), now);
        match decision.change {
            Change::None => {}
            Change::Put(record) => {
                if records.len() >= self.shared.capacity && !records.contains_key(&identity) {
                    let detail = "the store holds as many records as it may";
                    return Err(StoreError::new(ErrorKind::StoreFull, verb, detail));
                }
                records.insert(identity, *record);
            }
            Change::Delete => {
                records.remove(&identity);
            }
        }
        decision.outcome.map_err(|refusal| refusal.at(verb))
    }

    fn decide_under<T>(
        &self,
        verb: Verb,
        fence: &Fence,
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T>,
    ) -> Result<T, StoreError> {
        self.decide(verb, &fence.scope, &fence.key, rule)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("records", &self.lock().len())
            .field("capacity", &self.shared.capacity)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.decide(Verb::Claim, claim.scope, claim.key, |found, now| {
            transition::claim(found, claim, now, Incarnation::random())
        })
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.decide_under(Verb::Renew, fence, |found, now| {
            transition::renew(found, fence, lease, now)
        })
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.decide_under(Verb::Checkpoint, fence, |found, now| {
            transition::checkpoint(found, fence, recovery, lease, now)
        })
        .map(|(_, lease)| lease)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        self.decide_under(Verb::Complete, fence, |found, now| {
            transition::complete(found, fence, reply, now)
        })
        .map(|_| ())
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.decide_under(Verb::Release, fence, |found, now| transition::release(found, fence, now))
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let records = self.lock();
        let now = self.shared.clock.now();
        let found = records.get(&(scope.clone(), key.clone()));
        Ok(transition::visible(found, now).map(|record| Observed { record: record.clone(), now }))
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        let records = self.lock();
        Page::of_lapsed(records.values(), after, limit, self.shared.clock.now())
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        let mut records = self.lock();
        let now = self.shared.clock.now();
        let mut doomed: Vec<(Scope, Key)> = records
            .iter()
            .filter(|(_, record)| transition::is_sweepable(record, now))
            .map(|(identity, _)| identity.clone())
            .take(size(limit) + 1)
            .collect();
        let more = doomed.len() > size(limit);
        doomed.truncate(size(limit));
        for identity in &doomed {
            records.remove(identity);
        }
        Ok(Swept { deleted: u32::try_from(doomed.len()).unwrap_or(u32::MAX), more })
    }
}

#[async_trait]
impl Admin for MemoryStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        let records = self.lock();
        let now = self.shared.clock.now();
        let mut stats = Stats::default();
        for record in records.values() {
            match &record.state {
                State::InProgress { locked_until, recovery, .. } if *locked_until <= now => {
                    stats.oldest_lapse = stats.oldest_lapse.max(Some(now.since(*locked_until)));
                    match recovery {
                        Some(_) => stats.lapsed_begun += 1,
                        None => stats.lapsed_not_begun += 1,
                    }
                }
                State::InProgress { .. } => stats.live += 1,
                State::Completed { .. } if transition::is_sweepable(record, now) => {
                    stats.expired += 1;
                }
                State::Completed { .. } => stats.completed += 1,
            }
        }
        Ok(stats)
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let after = after.map(ListPosition::from_cursor).transpose()?;
        let records = self.lock();
        let now = self.shared.clock.now();
        let start = match after {
            Some(ListPosition { scope, key }) => Bound::Excluded((scope, key)),
            None => Bound::Unbounded,
        };
        let mut page: Vec<Observed> = records
            .range((start, Bound::Unbounded))
            .map(|(_, record)| record)
            .filter(|record| passes(record, filter, now))
            .take(size(limit) + 1)
            .map(|record| Observed { record: record.clone(), now })
            .collect();
        let more = page.len() > size(limit);
        page.truncate(size(limit));
        let next = page.last().filter(|_| more).map(|seen| ListPosition::of(seen).to_cursor());
        Ok(Page { records: page, next })
    }

    async fn forget(&self, scope: &Scope, limit: u32) -> Result<Forgotten, StoreError> {
        let mut records = self.lock();
        let mut forgotten = Forgotten::default();
        records.retain(|(of, _), record| {
            if of != scope {
                return true;
            }
            if !transition::is_forgettable(record) {
                forgotten.in_progress += 1;
                return true;
            }
            if forgotten.deleted == u64::from(page_size(limit)) {
                forgotten.more = true;
                return true;
            }
            forgotten.deleted += 1;
            false
        });
        Ok(forgotten)
    }

    async fn remove(&self, fence: &Fence) -> Result<(), StoreError> {
        self.decide_under(Verb::Remove, fence, |found, _| transition::remove(found, fence))
    }
}

fn size(limit: u32) -> usize {
    page_size(limit) as usize
}

fn passes(record: &Record, filter: &Filter, now: Timestamp) -> bool {
    let state = match record.state {
        State::InProgress { locked_until, .. } if locked_until <= now => StateFilter::Lapsed,
        State::InProgress { .. } => StateFilter::Live,
        State::Completed { .. } if transition::is_sweepable(record, now) => return false,
        State::Completed { .. } => StateFilter::Completed,
    };
    filter.scope.as_ref().is_none_or(|scope| *scope == record.scope)
        && filter.operation.as_ref().is_none_or(|operation| *operation == record.operation)
        && filter.state.is_none_or(|wanted| wanted == state)
}
