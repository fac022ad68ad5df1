//! The messages of an outbox in memory.

use std::collections::BTreeMap;

use crate::outbox::rules::{Candidate, Standing};
use crate::outbox::{
    Entry, Leased, MessageId, MessageLease, MessageState, OutboxMessage, SettleAs,
};
use crate::record::Owner;
use crate::time::Timestamp;

#[derive(Default)]
pub(super) struct Rows {
    last_number: u64,
    pub(super) by_number: BTreeMap<u64, Row>,
    numbers: BTreeMap<MessageId, u64>,
}

pub(super) struct Row {
    pub(super) message: OutboxMessage,
    pub(super) state: MessageState,
    pub(super) pushed_at: Timestamp,
    due_at: Timestamp,
    pub(super) sent_at: Option<Timestamp>,
    failures: u32,
    lapses: u32,
    /// The last to have it; it stays after a settlement, so that a repeat is known.
    owner: Option<Owner>,
    pub(super) leased_until: Option<Timestamp>,
    reason: Option<String>,
}

impl Rows {
    pub(super) fn push(&mut self, row: Row) {
        self.last_number += 1;
        self.numbers.insert(row.message.id(), self.last_number);
        self.by_number.insert(self.last_number, row);
    }

    pub(super) fn by_id(&mut self, id: MessageId) -> Option<&mut Row> {
        self.by_number.get_mut(self.numbers.get(&id)?)
    }

    /// The message that this owner had last, settled or not.
    pub(super) fn of(&mut self, lease: &MessageLease) -> Option<&mut Row> {
        self.by_id(lease.id).filter(|row| row.owner == Some(lease.owner))
    }

    pub(super) fn remove(&mut self, id: MessageId) {
        if let Some(number) = self.numbers.remove(&id) {
            self.by_number.remove(&number);
        }
    }
}

impl Row {
    pub(super) fn new(message: OutboxMessage, now: Timestamp) -> Self {
        Self {
            message,
            state: MessageState::Waiting,
            pushed_at: now,
            due_at: now,
            sent_at: None,
            failures: 0,
            lapses: 0,
            owner: None,
            leased_until: None,
            reason: None,
        }
    }

    /// What the rule sees; `None` once it is sent.
    pub(super) fn candidate(&self, number: u64) -> Option<Candidate<'_>> {
        let bytes = self.message.payload().len();
        let ordering_key = self.message.ordering_key();
        Some(Candidate { number, ordering_key, standing: self.standing()?, bytes })
    }

    pub(super) fn standing(&self) -> Option<Standing> {
        match self.state {
            MessageState::Waiting => Some(Standing::Waiting {
                failures: self.failures,
                due_at: self.due_at,
                leased_until: self.leased_until,
            }),
            MessageState::Dead => Some(Standing::Dead),
            MessageState::Sent => None,
        }
    }

    pub(super) fn lease(&mut self, owner: Owner, until: Timestamp) -> Leased {
        if self.leased_until.is_some() {
            self.lapses = self.lapses.saturating_add(1);
        }
        self.owner = Some(owner);
        self.leased_until = Some(until);
        Leased {
            message: self.message.clone(),
            lease: MessageLease { id: self.message.id(), owner },
            failures: self.failures,
            lapses: self.lapses,
        }
    }

    /// Does nothing where it was settled before.
    pub(super) fn settle(&mut self, outcome: &SettleAs, now: Timestamp) {
        if self.leased_until.take().is_none() {
            return;
        }
        match outcome {
            SettleAs::Sent => {
                self.state = MessageState::Sent;
                self.sent_at = Some(now);
            }
            SettleAs::Failed { retry_after, reason } => {
                self.fail(reason);
                self.due_at = now.after(*retry_after);
            }
            SettleAs::Dead { reason } => {
                self.fail(reason);
                self.state = MessageState::Dead;
            }
            SettleAs::GivenBack => {}
        }
    }

    /// As it was pushed, in its old place.
    pub(super) fn put_back(&mut self, now: Timestamp) {
        *self = Self { pushed_at: self.pushed_at, ..Self::new(self.message.clone(), now) };
    }

    fn fail(&mut self, reason: &str) {
        self.failures = self.failures.saturating_add(1);
        self.lapses = 0;
        self.reason = Some(reason.to_owned());
    }

    pub(super) fn entry(&self, number: u64, now: Timestamp) -> Entry {
        let waits = self.state == MessageState::Waiting;
        let later = |at: Timestamp| Some(at.since(now)).filter(|span| !span.is_zero());
        Entry {
            payload_bytes: self.message.payload().len() as u64,
            message: self.message.without_payload(),
            number,
            state: self.state,
            failures: self.failures,
            lapses: self.lapses,
            age: now.since(self.pushed_at),
            due_in: later(self.due_at).filter(|_| waits && self.failures > 0),
            leased_for: self.leased_until.and_then(later),
            reason: self.reason.clone(),
        }
    }
}
