//! The rules as pure functions: what was found, what is asked and the time go in; what is
//! written and what is answered come out. No clock, no runtime, no socket.
//!
//! The memory and SQLite stores call these functions under their lock; the testkit's model is
//! these functions; the SQL and Lua of the other backends are tested against them.

mod claim;
mod fenced;
mod housekeeping;

pub use claim::claim;
pub use fenced::{Applied, checkpoint, complete, hold, release, remove, renew};
pub use housekeeping::{is_forgettable, is_lapsed, is_sweepable};

use crate::error::Refusal;
use crate::record::{Record, State};
use crate::time::Timestamp;
use housekeeping::has_outlived_retention;

/// What a verb does to the record, and what it answers. A refused verb changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<T> {
    /// The write, applied in the same atomic step as the read that led to it.
    pub change: Change,
    /// The answer.
    pub outcome: Result<T, Refusal>,
}

/// A write to one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Nothing is written.
    None,
    /// The record becomes this, whether it was there or not.
    Put(Box<Record>),
    /// The record goes.
    Delete,
}

impl<T> Decision<T> {
    fn answer(outcome: T) -> Self {
        Self { change: Change::None, outcome: Ok(outcome) }
    }

    fn refuse(refusal: Refusal) -> Self {
        Self { change: Change::None, outcome: Err(refusal) }
    }

    fn put(record: Record, outcome: T) -> Self {
        Self { change: Change::Put(Box::new(record)), outcome: Ok(outcome) }
    }
}

/// The record unless it is completed and expired: expiry is judged at read time, and an expired
/// record counts as absent whether it was swept or not (R11).
pub fn visible(found: Option<&Record>, now: Timestamp) -> Option<&Record> {
    found.filter(|record| match record.state {
        State::Completed { expires_at: Some(expires_at), .. } => expires_at > now,
        _ => true,
    })
}
