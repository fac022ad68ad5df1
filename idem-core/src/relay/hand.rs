//! What a relay holds at the moment.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::outbox::{Leased, LeasedBatch, MessageId, MessageLease};

/// A group as its deliveries and the relay share it.
pub(super) struct Shared {
    /// How long its leases hold, by the count of this process.
    until: Mutex<Option<Instant>>,
    /// What was not begun, in its order.
    rest: Mutex<VecDeque<Leased>>,
}

impl Shared {
    fn held_until(until: Instant) -> Self {
        Self { until: Mutex::new(Some(until)), rest: Mutex::default() }
    }

    /// The next message.
    pub(super) fn next(&self) -> Option<Leased> {
        self.rest().pop_front()
    }

    fn rest(&self) -> MutexGuard<'_, VecDeque<Leased>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a delivery may begin.
    pub(super) fn holds(&self) -> bool {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// A lease that was lost does not come back.
    fn set(&self, until: Instant) {
        let mut held = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *held = held.map(|_| until);
    }

    fn lose(&self) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Messages of one ordering key, or a single one without.
pub(super) struct Group {
    messages: Vec<Leased>,
    shared: Arc<Shared>,
}

impl Group {
    /// Its messages, as they are delivered one after another.
    pub(super) fn begin(self) -> Arc<Shared> {
        self.shared.rest().extend(self.messages);
        self.shared
    }
}

/// So many lapses make a message suspect: it may have ended its relay's process each time. It is
/// delivered with nothing else in hand.
const SUSPECT_LAPSES: u32 = 5;

/// So many lapses are enough, however few attempts are allowed.
pub(super) const LEAST_MAX_LAPSES: u32 = 2 * SUSPECT_LAPSES;

struct Held {
    group: Arc<Shared>,
    is_lost: bool,
}

#[derive(Default)]
pub(super) struct Hand {
    /// What is not settled. A message is there twice where its lease ran out in the middle of its
    /// delivery and this relay took it once more.
    held: HashMap<MessageLease, Held>,
    /// To be delivered once nothing else is in hand.
    suspect: Option<Group>,
    /// A suspect was seen, and is taken when nothing else is in hand.
    is_suspects_turn: bool,
}

/// What to do with a batch.
pub(super) struct Taken {
    /// To be delivered now.
    pub(super) groups: Vec<Group>,
    /// To be given back before anything else.
    pub(super) back: Vec<Leased>,
}

impl Hand {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether another batch may be taken beside what is in hand.
    pub(super) fn takes_more(&self) -> bool {
        self.suspect.is_none() && (!self.is_suspects_turn || self.is_empty())
    }

    /// Whether suspects were put off, and are to be taken next.
    pub(super) fn is_suspects_turn(&self) -> bool {
        self.is_suspects_turn
    }

    /// Takes a batch, asked for at `asked_at`. Suspects and others take turns, so that neither
    /// keeps the other from being delivered: in a suspect's turn everything else goes back.
    pub(super) fn take(&mut self, batch: LeasedBatch, asked_at: Instant) -> Taken {
        let was_empty = self.is_empty();
        let until = asked_at + batch.remaining;
        let anew: HashSet<MessageId> =
            batch.messages.iter().map(|leased| leased.lease.id).collect();
        self.lose(|lease| anew.contains(&lease.id));
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for leased in batch.messages {
            let key = leased.message.ordering_key();
            let place = key.and_then(|key| places.get(key)).copied().unwrap_or(groups.len());
            if place == groups.len() {
                places.extend(key.map(|key| (key.to_owned(), place)));
                let shared = Arc::new(Shared::held_until(until));
                groups.push(Group { messages: Vec::new(), shared });
            }
            let group = groups[place].shared.clone();
            self.held.insert(leased.lease, Held { group, is_lost: false });
            groups[place].messages.push(leased);
        }
        self.sort(groups, was_empty)
    }

    fn sort(&mut self, groups: Vec<Group>, was_empty: bool) -> Taken {
        let is_suspect =
            |group: &Group| group.messages.iter().any(|leased| leased.lapses >= SUSPECT_LAPSES);
        let (suspects, others): (Vec<Group>, Vec<Group>) = groups.into_iter().partition(is_suspect);
        let takes_one = was_empty && (self.is_suspects_turn || others.is_empty());
        if suspects.is_empty() || !takes_one {
            // Where it was their turn nothing was in hand, and somebody else has them.
            self.is_suspects_turn = !suspects.is_empty();
            return Taken { groups: others, back: messages(suspects) };
        }
        self.is_suspects_turn = false;
        let mut groups = suspects.into_iter().chain(others);
        let mut alone = groups.next();
        let mut back = alone.as_mut().map(|alone| alone.messages.split_off(1)).unwrap_or_default();
        back.extend(messages(groups.collect()));
        self.suspect = alone;
        Taken { groups: Vec::new(), back }
    }

    /// The suspect that is to be delivered now, with nothing else in hand.
    pub(super) fn suspect(&mut self) -> Option<Group> {
        if self.held.len() == 1 { self.suspect.take() } else { None }
    }

    /// The suspect that is not to be delivered after all.
    pub(super) fn drop_suspect(&mut self) -> Vec<Leased> {
        self.suspect.take().map(|group| group.messages).unwrap_or_default()
    }

    /// Takes back what was not begun, of the longest groups first and from their ends, until no
    /// more than `most` is in hand.
    pub(super) fn trim(&self, most: usize) -> Vec<Leased> {
        let groups: HashMap<_, _> =
            self.held.values().map(|held| (Arc::as_ptr(&held.group), &held.group)).collect();
        let mut back = Vec::new();
        while self.len() > most + back.len() {
            let longest = groups.values().max_by_key(|group| group.rest().len());
            let Some(last) = longest.and_then(|group| group.rest().pop_back()) else { break };
            back.push(last);
        }
        back
    }

    /// What is to be renewed: each message once.
    pub(super) fn leases(&self) -> Vec<MessageLease> {
        self.held.iter().filter(|(_, held)| !held.is_lost).map(|(lease, _)| *lease).collect()
    }

    /// The leases that were asked for at `asked_at` hold for this long.
    pub(super) fn renewed(&mut self, asked_at: Instant, lease: Duration) {
        for held in self.held.values() {
            held.group.set(asked_at + lease);
        }
    }

    /// Of the leases that were renewed, those of these messages are lost.
    pub(super) fn lost(&mut self, ids: &[MessageId]) {
        if !ids.is_empty() {
            let ids: HashSet<&MessageId> = ids.iter().collect();
            self.lose(|lease| ids.contains(&lease.id));
        }
    }

    /// A lost message stops its whole group: somebody else has the key.
    fn lose(&mut self, is_lost: impl Fn(&MessageLease) -> bool) {
        for (_, held) in self.held.iter_mut().filter(|(lease, _)| is_lost(lease)) {
            held.is_lost = true;
            held.group.lose();
        }
    }

    /// What became of it was noted, or it was `lost` to somebody else.
    pub(super) fn settled(&mut self, lease: &MessageLease, lost: bool) {
        if let Some(held) = self.held.remove(lease).filter(|_| lost) {
            held.group.lose();
        }
    }
}

fn messages(groups: Vec<Group>) -> Vec<Leased> {
    groups.into_iter().flat_map(|group| group.messages).collect()
}
