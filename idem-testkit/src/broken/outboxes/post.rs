//! The outbox in memory, with a lever for each thing that can be got wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::error::StoreError;
use idem_core::outbox::{
    Backlog, EntryPage, LeaseMessages, Leased, LeasedBatch, Lost, MemoryOutbox, MessageId,
    MessageLease, MessageState, Outbox, OutboxMessage, SettleAs, Settlement,
};
use idem_core::record::Owner;
use idem_core::store::{Cursor, Swept, page_size};
use idem_core::time::{Clock, Timestamp};

use super::slip::Slip;

/// An outbox with one slip. Clones share everything.
#[derive(Clone)]
pub(super) struct Post {
    pub(super) slip: Slip,
    inner: MemoryOutbox,
    clock: Arc<dyn Clock>,
    notes: Arc<Mutex<Notes>>,
}

/// What the slips need to know beside what the right outbox knows.
#[derive(Default)]
struct Notes {
    /// As pushed: a slip may have changed what is stored.
    messages: BTreeMap<MessageId, OutboxMessage>,
    /// Places that were given at the push.
    numbers: BTreeMap<MessageId, usize>,
    /// Who leased a message last, and until when.
    holders: BTreeMap<MessageId, (Owner, Timestamp)>,
    /// What is leased and not settled.
    out: Vec<Leased>,
    settled: BTreeSet<(MessageId, [u8; 16])>,
    /// What failed and was put aside, and when it is due.
    aside: BTreeMap<MessageId, Timestamp>,
}

impl Post {
    pub(super) fn new(slip: Slip, clock: Arc<dyn Clock>) -> Self {
        let inner = MemoryOutbox::with_clock(clock.clone());
        Self { slip, inner, clock, notes: Arc::default() }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a message its place, before its transaction is over.
    pub(super) fn number(&self, message: &OutboxMessage) {
        let mut notes = self.notes();
        let number = notes.numbers.len();
        notes.numbers.insert(message.id(), number);
    }

    pub(super) fn push(&self, message: &OutboxMessage) -> Result<(), StoreError> {
        self.notes().messages.insert(message.id(), message.clone());
        if self.slip == Slip::HoldsNoKeys {
            return self.inner.push(OutboxMessage::from_parts(
                message.id(),
                message.topic().to_owned(),
                None,
                message.headers().to_vec(),
                message.payload().clone(),
            ));
        }
        self.inner.push(message.clone())
    }

    /// Puts back what was set aside for a while that is over.
    async fn put_back_the_due(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let is_due = |_: &MessageId, due: &mut Timestamp| *due <= now;
        let due: Vec<_> = self.notes().aside.extract_if(.., is_due).map(|(id, _)| id).collect();
        self.inner.requeue(&due).await.map(drop)
    }

    /// A batch of so many messages, however large.
    async fn more(&self, call: &LeaseMessages, batch: &mut LeasedBatch) -> Result<(), StoreError> {
        loop {
            let limit = page_size(call.limit) - batch.messages.len() as u32;
            let more = match limit {
                0 => return Ok(()),
                limit => self.inner.lease(&LeaseMessages { limit, ..call.clone() }).await?,
            };
            if more.messages.is_empty() {
                return Ok(());
            }
            batch.messages.extend(more.messages);
        }
    }

    /// Drops what a relay that remembers its place does not look at.
    fn pass_over(&self, batch: &mut LeasedBatch) {
        let notes = self.notes();
        let number = |id: &MessageId| notes.numbers.get(id).copied().unwrap_or_default();
        let read = notes.holders.keys().map(number).max();
        batch.messages.retain(|leased| {
            let id = leased.lease.id;
            notes.holders.contains_key(&id) || read.is_none_or(|read| number(&id) > read)
        });
    }

    /// Notes who has what, and hands out the messages as they were pushed.
    fn hand_out(&self, call: &LeaseMessages, batch: &mut LeasedBatch) {
        let until = self.clock.now().after(batch.remaining);
        let mut notes = self.notes();
        if self.slip == Slip::SeesNoLeases {
            let mut seen = notes.out.clone();
            seen.iter_mut().for_each(|leased| leased.lease.owner = call.owner);
            batch.messages.splice(..0, seen);
        }
        for leased in &mut batch.messages {
            leased.message = notes.messages[&leased.lease.id].clone();
            notes.holders.insert(leased.lease.id, (call.owner, until));
            notes.out.retain(|out| out.lease.id != leased.lease.id);
            notes.out.push(leased.clone());
        }
        if self.slip == Slip::OrdersByTopic {
            batch.messages.sort_by(|a, b| a.message.topic().cmp(b.message.topic()));
        }
    }

    /// What the outbox is asked to write in place of this; `None` when it is told to be lost.
    fn settled_as(&self, asked: &Settlement) -> Option<Settlement> {
        let mut notes = self.notes();
        let id = asked.lease.id;
        let holder = notes.holders.get(&id).copied();
        notes.out.retain(|out| out.lease.id != id);
        let is_first = notes.settled.insert((id, *asked.lease.owner.as_bytes()));
        let mut settlement = asked.clone();
        match (self.slip, &asked.outcome) {
            (Slip::SettlesUnfenced, _) => {
                settlement.lease.owner = holder.map_or(asked.lease.owner, |(owner, _)| owner);
            }
            (Slip::RepeatIsLost, _) if !is_first => return None,
            (Slip::LapsedIsLost, _)
                if holder.is_some_and(|(_, until)| until <= self.clock.now()) =>
            {
                return None;
            }
            (Slip::FailuresStepAside, SettleAs::Failed { retry_after, reason }) => {
                notes.aside.insert(id, self.clock.now().after(*retry_after));
                settlement.outcome = SettleAs::Dead { reason: reason.clone() };
            }
            _ => {}
        }
        Some(settlement)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Outbox for Post {
    async fn lease(&self, call: &LeaseMessages) -> Result<LeasedBatch, StoreError> {
        if self.slip == Slip::FailuresStepAside {
            self.put_back_the_due().await?;
        }
        let passes = matches!(self.slip, Slip::PassesTheDead | Slip::FailuresStepAside);
        let asked = call.clone().past_dead(call.past_dead || passes);
        let mut batch = self.inner.lease(&asked).await?;
        if self.slip == Slip::CountsNoBytes {
            self.more(&asked, &mut batch).await?;
        }
        if self.slip == Slip::PassesOverLateCommits {
            self.pass_over(&mut batch);
        }
        self.hand_out(call, &mut batch);
        Ok(batch)
    }

    async fn renew(&self, leases: &[MessageLease], lease: Duration) -> Result<Lost, StoreError> {
        let lease = if self.slip == Slip::RenewsNothing { Duration::ZERO } else { lease };
        self.inner.renew(leases, lease).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Lost, StoreError> {
        let (mut written, mut refused) = (Vec::new(), Vec::new());
        for asked in settlements {
            match self.settled_as(asked) {
                Some(settlement) => written.push(settlement),
                None => refused.push(asked.lease.id),
            }
        }
        let mut lost = self.inner.settle(&written).await?;
        lost.ids.extend(refused);
        Ok(lost)
    }

    async fn list(
        &self,
        state: MessageState,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<EntryPage, StoreError> {
        let more = u32::from(self.slip == Slip::PagesTooLong);
        let mut page = self.inner.list(state, after, limit + more).await?;
        let notes = self.notes();
        for entry in &mut page.entries {
            entry.message = notes.messages[&entry.message.id()].without_payload();
        }
        Ok(page)
    }

    async fn requeue(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        if !matches!(self.slip, Slip::ForgetsOnRequeue | Slip::RequeuesAtTheEnd) {
            return self.inner.requeue(ids).await;
        }
        let mut put_back = 0;
        for id in ids {
            let was_dead = self.inner.discard(&[*id]).await?;
            put_back += was_dead;
            let message = self.notes().messages.get(id).cloned();
            if let (1, Some(message), Slip::RequeuesAtTheEnd) = (was_dead, message, self.slip) {
                self.push(&message)?;
            }
        }
        Ok(put_back)
    }

    async fn discard(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        self.inner.discard(ids).await
    }

    async fn delete_sent(&self, sent_before: Duration, limit: u32) -> Result<Swept, StoreError> {
        let young = self.slip == Slip::DeletesTheYoung;
        let swept = self.inner.delete_sent(if young { Duration::ZERO } else { sent_before }, limit);
        let swept = swept.await?;
        if self.slip == Slip::DeletesTheDead && sent_before.is_zero() {
            let dead = self.inner.list(MessageState::Dead, None, limit).await?.entries;
            let dead: Vec<_> = dead.iter().map(|entry| entry.message.id()).collect();
            self.inner.discard(&dead).await?;
        }
        Ok(swept)
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let mut backlog = self.inner.backlog().await?;
        if self.slip == Slip::CountsTheSent {
            let sent = self.inner.list(MessageState::Sent, None, u32::MAX).await?;
            backlog.waiting += sent.entries.len() as u64;
        }
        Ok(backlog)
    }
}
