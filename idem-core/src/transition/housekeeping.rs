//! Which records the reconciler, the sweeper and `forget` may touch.

use crate::record::{Record, State};
use crate::time::Timestamp;

/// Whether its lease is over: what `lapsed` lists.
pub fn is_lapsed(record: &Record, now: Timestamp) -> bool {
    matches!(record.state, State::InProgress { locked_until, .. } if locked_until <= now)
}

/// Whether a sweep may delete it (R10): an expired reply, or a lapsed record that marks begun,
/// did not begin, and has outlived its retention. Other work in progress is never swept.
pub fn is_sweepable(record: &Record, now: Timestamp) -> bool {
    match &record.state {
        State::Completed { expires_at, .. } => expires_at.is_some_and(|at| at <= now),
        State::InProgress { recovery, .. } => {
            record.marks_begun
                && recovery.is_none()
                && is_lapsed(record, now)
                && has_outlived_retention(record, now)
        }
    }
}

/// Whether the retention, counted from the first claim of this life, is over.
pub(super) fn has_outlived_retention(record: &Record, now: Timestamp) -> bool {
    record.retention.total().is_some_and(|total| record.created_at.after(total) <= now)
}

/// Whether forgetting its scope deletes it: everything but what is in progress, lapsed or not.
pub fn is_forgettable(record: &Record) -> bool {
    matches!(record.state, State::Completed { .. })
}
