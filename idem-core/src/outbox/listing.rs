//! What an operator sees of an outbox.

use std::time::Duration;

use crate::error::{ErrorKind, StoreError, Verb};
use crate::outbox::OutboxMessage;
use crate::store::Cursor;

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageState {
    /// To be sent, now or later.
    Waiting,
    /// Sent, and kept for a while.
    Sent,
    /// Given up; a person decides.
    Dead,
}

impl MessageState {
    /// A stable lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sent => "sent",
            Self::Dead => "dead",
        }
    }
}

/// A message as it stands in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The message. A listing may leave out its payload, which is then empty.
    pub message: OutboxMessage,
    /// How many bytes its payload has.
    pub payload_bytes: u64,
    /// Its place: within an ordering key, lower numbers go first.
    pub number: u64,
    /// Where it stands.
    pub state: MessageState,
    /// How many deliveries failed.
    pub failures: u32,
    /// How many leases ran out on it since.
    pub lapses: u32,
    /// How long ago it was pushed.
    pub age: Duration,
    /// How long until it is tried again, if that is later than now.
    pub due_in: Option<Duration>,
    /// How much longer a relay holds it, if one does.
    pub leased_for: Option<Duration>,
    /// Why its last delivery failed, or why it was given up.
    pub reason: Option<String>,
}

impl Entry {
    /// For store authors: an entry that is new.
    pub fn new(message: OutboxMessage, number: u64, state: MessageState) -> Self {
        Self {
            payload_bytes: u64::try_from(message.payload().len()).unwrap_or(u64::MAX),
            message,
            number,
            state,
            failures: 0,
            lapses: 0,
            age: Duration::ZERO,
            due_in: None,
            leased_for: None,
            reason: None,
        }
    }
}

/// Some entries, and where the next ones are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryPage {
    /// By number.
    pub entries: Vec<Entry>,
    /// Where to go on; `None` when this was the last page.
    pub next: Option<Cursor>,
}

/// How much waits. The numbers need not be of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Backlog {
    /// Messages to be sent.
    pub waiting: u64,
    /// Those of them that a relay holds at the moment.
    pub leased: u64,
    /// The age of the oldest that waits: the lag of the relay.
    pub oldest_waiting: Option<Duration>,
    /// Messages that were given up and wait for a person.
    pub dead: u64,
}

impl Backlog {
    /// For store authors.
    pub fn new(waiting: u64, leased: u64, oldest_waiting: Option<Duration>, dead: u64) -> Self {
        Self { waiting, leased, oldest_waiting, dead }
    }
}

/// A position in a listing of one state, by number. Store authors turn it into a [`Cursor`] and
/// back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPosition {
    /// Of which state the listing is.
    pub state: MessageState,
    /// The number of the last entry.
    pub number: u64,
}

impl EntryPosition {
    /// As a cursor.
    pub fn to_cursor(self) -> Cursor {
        let mut bytes = vec![TAG, tag_of(self.state)];
        bytes.extend_from_slice(&self.number.to_be_bytes());
        Cursor::from_bytes(bytes)
    }

    /// The number after which a listing of `state` goes on: 0 without a cursor.
    ///
    /// # Errors
    /// `InvalidInput` for a cursor of another listing.
    pub fn number_after(state: MessageState, cursor: Option<&Cursor>) -> Result<u64, StoreError> {
        let Some(cursor) = cursor else { return Ok(0) };
        match cursor.as_bytes().split_first_chunk::<2>() {
            Some(([TAG, tag], number)) if *tag == tag_of(state) => {
                number.try_into().map(u64::from_be_bytes).map_err(|_| foreign())
            }
            _ => Err(foreign()),
        }
    }
}

/// Other listings' cursors begin with other bytes.
const TAG: u8 = 3;

fn tag_of(state: MessageState) -> u8 {
    match state {
        MessageState::Waiting => 0,
        MessageState::Sent => 1,
        MessageState::Dead => 2,
    }
}

fn foreign() -> StoreError {
    let detail = "the cursor is not one of this listing";
    StoreError::new(ErrorKind::InvalidInput, Verb::List, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_on_in_its_own_listing_alone() {
        let cursor = EntryPosition { state: MessageState::Dead, number: 258 }.to_cursor();
        let after = EntryPosition::number_after(MessageState::Dead, Some(&cursor));
        assert_eq!(after.unwrap(), 258);
        assert_eq!(EntryPosition::number_after(MessageState::Dead, None).unwrap(), 0);
        for foreign in [cursor, Cursor::from_bytes([]), Cursor::from_bytes([3, 0, 1])] {
            let error = EntryPosition::number_after(MessageState::Waiting, Some(&foreign));
            assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
