//! Follow-on messages, written in the transaction that completes the record and sent once it has
//! committed (R21).
//!
//! A handler pushes an [`OutboxMessage`] into its own transaction. A
//! [`Relay`](crate::relay::Relay) leases what waits through the [`Outbox`] trait and hands it to a
//! [`Sink`](crate::relay::Sink). Delivery is *at least once*: a relay that is killed between
//! sending a message and noting it sends it again, with the same [`MessageId`], so a consumer
//! that remembers ids sees each message once.
//!
//! # Order
//! Messages of one ordering key are delivered in the order in which their transactions
//! **committed**, and within a transaction in the order in which they were pushed. Messages
//! without an ordering key, or of different keys, have no order.
//!
//! A message that cannot be delivered holds back the later ones of its own key, and nothing else.
//!
//! # What a consumer must know
//! A repeat can come late. A relay that is stopped in the middle of sending, and goes on after
//! its lease was taken over, sends one message again although later ones of its key are there by
//! now; and a dead letter that a person puts back may be repeated days later. A consumer that
//! remembers ids for a shorter time than that must expect to see such a repeat as new.

mod contract;
mod lease;
mod listing;
mod memory;
mod message;
mod rules;

pub use contract::{MAX_LEASED_BYTES, Outbox, within_page};
pub use lease::{
    LeaseMessages, Leased, LeasedBatch, Lost, MAX_REASON_BYTES, MessageLease, SettleAs, Settlement,
};
pub use listing::{Backlog, Entry, EntryPage, EntryPosition, MessageState};
pub use memory::{DEFAULT_OUTBOX_CAPACITY, MemoryOutbox};
pub use message::{
    MAX_HEADERS, MAX_PAYLOAD_BYTES, MAX_TEXT_BYTES, MessageError, MessageId, NoMessageId,
    OutboxMessage,
};

/// The example of the page on the outbox compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/outbox.md")]
struct Page;
