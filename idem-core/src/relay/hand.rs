//! What a relay holds at the moment.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::outbox::{Leased, LeasedBatch, MessageId, MessageLease};

/// How long a group's leases hold, by the count of this process.
pub(super) struct HeldUntil(Mutex<Option<Instant>>);

impl HeldUntil {
    /// Whether a delivery may begin.
    pub(super) fn holds(&self) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// A lease that was lost does not come back.
    fn set(&self, until: Instant) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *held = held.map(|_| until);
    }

    fn lose(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Messages of one ordering key, or a single one without.
pub(super) struct Group {
    pub(super) messages: Vec<Leased>,
    pub(super) held: Arc<HeldUntil>,
}

/// Leases that may have ended their relay's process are delivered with nothing else in hand.
const SUSPECT_LAPSES: u32 = 3;

#[derive(Default)]
pub(super) struct Hand {
    /// Every message that is not settled.
    held: HashMap<MessageId, (MessageLease, Arc<HeldUntil>)>,
    /// To be delivered with nothing else in hand.
    suspects: VecDeque<Group>,
}

impl Hand {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn has_suspects(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// Takes a batch, asked for at `asked_at`, and gives the groups that may be delivered now.
    pub(super) fn take(&mut self, batch: LeasedBatch, asked_at: Instant) -> Vec<Group> {
        let until = asked_at + batch.remaining;
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for leased in batch.messages {
            let key = leased.message.ordering_key();
            let place = key.and_then(|key| places.get(key)).copied().unwrap_or(groups.len());
            if place == groups.len() {
                places.extend(key.map(|key| (key.to_owned(), place)));
                let held = Arc::new(HeldUntil(Mutex::new(Some(until))));
                groups.push(Group { messages: Vec::new(), held });
            }
            let held = groups[place].held.clone();
            self.held.insert(leased.lease.id, (leased.lease, held));
            groups[place].messages.push(leased);
        }
        let suspect =
            |group: &Group| group.messages.iter().any(|leased| leased.lapses >= SUSPECT_LAPSES);
        let (suspects, others) = groups.into_iter().partition(suspect);
        self.suspects.extend::<Vec<Group>>(suspects);
        others
    }

    /// The next suspect, alone, and what stood behind it, to be given back.
    pub(super) fn next_suspect(&mut self) -> Option<(Group, Vec<Leased>)> {
        let mut group = self.suspects.pop_front()?;
        let behind = group.messages.split_off(1.min(group.messages.len()));
        Some((group, behind))
    }

    /// Puts it back to be the next.
    pub(super) fn put_suspect(&mut self, group: Group) {
        self.suspects.push_front(group);
    }

    /// All suspects' messages, to be given back.
    pub(super) fn drop_suspects(&mut self) -> Vec<Leased> {
        self.suspects.drain(..).flat_map(|group| group.messages).collect()
    }

    /// What is to be renewed.
    pub(super) fn leases(&self) -> Vec<MessageLease> {
        self.held.values().map(|(lease, _)| *lease).collect()
    }

    /// The leases that were asked for at `asked_at` hold for this long.
    pub(super) fn renewed(&mut self, asked_at: Instant, lease: Duration) {
        for (_, held) in self.held.values() {
            held.set(asked_at + lease);
        }
    }

    /// A lost message stops its whole group: another relay has the key.
    pub(super) fn lost(&mut self, ids: &[MessageId]) {
        for id in ids {
            if let Some((_, held)) = self.held.get(id) {
                held.lose();
            }
        }
    }

    pub(super) fn settled(&mut self, id: MessageId) {
        self.held.remove(&id);
    }
}
