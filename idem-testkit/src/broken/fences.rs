//! Stores whose fenced writes look at too little, at too much, or write something else.

use std::time::Duration;

use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, Refusal, StoreError, Verb};
use idem_core::key::Key;
use idem_core::record::{Fence, Incarnation, Record, Recovery, State};
use idem_core::store::{Lease, Renewed};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Applied, Change, Decision};

use super::BrokenStore;
use super::rules::Rules;

pub(super) fn stores() -> Vec<BrokenStore> {
    [parts(), lives(), writes(), releases(), errors()].concat()
}

fn parts() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "fence-without-the-attempt",
            "a fenced write looks at incarnation and owner alone",
            "R8",
            "verbs::complete_when_live",
            Fences(|record, fence| fence.attempt = record.attempt),
        ),
        BrokenStore::new(
            "fence-without-the-owner",
            "a fenced write looks at incarnation and attempt alone",
            "R8",
            "races::losers_change_nothing",
            Fences(|record, fence| fence.owner = record.owner),
        ),
        BrokenStore::new(
            "fence-without-the-incarnation",
            "a fenced write looks at owner and attempt alone: an old holder reaches a new life",
            "R8",
            "verbs::complete_when_in_a_new_life_of_the_same_owner",
            Fences(|record, fence| fence.incarnation = record.incarnation),
        ),
        BrokenStore::new(
            "no-fence-at-all",
            "a write goes to whatever stands under the key",
            "R8",
            "races::complete_against_takeover",
            Fences(|record, fence| *fence = record.fence()),
        ),
    ]
}

fn lives() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "incarnation-from-the-owner",
            "the incarnation is the owner's bytes: a delayed copy of a claim brings back a fence",
            "R8",
            "table::expired_by_the_same_owner_is_a_new_life",
            IncarnationOfOwner,
        ),
        BrokenStore::new(
            "incarnation-always-the-same",
            "every life of a key has the same incarnation",
            "R8",
            "sweep::swept_key_is_new",
            OneIncarnation,
        ),
        BrokenStore::new(
            "new-life-goes-on-counting",
            "after expiry the attempt goes on from the old life's",
            "R8, R11",
            "table::expired_is_inserted_anew",
            NewLife(|record, old| record.attempt = old.attempt + 1),
        ),
        BrokenStore::new(
            "new-life-keeps-the-old-input",
            "an insert over an expired record leaves the columns that it does not name",
            "R11",
            "table::expired_is_inserted_anew",
            NewLife(|record, _| {
                if record.input.is_none() {
                    record.input = Some(Sealed::from_bytes(&b"old"[..]));
                }
            }),
        ),
        BrokenStore::new(
            "new-life-keeps-the-old-print",
            "an insert over an expired record leaves the old fingerprint",
            "R4, R11",
            "table::expired_is_inserted_anew",
            NewLife(|record, old| record.fingerprint = old.fingerprint),
        ),
    ]
}

fn writes() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "lapsed-is-lost",
            "a holder whose lease is over may not complete, although nobody took over",
            "R7",
            "instant::holder_at_the_end",
            LapsedIsLost,
        ),
        BrokenStore::new(
            "completion-is-not-repeatable",
            "the same completion again is refused",
            "R5",
            "races::same_reply_twice",
            Completes(|decision, _, _| {
                if matches!(decision.outcome, Ok(Applied::Already)) {
                    decision.outcome = Err(LOST);
                }
            }),
        ),
        BrokenStore::new(
            "completion-overwrites",
            "a second reply under the same fence takes the first one's place",
            "R8",
            "races::two_replies_under_one_fence",
            CompletionOverwrites,
        ),
        BrokenStore::new(
            "second-reply-is-swallowed",
            "a second, different reply under the same fence is told Ok, and dropped",
            "R5, R8",
            "data::same_reply_other_bytes",
            SecondReplyIsOk,
        ),
        BrokenStore::new(
            "completion-keeps-the-input",
            "the input stays in the database for the whole retention",
            "R20, R24",
            "table::completion_keeps_the_fingerprint",
            Completes(|decision, record, _| {
                if let (Change::Put(completed), Some(record)) = (&mut decision.change, record) {
                    completed.input.clone_from(&record.input);
                }
            }),
        ),
        BrokenStore::new(
            "completion-forgets-the-fingerprint",
            "a completed record is not compared any more",
            "R4",
            "table::completed_with_another_request_is_a_mismatch",
            Completes(|decision, _, _| {
                if let Change::Put(completed) = &mut decision.change {
                    completed.fingerprint = idem_core::fingerprint::Fingerprint::not_compared();
                }
            }),
        ),
        BrokenStore::new(
            "recovery-point-moves-back",
            "a late copy of an earlier checkpoint overwrites a later one",
            "R8",
            "verbs::checkpoint_when_live_and_begun",
            Checkpoints(|number, standing| number <= standing),
        ),
        BrokenStore::new(
            "recovery-point-skips",
            "a checkpoint whose predecessor was never written is taken",
            "R8",
            "verbs::checkpoint_when_live",
            Checkpoints(|number, standing| number > standing + 1),
        ),
        BrokenStore::new(
            "recovery-point-rewritten",
            "the same number with other bytes is taken",
            "R8",
            "verbs::checkpoint_when_live_and_begun",
            Checkpoints(|number, standing| number == standing),
        ),
        BrokenStore::new(
            "checkpoint-leaves-the-lease",
            "the recovery point and the lease are not one write",
            "R8",
            "verbs::checkpoint_when_lapsed_and_begun",
            CheckpointLeavesTheLease,
        ),
        BrokenStore::new(
            "heartbeat-shortens",
            "a late or shorter heartbeat cuts the lease",
            "R8",
            "boundary::heartbeat_shortens_nothing",
            Renews(|decision, _, lease, now| {
                if let (Change::Put(record), false) = (&mut decision.change, lease.is_zero())
                    && let State::InProgress { locked_until, .. } = &mut record.state
                {
                    *locked_until = now.after(lease);
                    let remaining = locked_until.since(now);
                    decision.outcome = Ok(Renewed::Held(Lease { remaining }));
                }
            }),
        ),
        BrokenStore::new(
            "giving-up-is-not-final",
            "a heartbeat that was under way brings back a lease that was given up",
            "R8",
            "boundary::giving_up_is_for_good",
            Revives,
        ),
        BrokenStore::new(
            "giving-up-waits-for-the-lease",
            "giving up is noted, and the lease runs on to its end",
            "R8, R15",
            "boundary::giving_up_is_for_good",
            Renews(|decision, found, lease, _| {
                if let (Change::Put(record), true, Some(before)) =
                    (&mut decision.change, lease.is_zero(), found)
                    && let (
                        State::InProgress { locked_until, .. },
                        State::InProgress { locked_until: end, .. },
                    ) = (&mut record.state, &before.state)
                {
                    *locked_until = *end;
                }
            }),
        ),
        BrokenStore::new(
            "heartbeat-after-completion-is-lost",
            "a heartbeat that finds its own reply is told that the fence is lost",
            "R13",
            "verbs::renew_when_completed",
            Renews(|decision, _, _, _| {
                if matches!(decision.outcome, Ok(Renewed::Completed)) {
                    decision.outcome = Err(LOST);
                }
            }),
        ),
    ]
}

fn releases() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "release-after-takeover",
            "a taker may free the key, although the first attempt may have done something",
            "R14",
            "verbs::release_when_taken_over_by_oneself",
            Releases(|record| record.attempt > 1),
        ),
        BrokenStore::new(
            "release-after-begin",
            "a key is freed after a recovery point was written",
            "R14",
            "verbs::release_when_live_and_begun",
            Releases(|record| record.recovery().is_some()),
        ),
        BrokenStore::new(
            "release-deletes-replies",
            "a late release deletes the reply that stands under its fence",
            "R8, R14",
            "verbs::release_when_completed",
            Releases(|record| matches!(record.state, State::Completed { .. })),
        ),
        BrokenStore::new(
            "release-is-not-repeatable",
            "the same release again is refused",
            "R5",
            "verbs::release_when_released",
            ReleaseOnce,
        ),
    ]
}

fn errors() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "every-refusal-is-fence-lost",
            "a holder whose release is refused is told that it lost its fence",
            "R9",
            "verbs::release_when_live_and_begun",
            Errors(|verb, refusal, _| Refusal { kind: ErrorKind::FenceLost, ..refusal }.at(verb)),
        ),
        BrokenStore::new(
            "fence-lost-looks-transient",
            "a lost fence is told as NotApplied, so that the holder tries again and goes on",
            "R9",
            "verbs::complete_when_taken_over",
            Errors(|verb, refusal, _| match refusal.kind {
                ErrorKind::FenceLost => Refusal { kind: ErrorKind::NotApplied, ..refusal }.at(verb),
                _ => refusal.at(verb),
            }),
        ),
        BrokenStore::new(
            "errors-name-the-key",
            "an error's text quotes the key",
            "R24",
            "secrets::refusals_tell_nothing",
            Errors(|verb, refusal, key| {
                let key = String::from_utf8_lossy(key.as_bytes()).into_owned();
                StoreError::new(refusal.kind, verb, format!("{} (key {key})", refusal.detail))
            }),
        ),
    ]
}

const LOST: Refusal = Refusal { kind: ErrorKind::FenceLost, detail: "the fence is lost" };

/// Which part of the fence is not looked at: it is taken from the record.
struct Fences(fn(&Record, &mut Fence));

impl Fences {
    fn bent(&self, found: Option<&Record>, fence: &Fence) -> Fence {
        let mut bent = fence.clone();
        if let Some(record) = found {
            (self.0)(record, &mut bent);
        }
        bent
    }
}

impl Rules for Fences {
    fn renew(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        lease: Duration,
        now: Timestamp,
    ) -> Decision<Renewed> {
        transition::renew(found, &self.bent(found, fence), lease, now)
    }

    fn checkpoint(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
        now: Timestamp,
    ) -> Decision<(Applied, Lease)> {
        transition::checkpoint(found, &self.bent(found, fence), recovery, lease, now)
    }

    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        transition::complete(found, &self.bent(found, fence), reply, now)
    }

    fn release(&self, found: Option<&Record>, fence: &Fence, now: Timestamp) -> Decision<()> {
        transition::release(found, &self.bent(found, fence), now)
    }
}

struct IncarnationOfOwner;

impl Rules for IncarnationOfOwner {
    fn incarnation(&self, claim: &idem_core::claim::Claim<'_>) -> Incarnation {
        Incarnation::from_bytes(*claim.owner.as_bytes())
    }
}

struct OneIncarnation;

impl Rules for OneIncarnation {
    fn incarnation(&self, _: &idem_core::claim::Claim<'_>) -> Incarnation {
        Incarnation::from_bytes([1; 16])
    }
}

/// Something of an expired record gets into the life that takes its place.
struct NewLife(fn(&mut Record, &Record));

impl Rules for NewLife {
    fn stored(&self, mut record: Record, old: Option<&Record>) -> Record {
        if let Some(old) = old
            && matches!(old.state, State::Completed { .. })
            && old.incarnation != record.incarnation
        {
            (self.0)(&mut record, old);
        }
        record
    }
}

struct LapsedIsLost;

impl Rules for LapsedIsLost {
    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        if found.is_some_and(|record| transition::is_lapsed(record, now)) {
            return Decision { change: Change::None, outcome: Err(LOST) };
        }
        transition::complete(found, fence, reply, now)
    }
}

struct Completes(fn(&mut Decision<Applied>, Option<&Record>, &Sealed));

impl Rules for Completes {
    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        let mut decision = transition::complete(found, fence, reply, now);
        (self.0)(&mut decision, found, reply);
        decision
    }
}

struct CompletionOverwrites;

impl Rules for CompletionOverwrites {
    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        match found {
            Some(record) if record.is_under(fence) => {
                let mut open = record.clone();
                if matches!(open.state, State::Completed { .. }) {
                    open.state =
                        State::InProgress { locked_until: now, given_up: false, recovery: None };
                }
                transition::complete(Some(&open), fence, reply, now)
            }
            _ => transition::complete(found, fence, reply, now),
        }
    }
}

struct SecondReplyIsOk;

impl Rules for SecondReplyIsOk {
    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        let completed = |record: &Record| {
            record.is_under(fence) && matches!(record.state, State::Completed { .. })
        };
        if transition::visible(found, now).is_some_and(completed) {
            return Decision { change: Change::None, outcome: Ok(Applied::Already) };
        }
        transition::complete(found, fence, reply, now)
    }
}

/// Which recovery points are taken beside those that follow on the standing one.
struct Checkpoints(fn(number: u32, standing: u32) -> bool);

impl Rules for Checkpoints {
    fn checkpoint(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
        now: Timestamp,
    ) -> Decision<(Applied, Lease)> {
        let mut found = found.cloned();
        if let Some(State::InProgress { recovery: standing, .. }) =
            found.as_mut().map(|record| &mut record.state)
        {
            let number = standing.as_ref().map_or(0, |standing| standing.number);
            let repeat = standing.as_ref() == Some(recovery);
            if !repeat && (self.0)(recovery.number, number) {
                let payload = recovery.payload.clone();
                let number = recovery.number.wrapping_sub(1);
                *standing = Some(Recovery { number, payload });
            }
        }
        transition::checkpoint(found.as_ref(), fence, recovery, lease, now)
    }
}

struct CheckpointLeavesTheLease;

impl Rules for CheckpointLeavesTheLease {
    fn checkpoint(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
        now: Timestamp,
    ) -> Decision<(Applied, Lease)> {
        let mut decision = transition::checkpoint(found, fence, recovery, lease, now);
        if let (Change::Put(record), Some(before)) = (&mut decision.change, found)
            && let (
                State::InProgress { locked_until, .. },
                State::InProgress { locked_until: end, .. },
            ) = (&mut record.state, &before.state)
        {
            *locked_until = *end;
        }
        decision
    }
}

struct Renews(fn(&mut Decision<Renewed>, Option<&Record>, Duration, Timestamp));

impl Rules for Renews {
    fn renew(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        lease: Duration,
        now: Timestamp,
    ) -> Decision<Renewed> {
        let mut decision = transition::renew(found, fence, lease, now);
        (self.0)(&mut decision, found, lease, now);
        decision
    }
}

struct Revives;

impl Rules for Revives {
    fn renew(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        lease: Duration,
        now: Timestamp,
    ) -> Decision<Renewed> {
        let mut found = found.cloned();
        if let Some(State::InProgress { given_up, .. }) =
            found.as_mut().map(|record| &mut record.state)
        {
            *given_up = false;
        }
        transition::renew(found.as_ref(), fence, lease, now)
    }
}

/// What is released beside what may be.
struct Releases(fn(&Record) -> bool);

impl Rules for Releases {
    fn release(&self, found: Option<&Record>, fence: &Fence, now: Timestamp) -> Decision<()> {
        let own = transition::visible(found, now).filter(|record| record.is_under(fence));
        if own.is_some_and(self.0) {
            return Decision { change: Change::Delete, outcome: Ok(()) };
        }
        transition::release(found, fence, now)
    }
}

struct ReleaseOnce;

impl Rules for ReleaseOnce {
    fn release(&self, found: Option<&Record>, fence: &Fence, now: Timestamp) -> Decision<()> {
        match transition::visible(found, now) {
            None => Decision { change: Change::None, outcome: Err(LOST) },
            Some(_) => transition::release(found, fence, now),
        }
    }
}

/// What a refusal is told as.
struct Errors(fn(Verb, Refusal, &Key) -> StoreError);

impl Rules for Errors {
    fn error(&self, verb: Verb, refusal: Refusal, key: &Key) -> StoreError {
        (self.0)(verb, refusal, key)
    }
}
