//! The verbs that are conditional on the whole fence (R8).

use std::time::Duration;

use crate::codec::Sealed;
use crate::error::{ErrorKind, Refusal};
use crate::record::{Fence, Record, Recovery, State};
use crate::store::{Lease, Renewed};
use crate::time::{Timestamp, bounded_lease};
use crate::transition::{Change, Decision, visible};

/// Whether a write was made by this call, or stood already from an earlier copy of it (R5).
///
/// Outside a transaction both are success. Inside one, [`Applied::Already`] means that the
/// transaction's other rows would stand twice: it must roll back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// By this call.
    Now,
    /// By an earlier copy of it.
    Already,
}

/// Sets the lease to `lease` from now, never shortening it; zero gives it up at once, for good.
pub fn renew(
    found: Option<&Record>,
    fence: &Fence,
    lease: Duration,
    now: Timestamp,
) -> Decision<Renewed> {
    let Some(record) = under(found, fence, now) else { return Decision::refuse(FENCE_LOST) };
    let State::InProgress { locked_until, given_up, recovery } = &record.state else {
        return Decision::answer(Renewed::Completed);
    };
    if *given_up {
        return Decision::answer(Renewed::GivenUp);
    }
    let (until, gives_up) = if lease.is_zero() {
        (now.min(*locked_until), true)
    } else {
        (now.after(bounded_lease(lease)).max(*locked_until), false)
    };
    let state =
        State::InProgress { locked_until: until, given_up: gives_up, recovery: recovery.clone() };
    let renewed = if gives_up {
        Renewed::GivenUp
    } else {
        Renewed::Held(Lease { remaining: until.since(now) })
    };
    Decision::put(Record { state, ..record.clone() }, renewed)
}

/// Sets recovery point `recovery.number` and the lease in one write, only where its predecessor
/// stands. The same number with the same bytes again is [`Applied::Already`].
pub fn checkpoint(
    found: Option<&Record>,
    fence: &Fence,
    recovery: &Recovery,
    lease: Duration,
    now: Timestamp,
) -> Decision<(Applied, Lease)> {
    let Some(record) = under(found, fence, now) else { return Decision::refuse(FENCE_LOST) };
    let State::InProgress { locked_until, given_up, recovery: standing } = &record.state else {
        return Decision::refuse(FENCE_LOST);
    };
    let number = standing.as_ref().map_or(0, |standing| standing.number);
    let applied = if Some(recovery) == standing.as_ref() {
        Applied::Already
    } else if recovery.number.checked_sub(1) == Some(number) {
        Applied::Now
    } else {
        return Decision::refuse(OUT_OF_SEQUENCE);
    };
    let until =
        if *given_up { *locked_until } else { now.after(bounded_lease(lease)).max(*locked_until) };
    let state = State::InProgress {
        locked_until: until,
        given_up: *given_up,
        recovery: Some(recovery.clone()),
    };
    let held = Lease { remaining: until.since(now) };
    Decision::put(Record { state, ..record.clone() }, (applied, held))
}

/// Stores the reply. The same reply under the same fence again is [`Applied::Already`].
///
/// The input and the recovery point go: nothing resumes a completed record.
pub fn complete(
    found: Option<&Record>,
    fence: &Fence,
    reply: &Sealed,
    now: Timestamp,
) -> Decision<Applied> {
    let Some(record) = under(found, fence, now) else { return Decision::refuse(FENCE_LOST) };
    match &record.state {
        State::InProgress { .. } => {
            let state = State::Completed {
                reply: reply.clone(),
                completed_at: now,
                expires_at: record.retention.expiry(record.created_at, now),
            };
            Decision::put(Record { state, input: None, ..record.clone() }, Applied::Now)
        }
        State::Completed { reply: standing, .. } if standing == reply => {
            Decision::answer(Applied::Already)
        }
        State::Completed { .. } => Decision::refuse(FENCE_LOST),
    }
}

/// Deletes an InProgress record, only at attempt 1 and without a recovery point: for rejections
/// found before anything was done (R14). A record that is not there was released before.
pub fn release(found: Option<&Record>, fence: &Fence, now: Timestamp) -> Decision<()> {
    let Some(record) = visible(found, now) else { return Decision::answer(()) };
    if !record.is_under(fence) || matches!(record.state, State::Completed { .. }) {
        return Decision::refuse(FENCE_LOST);
    }
    if record.attempt > 1 || record.recovery().is_some() {
        return Decision::refuse(MAY_HAVE_BEGUN);
    }
    Decision { change: Change::Delete, outcome: Ok(()) }
}

/// Whether an InProgress record is under this fence: what a transaction asks after it has locked
/// its own row.
pub fn hold(found: Option<&Record>, fence: &Fence, now: Timestamp) -> Decision<()> {
    match under(found, fence, now) {
        Some(record) if matches!(record.state, State::InProgress { .. }) => Decision::answer(()),
        _ => Decision::refuse(FENCE_LOST),
    }
}

/// Deletes a record under its fence, whatever its attempt or state: for an operator. A record
/// that is not there was removed before.
pub fn remove(found: Option<&Record>, fence: &Fence) -> Decision<()> {
    match found {
        None => Decision::answer(()),
        Some(record) if record.is_under(fence) => {
            Decision { change: Change::Delete, outcome: Ok(()) }
        }
        Some(_) => Decision::refuse(FENCE_LOST),
    }
}

const FENCE_LOST: Refusal =
    Refusal { kind: ErrorKind::FenceLost, detail: "the record is not held under this fence" };

const OUT_OF_SEQUENCE: Refusal = Refusal {
    kind: ErrorKind::Refused,
    detail: "the recovery point does not follow the one that stands",
};

const MAY_HAVE_BEGUN: Refusal = Refusal {
    kind: ErrorKind::Refused,
    detail: "something may have begun, so the key is not freed",
};

fn under<'r>(found: Option<&'r Record>, fence: &Fence, now: Timestamp) -> Option<&'r Record> {
    visible(found, now).filter(|record| record.is_under(fence))
}
