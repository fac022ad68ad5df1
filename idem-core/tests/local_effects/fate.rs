//! How a COMMIT can go.

use std::time::Duration;

/// How a COMMIT goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    /// Rolled back, and the caller is told.
    NotApplied,
    /// Applied or not, and the acknowledgement is lost.
    Unacknowledged { applied: bool },
    /// The acknowledgement is lost; the server applies it, or does not, only after a while, and
    /// holds the row until then.
    Pending { applied: bool, after: Duration },
    /// It is never answered.
    Silent { applied: bool },
    /// The driver panics after it was applied.
    Panics,
}

/// Says how the next commit goes.
pub(crate) type Chance = Box<dyn FnMut() -> Option<Commit> + Send>;
