//! An outbox in memory.

mod row;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{ErrorKind, StoreError, Verb};
use crate::outbox::rules;
use crate::outbox::{
    Backlog, Entry, EntryPage, EntryPosition, LeaseMessages, LeasedBatch, Lost, MAX_LEASED_BYTES,
    MessageId, MessageLease, MessageState, Outbox, OutboxMessage, Settlement, within_page,
};
use crate::store::{Cursor, Swept, page_size};
use crate::time::{Clock, SystemClock, Timestamp, bounded_lease};
use row::{Row, Rows};

/// How many messages a [`MemoryOutbox`] holds unless told otherwise.
pub const DEFAULT_OUTBOX_CAPACITY: usize = 100_000;

/// An outbox in memory, for tests of sinks and relays, and as the rules' plainest reading. Clones
/// share the messages; they are gone with the last clone.
///
/// ```
/// use std::time::Duration;
/// use idem_core::outbox::{LeaseMessages, MemoryOutbox, Outbox, OutboxMessage, Settlement};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let outbox = MemoryOutbox::new();
/// outbox.push(OutboxMessage::new("order.created", "{}")?.ordered_by("order 1")?)?;
///
/// let batch = outbox.lease(&LeaseMessages::new(Duration::from_secs(30), 100)).await?;
/// let first = &batch.messages[0];
/// assert_eq!(first.message.topic(), "order.created");
/// outbox.settle(&[Settlement::sent(first.lease)]).await?;
/// assert_eq!(outbox.backlog().await?.waiting, 0);
/// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct MemoryOutbox {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    capacity: usize,
    rows: Mutex<Rows>,
}

impl MemoryOutbox {
    /// An empty outbox on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }

    /// An empty outbox on a clock of the caller's.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self::with_capacity(clock, DEFAULT_OUTBOX_CAPACITY)
    }

    /// An empty outbox that holds no more than `capacity` messages, sent ones included.
    pub fn with_capacity(clock: impl Clock, capacity: usize) -> Self {
        let rows = Mutex::default();
        Self { shared: Arc::new(Shared { clock: Arc::new(clock), capacity, rows }) }
    }

    /// Puts a message in, to be sent at once.
    ///
    /// # Errors
    /// `InvalidInput` for an id that is there already; `StoreFull`.
    pub fn push(&self, message: OutboxMessage) -> Result<(), StoreError> {
        let mut rows = self.lock();
        if rows.by_id(message.id()).is_some() {
            let detail = "a message with this id is in the outbox already";
            return Err(StoreError::new(ErrorKind::InvalidInput, Verb::Push, detail));
        }
        if rows.by_number.len() >= self.shared.capacity {
            let detail = "the outbox holds as many messages as it may";
            return Err(StoreError::new(ErrorKind::StoreFull, Verb::Push, detail));
        }
        rows.push(Row::new(message, self.shared.clock.now()));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        // No code that can panic runs between a change and the end of its guard.
        self.shared.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryOutbox {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = self.lock().by_number.len();
        f.debug_struct("MemoryOutbox").field("messages", &messages).finish_non_exhaustive()
    }
}

#[async_trait]
impl Outbox for MemoryOutbox {
    async fn lease(&self, call: &LeaseMessages) -> Result<LeasedBatch, StoreError> {
        let mut rows = self.lock();
        let now = self.shared.clock.now();
        let limit = page_size(call.limit) as usize;
        let candidates = rows.by_number.iter().filter_map(|(number, row)| row.candidate(*number));
        let chosen = rules::choose(candidates, now, limit, MAX_LEASED_BYTES, call.past_dead);
        let lease = bounded_lease(call.lease);
        let until = now.after(lease);
        let mut messages = Vec::with_capacity(chosen.len());
        for number in chosen {
            if let Some(row) = rows.by_number.get_mut(&number) {
                messages.push(row.lease(call.owner, until));
            }
        }
        Ok(LeasedBatch { messages, remaining: lease })
    }

    async fn renew(&self, leases: &[MessageLease], lease: Duration) -> Result<Lost, StoreError> {
        within_page(leases.len())?;
        let mut rows = self.lock();
        let until = self.shared.clock.now().after(bounded_lease(lease));
        let mut lost = Lost::default();
        for lease in leases {
            match rows.of(lease).and_then(|row| row.leased_until.as_mut()) {
                Some(held) => *held = until.max(*held),
                None => lost.ids.push(lease.id),
            }
        }
        Ok(lost)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Lost, StoreError> {
        within_page(settlements.len())?;
        let mut rows = self.lock();
        let now = self.shared.clock.now();
        let mut lost = Lost::default();
        for settlement in settlements {
            match rows.of(&settlement.lease) {
                Some(row) => row.settle(&settlement.outcome, now),
                None => lost.ids.push(settlement.lease.id),
            }
        }
        Ok(lost)
    }

    async fn list(
        &self,
        state: MessageState,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<EntryPage, StoreError> {
        let after = EntryPosition::number_after(state, after)?;
        let limit = page_size(limit) as usize;
        let rows = self.lock();
        let now = self.shared.clock.now();
        let mut entries: Vec<Entry> = rows
            .by_number
            .range(after.saturating_add(1)..)
            .filter(|(_, row)| row.state == state)
            .take(limit + 1)
            .map(|(number, row)| row.entry(*number, now))
            .collect();
        let more = entries.len() > limit;
        entries.truncate(limit);
        let last = entries.last().filter(|_| more);
        let next = last.map(|last| EntryPosition { state, number: last.number }.to_cursor());
        Ok(EntryPage { entries, next })
    }

    async fn requeue(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        within_page(ids.len())?;
        let mut rows = self.lock();
        let now = self.shared.clock.now();
        let mut put_back = 0;
        for id in ids {
            if let Some(row) = rows.by_id(*id).filter(|row| row.state == MessageState::Dead) {
                row.put_back(now);
                put_back += 1;
            }
        }
        Ok(put_back)
    }

    async fn discard(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        within_page(ids.len())?;
        let mut rows = self.lock();
        let mut gone = 0;
        for id in ids {
            if rows.by_id(*id).is_some_and(|row| row.state == MessageState::Dead) {
                rows.remove(*id);
                gone += 1;
            }
        }
        Ok(gone)
    }

    async fn delete_sent(&self, sent_before: Duration, limit: u32) -> Result<Swept, StoreError> {
        let mut rows = self.lock();
        let now = self.shared.clock.now();
        let old = |row: &Row| row.sent_at.is_some_and(|at| at.after(sent_before) <= now);
        let mut doomed: Vec<(Option<Timestamp>, u64, MessageId)> = rows
            .by_number
            .iter()
            .filter(|(_, row)| old(row))
            .map(|(number, row)| (row.sent_at, *number, row.message.id()))
            .collect();
        doomed.sort_unstable();
        let more = doomed.len() > page_size(limit) as usize;
        doomed.truncate(page_size(limit) as usize);
        for (.., id) in &doomed {
            rows.remove(*id);
        }
        Ok(Swept { deleted: u32::try_from(doomed.len()).unwrap_or(u32::MAX), more })
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let rows = self.lock();
        let now = self.shared.clock.now();
        let count = |wanted: &dyn Fn(&Row) -> bool| {
            rows.by_number.values().filter(|row| wanted(row)).count() as u64
        };
        let oldest = rows.by_number.values().filter(|row| row.state == MessageState::Waiting);
        Ok(Backlog {
            waiting: count(&|row| row.state == MessageState::Waiting),
            leased: count(&|row| row.standing().is_some_and(|standing| standing.is_leased(now))),
            oldest_waiting: oldest.map(|row| now.since(row.pushed_at)).max(),
            dead: count(&|row| row.state == MessageState::Dead),
        })
    }
}
