//! What a relay asks of an outbox, and what it gives back.

use std::time::Duration;

use crate::outbox::{MessageId, OutboxMessage};
use crate::record::Owner;
use crate::time::bounded_lease;

/// The most bytes of a reason; a longer one is cut.
pub const MAX_REASON_BYTES: usize = 255;

/// A call for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseMessages {
    /// Who asks: fresh for each call, so that a lease that was taken over is never taken for the
    /// one before, not even by the same relay.
    pub owner: Owner,
    /// How long the messages are held.
    pub lease: Duration,
    /// The most messages to take.
    pub limit: u32,
    /// Whether messages behind a dead one of their ordering key are taken too.
    pub past_dead: bool,
}

impl LeaseMessages {
    /// A call by a fresh owner for up to `limit` messages, none of them behind a dead one.
    pub fn new(lease: Duration, limit: u32) -> Self {
        Self { owner: Owner::random(), lease: bounded_lease(lease), limit, past_dead: false }
    }

    /// Whether messages behind a dead one of their ordering key are taken too.
    #[must_use]
    pub fn past_dead(mut self, past_dead: bool) -> Self {
        self.past_dead = past_dead;
        self
    }
}

/// The fence of one message: every write of a relay is conditional on it (R8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageLease {
    /// Which message.
    pub id: MessageId,
    /// Whose lease, as in [`LeaseMessages::owner`].
    pub owner: Owner,
}

/// A message that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// What to send.
    pub message: OutboxMessage,
    /// The fence to settle it under.
    pub lease: MessageLease,
    /// How many deliveries failed so far.
    pub failures: u32,
    /// How many leases ran out on it without a word: its relay was killed or stood still. They
    /// are counted since the last failure that was noted.
    pub lapses: u32,
}

/// The messages that one call got.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeasedBatch {
    /// Oldest first. Those of one ordering key stand in the order in which they must be sent.
    pub messages: Vec<Leased>,
    /// How long they are held, counted by the caller from an instant before it sent the call (R6).
    pub remaining: Duration,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Which one, under which lease.
    pub lease: MessageLease,
    /// What became of it.
    pub outcome: SettleAs,
}

/// How a message is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettleAs {
    /// It was delivered.
    Sent,
    /// The delivery failed. It waits, at the head of its ordering key.
    Failed {
        /// How long, from now.
        retry_after: Duration,
        /// Why, for a person: no payload and no secret (R24).
        reason: String,
    },
    /// It will not be delivered; a person decides.
    Dead {
        /// Why, for a person.
        reason: String,
    },
    /// It was not tried. Another relay may have it at once.
    GivenBack,
}

impl Settlement {
    /// It was delivered.
    pub fn sent(lease: MessageLease) -> Self {
        Self { lease, outcome: SettleAs::Sent }
    }

    /// The delivery failed, and is tried again after `retry_after`. The reason is cut at
    /// [`MAX_REASON_BYTES`], and control characters in it are replaced.
    pub fn failed(lease: MessageLease, retry_after: Duration, reason: &str) -> Self {
        Self { lease, outcome: SettleAs::Failed { retry_after, reason: bounded(reason) } }
    }

    /// It will not be delivered. The reason is bounded as in [`failed`](Self::failed).
    pub fn dead(lease: MessageLease, reason: &str) -> Self {
        Self { lease, outcome: SettleAs::Dead { reason: bounded(reason) } }
    }

    /// It was not tried.
    pub fn given_back(lease: MessageLease) -> Self {
        Self { lease, outcome: SettleAs::GivenBack }
    }
}

/// Messages of which the lease did not hold any more: taken over, or settled by somebody else.
/// For them nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lost {
    /// Which ones.
    pub ids: Vec<MessageId>,
}

/// Text that a terminal and every database take, no longer than the bound.
fn bounded(reason: &str) -> String {
    let mut text = String::new();
    for character in reason.chars() {
        let plain = if character.is_control() { '\u{fffd}' } else { character };
        if text.len() + plain.len_utf8() > MAX_REASON_BYTES {
            break;
        }
        text.push(plain);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters_and_shows_nothing_to_a_terminal() {
        let lease = MessageLease { id: MessageId::random(), owner: Owner::random() };
        let SettleAs::Dead { reason } = Settlement::dead(lease, &"é".repeat(200)).outcome else {
            panic!("dead");
        };
        assert_eq!(reason, "é".repeat(127));
        let SettleAs::Failed { reason, .. } =
            Settlement::failed(lease, Duration::ZERO, "a\0\u{1b}[31mb").outcome
        else {
            panic!("failed");
        };
        assert_eq!(reason, "a\u{fffd}\u{fffd}[31mb");
    }
}
