//! How a COMMIT can go.

use std::time::Duration;

use idem_core::codec::Codec;
use idem_core::record::{Incarnation, Owner, Record, State};
use idem_core::reply::Reply;

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
    /// The acknowledgement is lost, it was not applied, and another execution has completed.
    Overtaken,
}

/// What stands in the place of a record that was not committed: the next attempt, or another life
/// where the claim was not committed either.
pub(crate) fn overtake(record: &mut Record, claimed: bool) {
    if claimed {
        record.attempt += 1;
    } else {
        record.incarnation = Incarnation::random();
    }
    record.owner = Owner::random();
    let reply = Reply::from("winner".to_owned()).into();
    let sealed = Codec::new().encode_reply(&reply, &record.scope, &record.key).unwrap();
    if let State::Completed { reply, .. } = &mut record.state {
        *reply = sealed;
    }
}

/// Says how the next commit goes.
pub(crate) type Chance = Box<dyn FnMut() -> Option<Commit> + Send>;
