//! The claim table.

use std::time::Duration;

use crate::claim::{Acquired, Claim, Claimed, Lapsed, Replay, Takeover};
use crate::error::{ErrorKind, Refusal};
use crate::fingerprint::Comparison;
use crate::record::{Incarnation, Record, State};
use crate::time::{Timestamp, bounded_lease};
use crate::transition::{Decision, has_outlived_retention, is_lapsed, visible};

/// Decides a claim on the record that was found, row by row of the design's claim table.
///
/// `fresh` is the incarnation of a new life, made by the store; it is used only by an insert.
pub fn claim(
    found: Option<&Record>,
    claim: &Claim<'_>,
    now: Timestamp,
    fresh: Incarnation,
) -> Decision<Claimed> {
    let Some(record) = visible(found, now) else {
        return match claim.takeover {
            Takeover::Only { .. } => Decision::answer(Claimed::Gone),
            _ => insert(claim, now, fresh, false),
        };
    };
    if let State::InProgress { locked_until, given_up, .. } = record.state
        && record.owner == claim.owner
    {
        return reacquire(record, (locked_until, given_up), claim, now);
    }
    let comparison = claim.fingerprints.compare(record.fingerprint);
    if comparison == Comparison::UnknownScheme {
        return Decision::refuse(UNKNOWN_SCHEME);
    }
    let differs = record.operation != *claim.operation || comparison == Comparison::Differs;
    match &record.state {
        _ if differs && is_reusable(record, claim, now) => insert(claim, now, fresh, true),
        _ if differs => Decision::answer(Claimed::Mismatch {
            completed: matches!(record.state, State::Completed { .. }),
        }),
        State::InProgress { locked_until, .. } if *locked_until > now => {
            Decision::answer(Claimed::InProgress { remaining: locked_until.since(now) })
        }
        State::InProgress { locked_until, .. } => {
            if may_take_over(record, claim.takeover, now) {
                take_over(record, claim, now)
            } else {
                let lapsed = Lapsed::new(record.attempt, now.since(*locked_until));
                Decision::answer(Claimed::Lapsed(lapsed))
            }
        }
        State::Completed { reply, expires_at, .. } => {
            let expires_in = expires_at.map(|at| at.since(now));
            let replay = Replay::new(reply.clone(), expires_in, record.fence());
            Decision::answer(Claimed::Completed(replay))
        }
    }
}

const UNKNOWN_SCHEME: Refusal = Refusal {
    kind: ErrorKind::WrongSchema,
    detail: "the record's fingerprint has a scheme that this build does not know",
};

fn insert(
    claim: &Claim<'_>,
    now: Timestamp,
    fresh: Incarnation,
    replaced: bool,
) -> Decision<Claimed> {
    let lease = bounded_lease(claim.lease);
    let record = Record {
        scope: claim.scope.clone(),
        key: claim.key.clone(),
        operation: claim.operation.clone(),
        fingerprint: claim.fingerprints.primary(),
        input: claim.input.cloned(),
        attempt: 1,
        owner: claim.owner,
        incarnation: fresh,
        created_at: now,
        retention: claim.retention,
        marks_begun: claim.marks_begun,
        state: State::InProgress {
            locked_until: now.after(lease),
            given_up: false,
            recovery: None,
        },
    };
    let acquired = Acquired::inserted(claim, fresh, now.after(lease).since(now));
    Decision::put(record, Claimed::Acquired(acquired.replacing(replaced)))
}

/// The same call again: its acknowledgement was lost (R5). Where the lease was given up this is a
/// late duplicate, since whoever gave it up had been answered: no heartbeat prolongs what it gets.
fn reacquire(
    record: &Record,
    (locked_until, given_up): (Timestamp, bool),
    claim: &Claim<'_>,
    now: Timestamp,
) -> Decision<Claimed> {
    let until = now.after(bounded_lease(claim.lease)).max(locked_until);
    hold_until(record.clone(), until, given_up, now)
}

fn take_over(record: &Record, claim: &Claim<'_>, now: Timestamp) -> Decision<Claimed> {
    let mut taken = record.clone();
    taken.attempt += 1;
    taken.owner = claim.owner;
    // Without a recovery point a record that marks begun began nothing. That stays true only
    // while everyone who holds it marks: two releases may differ in that.
    taken.marks_begun &= claim.marks_begun;
    hold_until(taken, now.after(bounded_lease(claim.lease)), false, now)
}

fn hold_until(
    mut record: Record,
    locked_until: Timestamp,
    given_up: bool,
    now: Timestamp,
) -> Decision<Claimed> {
    let recovery = record.recovery().cloned();
    record.state = State::InProgress { locked_until, given_up, recovery };
    let acquired = Acquired::held(record.fence(), locked_until.since(now), record.fingerprint)
        .with_age(now.since(record.created_at))
        .with_recovery(record.recovery().cloned())
        .with_input(record.input.clone());
    Decision::put(record, Claimed::Acquired(acquired))
}

/// Whether a lapsed record gives way to another request under the same key: nothing began, or
/// nobody has to remember it any more.
fn is_reusable(record: &Record, claim: &Claim<'_>, now: Timestamp) -> bool {
    is_lapsed(record, now)
        && record.recovery().is_none()
        && (record.marks_begun || has_outlived_retention(record, now))
        && !matches!(claim.takeover, Takeover::Only { .. })
}

fn may_take_over(record: &Record, policy: Takeover, now: Timestamp) -> bool {
    // The attempt is part of the fence, so it never wraps round.
    record.attempt < u32::MAX
        && match policy {
            Takeover::Never => record.recovery().is_none(),
            Takeover::Below { attempts, younger_than } => {
                record.attempt < attempts && is_younger(record, younger_than, now)
            }
            Takeover::Only { incarnation, attempt, younger_than } => {
                record.incarnation == incarnation
                    && record.attempt == attempt
                    && younger_than.is_none_or(|limit| is_younger(record, limit, now))
            }
        }
}

fn is_younger(record: &Record, than: Duration, now: Timestamp) -> bool {
    now < record.created_at.after(than)
}
