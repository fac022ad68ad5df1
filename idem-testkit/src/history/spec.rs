//! The rules as a machine whose time is only known within bounds.
//!
//! The pure rules take one instant. Of a recorded call it is only known that it took effect
//! between two, so the machine tries each reading of the clock that could have made a difference:
//! the lease still running or over, the reply still kept or expired, the record old enough or not.

use std::fmt;
use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};
use idem_core::record::{Incarnation, Owner, Record, Retention, State as Stored};
use idem_core::store::Renewed;
use idem_core::time::{MAX_DURATION, Timestamp, bounded_lease};
use idem_core::transition::{self, Change, Decision};

use super::explains::{explains, explains_claim, is_same_record};
use super::operation::{Answer, Call, ClaimCall, Operation, held};

/// Clocks are read at slightly different moments, and may be adjusted a little.
const SLACK: Duration = Duration::from_millis(50);

/// Where the rules' own instant is put: far from both ends.
const NOW: Timestamp = Timestamp::from_unix_micros(1 << 60);

/// What one key may be at some point of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Its record, if there is one.
    pub(super) life: Option<Life>,
    /// The lives that are over, in order: none of their incarnations comes again by the same
    /// owner (R8).
    over: Vec<(Incarnation, Owner)>,
}

impl State {
    /// What follows when this was read as `before` and then became `life`.
    fn then(&self, before: &Reading, life: Option<Life>) -> Self {
        let known = before.life.as_ref().or(self.life.as_ref()).filter(|life| !life.nameless);
        let mut over = self.over.clone();
        if let Some(known) = known.map(Life::name)
            && life.as_ref().map(Life::name) != Some(known)
            && !over.contains(&known)
        {
            over.push(known);
            over.sort();
        }
        Self { life, over }
    }
}

/// A record, with its instants as bounds in the history's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Life {
    /// Its instants mean nothing; those below do.
    pub(super) record: Record,
    created: (Duration, Duration),
    /// The end of its lease, or of its reply.
    ends: End,
    /// Who inserted it.
    first: Owner,
    /// The claim that inserted it was not answered: nobody has seen its incarnation.
    nameless: bool,
}

impl Life {
    fn name(&self) -> (Incarnation, Owner) {
        (self.record.incarnation, self.first)
    }
}

/// When something ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Never,
    Within(Duration, Duration),
    Over,
}

/// The states that follow from `operation`, for each order of things that explains its answer.
pub(super) fn apply(state: &State, operation: &Operation, is_swept: bool) -> Vec<State> {
    let mut next = Vec::new();
    for before in readings(state, operation, is_swept) {
        if let Some(life) = step(&before, operation, &state.over) {
            let after = state.then(&before, life);
            if !next.contains(&after) {
                next.push(after);
            }
        }
    }
    next
}

/// A state with its instants made definite, as far as the rules ask.
struct Reading {
    life: Option<Life>,
}

impl Reading {
    fn unchanged(&self) -> Option<Life> {
        let life = self.life.clone()?;
        Some(Life { record: timeless(life.record), ..life })
    }
}

fn readings(state: &State, operation: &Operation, is_swept: bool) -> Vec<Reading> {
    let Some(life) = &state.life else { return vec![Reading { life: None }] };
    let mut readings = Vec::new();
    for over in life.ends.readings(operation) {
        for age in ages(life, operation) {
            let mut read = life.clone();
            read.record.created_at = Timestamp::from_unix_micros(
                NOW.as_unix_micros() - i64::try_from(age.as_micros()).unwrap_or(i64::MAX >> 4),
            );
            set_over(&mut read.record, over);
            if is_swept && transition::is_sweepable(&read.record, NOW) {
                readings.push(Reading { life: None });
            }
            readings.push(Reading { life: Some(read) });
        }
    }
    readings.into_iter().flat_map(|reading| named(reading, operation, &state.over)).collect()
}

/// A life whose incarnation nobody has seen may be one that this call or its answer names.
fn named(reading: Reading, operation: &Operation, over: &[(Incarnation, Owner)]) -> Vec<Reading> {
    let Some(life) = reading.life.clone().filter(|life| life.nameless) else {
        return vec![reading];
    };
    let names = incarnations_in(operation).into_iter().flatten();
    let free = names.filter(|name| !over.contains(&(*name, life.first)));
    let known = free.map(|incarnation| {
        let mut known = life.clone();
        known.record.incarnation = incarnation;
        known.nameless = false;
        Reading { life: Some(known) }
    });
    known.chain([reading]).collect()
}

/// The one that the call asks for, and the one that its answer tells. They differ where a claim of
/// one life finds another that its owner began: it is told of that one (R5).
fn incarnations_in(operation: &Operation) -> [Option<Incarnation>; 2] {
    let asked = match &operation.call {
        Call::Renew { fence, .. }
        | Call::Checkpoint { fence, .. }
        | Call::Complete { fence, .. }
        | Call::Release { fence } => Some(fence.incarnation),
        Call::Claim(ClaimCall(claim)) => match claim.takeover {
            Takeover::Only { incarnation, .. } => Some(incarnation),
            _ => None,
        },
        Call::Get { .. } | Call::Sweep => None,
    };
    let told = match &operation.answer {
        Answer::Claimed(Claimed::Acquired(held)) => Some(held.fence.incarnation),
        Answer::Claimed(Claimed::Completed(replay)) => Some(replay.fence.incarnation),
        Answer::Seen(Some(seen)) => Some(seen.record.incarnation),
        _ => None,
    };
    [asked, told.filter(|told| Some(*told) != asked)]
}

impl End {
    /// Whether it may be over, and whether it may not, when `operation` takes effect.
    fn readings(self, operation: &Operation) -> Vec<bool> {
        match self {
            Self::Never => vec![false],
            Self::Over => vec![true],
            Self::Within(earliest, latest) => {
                let may_run = operation.invoked < latest.saturating_add(SLACK);
                let may_be_over =
                    operation.returned.is_none_or(|at| at.saturating_add(SLACK) >= earliest);
                [(may_run, false), (may_be_over, true)]
                    .into_iter()
                    .filter_map(|(may, over)| may.then_some(over))
                    .collect()
            }
        }
    }
}

fn set_over(record: &mut Record, over: bool) {
    let end = if over { NOW } else { NOW.after(Duration::from_micros(1)) };
    match &mut record.state {
        Stored::InProgress { locked_until, .. } => *locked_until = end,
        Stored::Completed { expires_at: Some(at), .. } => *at = end,
        Stored::Completed { .. } => {}
    }
}

/// The ages that the rules could tell apart.
fn ages(life: &Life, operation: &Operation) -> Vec<Duration> {
    let youngest = operation.invoked.saturating_sub(life.created.1).saturating_sub(SLACK);
    let latest = operation.returned.unwrap_or(MAX_DURATION).saturating_add(SLACK);
    let oldest = latest.saturating_sub(life.created.0).min(MAX_DURATION);
    let mut ages = vec![youngest.min(oldest), oldest];
    let mut thresholds: Vec<Duration> = life.record.retention.total().into_iter().collect();
    if let Call::Claim(ClaimCall(claim)) = &operation.call {
        match claim.takeover {
            Takeover::Below { younger_than, .. } => thresholds.push(younger_than),
            Takeover::Only { younger_than: Some(younger_than), .. } => {
                thresholds.push(younger_than)
            }
            _ => {}
        }
    }
    ages.extend(thresholds.into_iter().filter(|age| (youngest..oldest).contains(age)));
    ages.dedup();
    ages
}

/// One verb on one reading: what stands afterwards, if the answer is the rules'.
fn step(
    before: &Reading,
    operation: &Operation,
    over: &[(Incarnation, Owner)],
) -> Option<Option<Life>> {
    let found = before.life.as_ref().map(|life| &life.record);
    match &operation.call {
        Call::Claim(ClaimCall(claim)) => {
            // An insert has the incarnation that its answer tells.
            let told = match &operation.answer {
                Answer::Claimed(Claimed::Acquired(held)) => Some(held.fence.incarnation),
                _ => None,
            };
            // What nobody was told gets a name that nobody uses.
            let nameless = claim.owner.as_bytes().map(|byte| !byte);
            let fresh = told.unwrap_or(Incarnation::from_bytes(nameless));
            let decision = transition::claim(found, &claim.borrow(), NOW, fresh);
            explains_claim(&operation.answer, &decision.outcome).then_some(())?;
            let name = (fresh, claim.owner);
            let is_used =
                over.contains(&name) || before.life.as_ref().map(Life::name) == Some(name);
            if told.is_some() && is_used && is_insert(found, &decision) {
                return None;
            }
            let lease = bounded_lease(claim.lease);
            after(before, operation, decision.change, Some(lease), told.is_none())
        }
        Call::Renew { fence, lease } => {
            let decision = transition::renew(found, fence, *lease, NOW);
            let same = |told: &Answer, ours: &Renewed| {
                matches!(
                    (told, ours),
                    (Answer::Renewed(Renewed::Held(_)), Renewed::Held(_))
                        | (Answer::Renewed(Renewed::GivenUp), Renewed::GivenUp)
                        | (Answer::Renewed(Renewed::Completed), Renewed::Completed)
                )
            };
            explains(&operation.answer, &decision.outcome, same).then_some(())?;
            let lease = (!lease.is_zero()).then(|| bounded_lease(*lease));
            after(before, operation, decision.change, lease, false)
        }
        Call::Checkpoint { fence, recovery, lease } => {
            let decision = transition::checkpoint(found, fence, recovery, *lease, NOW);
            let same = |told: &Answer, _: &_| matches!(told, Answer::Leased(_));
            explains(&operation.answer, &decision.outcome, same).then_some(())?;
            after(before, operation, decision.change, Some(bounded_lease(*lease)), false)
        }
        Call::Complete { fence, reply } => {
            let decision = transition::complete(found, fence, reply, NOW);
            let same = |told: &Answer, _: &_| *told == Answer::Done;
            explains(&operation.answer, &decision.outcome, same).then_some(())?;
            after(before, operation, decision.change, None, false)
        }
        Call::Release { fence } => {
            let decision = transition::release(found, fence, NOW);
            let same = |told: &Answer, _: &_| *told == Answer::Done;
            explains(&operation.answer, &decision.outcome, same).then_some(())?;
            after(before, operation, decision.change, None, false)
        }
        Call::Get { .. } => {
            let seen = transition::visible(found, NOW);
            let same = match &operation.answer {
                Answer::Seen(told) => is_same_record(told.as_ref(), seen),
                _ => operation.is_unknown(),
            };
            same.then(|| before.unchanged())
        }
        Call::Sweep => Some(before.unchanged()),
    }
}

/// Whether a claim begins a new life.
fn is_insert(found: Option<&Record>, decision: &Decision<Claimed>) -> bool {
    let Ok(Claimed::Acquired(held)) = &decision.outcome else { return false };
    held.replaced || transition::visible(found, NOW).is_none()
}

/// What stands after a change. `lease` is what the verb set, from when it took effect; `nameless`
/// says that an insert's incarnation was not told.
#[allow(clippy::unnecessary_wraps)] // It ends each arm of `step`.
fn after(
    before: &Reading,
    operation: &Operation,
    change: Change,
    lease: Option<Duration>,
    nameless: bool,
) -> Option<Option<Life>> {
    let record = match change {
        Change::None => return Some(before.unchanged()),
        Change::Delete => return Some(None),
        Change::Put(record) => *record,
    };
    let (earliest, latest) = (operation.invoked, operation.returned.unwrap_or(MAX_DURATION));
    let goes_on = before.life.as_ref().filter(|life| life.record.incarnation == record.incarnation);
    let first = goes_on.map_or(record.owner, |life| life.first);
    let created = goes_on.map_or((earliest, latest), |life| life.created);
    let nameless = goes_on.map_or(nameless, |life| life.nameless);
    let standing = goes_on.map(|life| life.ends);
    let ends = match &record.state {
        Stored::Completed { .. } => expiry(record.retention, created, (earliest, latest)),
        Stored::InProgress { given_up, .. } => match (lease, standing) {
            (None, _) if *given_up => End::Over,
            // Given up, and not taken over: a recovery point brings no lease back.
            (Some(_), Some(ends)) if *given_up && is_checkpoint(&operation.call) => ends,
            (Some(lease), standing) => {
                let fresh = (earliest.saturating_add(lease), latest.saturating_add(lease));
                match standing {
                    // Never shortened.
                    Some(End::Within(a, b)) => End::Within(a.max(fresh.0), b.max(fresh.1)),
                    _ => End::Within(fresh.0, fresh.1),
                }
            }
            (None, Some(ends)) => ends,
            (None, None) => End::Over,
        },
    };
    Some(Some(Life { record: timeless(record), created, ends, first, nameless }))
}

fn is_checkpoint(call: &Call) -> bool {
    matches!(call, Call::Checkpoint { .. })
}

fn expiry(
    retention: Retention,
    created: (Duration, Duration),
    completed: (Duration, Duration),
) -> End {
    let Retention::For { total, after_completion } = retention else { return End::Never };
    if total.is_zero() && after_completion.is_zero() {
        return End::Over;
    }
    let end = |created: Duration, completed: Duration| {
        created.saturating_add(total).max(completed.saturating_add(after_completion))
    };
    End::Within(end(created.0, completed.0), end(created.1, completed.1))
}

/// So that two orders of the same calls come to the same state.
fn timeless(mut record: Record) -> Record {
    record.created_at = NOW;
    match &mut record.state {
        Stored::InProgress { locked_until, .. } => *locked_until = NOW,
        Stored::Completed { completed_at, expires_at, .. } => {
            *completed_at = NOW;
            if let Some(expires_at) = expires_at {
                *expires_at = NOW;
            }
        }
    }
    record
}

/// What stands, for a person.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(life) = &self.life else { return f.write_str("nothing") };
        write!(f, "{}, ", held(&life.record.fence()))?;
        let what = match &life.record.state {
            Stored::InProgress { given_up, recovery, .. } => {
                if *given_up {
                    f.write_str("given up, ")?;
                }
                if let Some(point) = recovery {
                    write!(f, "at recovery point {}, ", point.number)?;
                }
                "leased"
            }
            Stored::Completed { reply, .. } => {
                write!(f, "completed with {reply:?}, ")?;
                "kept"
            }
        };
        match life.ends {
            End::Never => write!(f, "{what} for ever"),
            End::Over => write!(f, "no longer {what}"),
            End::Within(from, to) if to == MAX_DURATION => {
                write!(f, "{what} until {from:?} or later")
            }
            End::Within(from, to) => write!(f, "{what} until {from:?} to {to:?}"),
        }
    }
}
