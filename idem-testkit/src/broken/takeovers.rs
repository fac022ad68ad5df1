//! Stores that take over what they may not, or make something else of what they take over.

use std::time::Duration;

use idem_core::claim::{Acquired, Claim, Claimed, Takeover};
use idem_core::record::{Incarnation, Record, State};
use idem_core::time::{MAX_DURATION, Timestamp};
use idem_core::transition::{self, Change, Decision};

use super::BrokenStore;
use super::rules::Rules;

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "takeover-keeps-the-attempt",
            "a taker gets a new owner and the old attempt",
            "R8",
            "table::lapsed_is_taken_over",
            Taken(|record, held, _, _| {
                record.attempt -= 1;
                held.fence.attempt -= 1;
            }),
        ),
        BrokenStore::new(
            "takeover-keeps-the-owner",
            "a taker is told that it holds the record, which still names the dead holder",
            "R8",
            "races::one_taker_of_a_dead_claim",
            Taken(|record, _, old, _| record.owner = old.owner),
        ),
        BrokenStore::new(
            "takeover-forgets-the-recovery-point",
            "a taker starts from the beginning",
            "R15, R26",
            "table::lapsed_is_taken_over",
            Taken(|record, held, _, _| {
                held.recovery = None;
                if let State::InProgress { recovery, .. } = &mut record.state {
                    *recovery = None;
                }
            }),
        ),
        BrokenStore::new(
            "takeover-replaces-the-input",
            "a taker's own input takes the place of the first claim's",
            "R15, R20",
            "table::takeover_keeps_what_is_stored",
            Taken(|record, held, _, claim| {
                record.input = claim.input.cloned();
                held.input = claim.input.cloned();
            }),
        ),
        BrokenStore::new(
            "takeover-replaces-the-fingerprint",
            "a taker's own print takes the place of the stored one, and with it the downstream key",
            "R20",
            "table::takeover_keeps_what_is_stored",
            Taken(|record, held, _, claim| {
                record.fingerprint = claim.fingerprints.primary();
                held.fingerprint = claim.fingerprints.primary();
            }),
        ),
        BrokenStore::new(
            "takeover-starts-the-age-anew",
            "the age is counted from the takeover, so that no record is ever too old",
            "R11, R27",
            "table::takeover_keeps_what_is_stored",
            Taken(|record, held, _, _| {
                if let State::InProgress { locked_until, .. } = record.state {
                    record.created_at = locked_until;
                }
                held.age = Duration::ZERO;
            }),
        ),
        BrokenStore::new(
            "takeover-replaces-the-retention",
            "a reply is kept as the last taker asked, not as the first claim did",
            "R11",
            "boundary::retention_of_another_claim_does_not_count",
            Taken(|record, _, _, claim| record.retention = claim.retention),
        ),
        BrokenStore::new(
            "takeover-stays-given-up",
            "a lease that was given up stays given up for whoever takes over",
            "R8",
            "boundary::giving_up_is_for_good",
            Taken(|record, _, old, _| {
                if let (
                    State::InProgress { given_up: now, .. },
                    State::InProgress { given_up: before, .. },
                ) = (&mut record.state, &old.state)
                {
                    *now = *before;
                }
            }),
        ),
        BrokenStore::new(
            "takeover-keeps-the-mark",
            "a taker that does not mark begun leaves the record as one that would have said so",
            "R26",
            "table::takeover_ends_the_mark_of_an_unmarked_taker",
            Taken(|record, _, old, _| record.marks_begun = old.marks_begun),
        ),
        BrokenStore::new(
            "never-is-ignored",
            "what is held is taken over all the same",
            "R15, R26",
            "table::never_holds_what_began",
            Policy(|policy, _, _| match policy {
                Takeover::Never => Takeover::Below { attempts: 9, younger_than: MAX_DURATION },
                other => other,
            }),
        ),
        BrokenStore::new(
            "never-holds-what-did-not-begin",
            "a record that began nothing is held for ever",
            "R26",
            "table::never_takes_what_did_not_begin",
            Policy(|policy, _, _| match policy {
                Takeover::Never => Takeover::Below { attempts: 0, younger_than: MAX_DURATION },
                other => other,
            }),
        ),
        BrokenStore::new(
            "cap-is-off-by-one",
            "a record is taken over once more than its cap of attempts allows",
            "R15",
            "table::cap_of_attempts",
            Policy(|policy, _, _| match policy {
                Takeover::Below { attempts, younger_than } => {
                    Takeover::Below { attempts: attempts.saturating_add(1), younger_than }
                }
                other => other,
            }),
        ),
        BrokenStore::new(
            "age-is-not-judged",
            "the caller is to look at the age after it has taken over",
            "R27",
            "table::too_old_to_take_over",
            Policy(|policy, _, _| match policy {
                Takeover::Below { attempts, .. } => {
                    Takeover::Below { attempts, younger_than: MAX_DURATION }
                }
                other => other,
            }),
        ),
        BrokenStore::new(
            "only-ignores-the-age",
            "a reconciler's claim takes over what is past its window",
            "R27",
            "table::only_judges_the_age_too",
            Policy(|policy, _, _| match policy {
                Takeover::Only { incarnation, attempt, .. } => {
                    Takeover::Only { incarnation, attempt, younger_than: None }
                }
                other => other,
            }),
        ),
        BrokenStore::new(
            "only-ignores-the-incarnation",
            "a reconciler takes over another life than the one it listed",
            "R2, R8",
            "table::only_takes_what_it_names",
            Policy(|policy, record, _| match policy {
                Takeover::Only { attempt, younger_than, .. } => {
                    Takeover::Only { incarnation: record.incarnation, attempt, younger_than }
                }
                other => other,
            }),
        ),
        BrokenStore::new(
            "only-ignores-the-attempt",
            "a reconciler takes over a record that somebody else took over meanwhile",
            "R2",
            "table::only_takes_what_it_names",
            Policy(|policy, record, _| match policy {
                Takeover::Only { incarnation, younger_than, .. } => {
                    Takeover::Only { incarnation, attempt: record.attempt, younger_than }
                }
                other => other,
            }),
        ),
        BrokenStore::new(
            "only-takes-live-records",
            "a reconciler that names the right fence takes it from a live holder",
            "R2",
            "table::live_is_not_taken_by_only",
            TakesLive,
        ),
        BrokenStore::new(
            "another-request-replaces-what-began",
            "a lapsed record gives way to another request although it may have begun",
            "R4, R26",
            "table::another_request_does_not_replace_what_may_have_begun",
            Replaces { always: true },
        ),
        BrokenStore::new(
            "another-request-never-replaces",
            "a key that lapsed before it began anything is wedged for every other request",
            "R26",
            "table::another_request_replaces_what_never_began",
            Replaces { always: false },
        ),
    ]
}

fn is_takeover(found: Option<&Record>, decision: &Decision<Claimed>, claim: &Claim<'_>) -> bool {
    matches!(&decision.outcome, Ok(Claimed::Acquired(held)) if held.fence.attempt > 1)
        && found.is_some_and(|record| record.owner != claim.owner)
}

/// Something else stands after a takeover, or is told about it.
struct Taken(fn(&mut Record, &mut Acquired, &Record, &Claim<'_>));

impl Rules for Taken {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let mut decision = transition::claim(found, claim, now, fresh);
        if is_takeover(found, &decision, claim)
            && let (Change::Put(record), Ok(Claimed::Acquired(held)), Some(old)) =
                (&mut decision.change, &mut decision.outcome, found)
        {
            (self.0)(record, held, old, claim);
        }
        decision
    }
}

/// Another policy than the one that was asked for.
struct Policy(fn(Takeover, &Record, Timestamp) -> Takeover);

impl Rules for Policy {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let mut claim = *claim;
        if let Some(record) = transition::visible(found, now) {
            claim.takeover = (self.0)(claim.takeover, record, now);
        }
        transition::claim(found, &claim, now, fresh)
    }
}

struct TakesLive;

impl Rules for TakesLive {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let mut found = found.cloned();
        if let (
            Takeover::Only { .. },
            Some(Record { state: State::InProgress { locked_until, .. }, .. }),
        ) = (claim.takeover, found.as_mut())
        {
            *locked_until = (*locked_until).min(now);
        }
        transition::claim(found.as_ref(), claim, now, fresh)
    }
}

struct Replaces {
    always: bool,
}

impl Rules for Replaces {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let decision = transition::claim(found, claim, now, fresh);
        let lapsed = found.is_some_and(|record| transition::is_lapsed(record, now));
        match decision.outcome {
            Ok(Claimed::Mismatch { completed: false }) if self.always && lapsed => {
                let mut decision = transition::claim(None, claim, now, fresh);
                if let Ok(Claimed::Acquired(held)) = &mut decision.outcome {
                    held.replaced = true;
                }
                decision
            }
            Ok(Claimed::Acquired(ref held)) if !self.always && held.replaced => {
                let outcome = Ok(Claimed::Mismatch { completed: false });
                Decision { change: Change::None, outcome }
            }
            _ => decision,
        }
    }
}
