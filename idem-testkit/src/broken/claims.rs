//! Stores that get a row of the claim table wrong where nobody is taken over.

use idem_core::claim::{Claim, Claimed, Replay, Takeover};
use idem_core::record::{Incarnation, Record, State};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Change, Decision};

use super::BrokenStore;
use super::rules::Rules;

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "only-inserts",
            "a reconciler's claim inserts where its record is gone",
            "R2",
            "table::only_never_inserts",
            Claims(|found, claim, now, fresh| {
                let mut claim = *claim;
                if transition::visible(found, now).is_none() {
                    claim.takeover = Takeover::Never;
                }
                transition::claim(found, &claim, now, fresh)
            }),
        ),
        BrokenStore::new(
            "own-claim-not-recognised",
            "a repeated claim is told that somebody else is at work",
            "R5",
            "table::own_claim_again_is_acquired",
            OwnClaim(|mut decision, record, now| {
                if let State::InProgress { locked_until, .. } = record.state {
                    decision.change = Change::None;
                    let remaining = locked_until.since(now);
                    decision.outcome = Ok(Claimed::InProgress { remaining });
                }
                decision
            }),
        ),
        BrokenStore::new(
            "own-claim-leaves-the-lease",
            "a repeated claim is told Acquired, with the lease that was set the first time",
            "R5, R6",
            "table::own_claim_again_has_a_live_lease",
            OwnClaim(|mut decision, record, now| {
                decision.change = Change::None;
                if let (Ok(Claimed::Acquired(held)), State::InProgress { locked_until, .. }) =
                    (&mut decision.outcome, &record.state)
                {
                    held.lease = locked_until.since(now);
                }
                decision
            }),
        ),
        BrokenStore::new(
            "own-claim-counts-as-an-attempt",
            "a repeated claim raises the attempt, so that its own first fence is lost",
            "R5",
            "races::same_owner_twice",
            OwnClaim(|mut decision, _, _| {
                if let (Change::Put(record), Ok(Claimed::Acquired(held))) =
                    (&mut decision.change, &mut decision.outcome)
                {
                    record.attempt += 1;
                    held.fence.attempt += 1;
                }
                decision
            }),
        ),
        BrokenStore::new(
            "own-claim-compared-like-any-other",
            "a repeated claim is looked for only after policy, scheme and request were looked at",
            "R5",
            "table::own_row_comes_before_every_other",
            Claims(|found, claim, now, fresh| {
                let decision = transition::claim(found, claim, now, fresh);
                let mut stranger = *claim;
                stranger.owner = idem_core::record::Owner::from_bytes([0xab; 16]);
                let as_stranger = transition::claim(found, &stranger, now, fresh);
                let refused = matches!(
                    as_stranger.outcome,
                    Err(_) | Ok(Claimed::Mismatch { .. } | Claimed::Lapsed(_))
                );
                if refused { as_stranger } else { decision }
            }),
        ),
        BrokenStore::new(
            "expired-reply-is-replayed-until-swept",
            "expiry is left to the sweeper: what it has not got to is still replayed",
            "R11",
            "sweep::expiry_needs_no_sweep",
            ReplaysUntilSwept,
        ),
        BrokenStore::new(
            "only-takes-expired-replies",
            "a claim with Only on an expired reply starts a new life",
            "R2, R11",
            "table::only_on_expired_is_gone",
            Claims(|found, claim, now, fresh| {
                let mut claim = *claim;
                if found.is_some() && transition::visible(found, now).is_none() {
                    claim.takeover = Takeover::Never;
                }
                transition::claim(found, &claim, now, fresh)
            }),
        ),
        BrokenStore::new(
            "mismatch-says-in-flight",
            "a mismatch never says that the first request has finished",
            "R4",
            "table::completed_with_another_request_is_a_mismatch",
            Claims(|found, claim, now, fresh| {
                let mut decision = transition::claim(found, claim, now, fresh);
                if let Ok(Claimed::Mismatch { completed }) = &mut decision.outcome {
                    *completed = false;
                }
                decision
            }),
        ),
        BrokenStore::new(
            "replay-under-the-asker's-fence",
            "a replay names the fence of whoever asks, so that it looks like its own work",
            "R8",
            "table::completed_is_replayed",
            Claims(|found, claim, now, fresh| {
                let mut decision = transition::claim(found, claim, now, fresh);
                if let Ok(Claimed::Completed(replay)) = &mut decision.outcome {
                    let mut fence = replay.fence.clone();
                    fence.owner = claim.owner;
                    *replay = Replay::new(replay.reply.clone(), replay.expires_in, fence);
                }
                decision
            }),
        ),
        BrokenStore::new(
            "own-claim-after-completion-runs-again",
            "a repeated claim of a completed record is told Acquired",
            "R2, R5",
            "table::own_claim_after_completion_is_a_replay",
            Claims(|found, claim, now, fresh| {
                let decision = transition::claim(found, claim, now, fresh);
                match (&decision.outcome, found) {
                    (Ok(Claimed::Completed(_)), Some(record)) if record.owner == claim.owner => {
                        transition::claim(None, claim, now, fresh)
                    }
                    _ => decision,
                }
            }),
        ),
        BrokenStore::new(
            "only-on-a-reply-is-gone",
            "a reconciler that comes after the completion is told that the record is gone",
            "R2",
            "table::completed_is_replayed_to_only",
            Claims(|found, claim, now, fresh| {
                let mut decision = transition::claim(found, claim, now, fresh);
                if matches!(claim.takeover, Takeover::Only { .. })
                    && matches!(decision.outcome, Ok(Claimed::Completed(_)))
                {
                    decision.outcome = Ok(Claimed::Gone);
                }
                decision
            }),
        ),
        BrokenStore::new(
            "cap-counts-for-inserts",
            "a policy that allows no takeover allows no insert either",
            "R1",
            "table::every_policy_inserts_but_only",
            Claims(|found, claim, now, fresh| match claim.takeover {
                Takeover::Below { attempts: 0, .. }
                    if transition::visible(found, now).is_none() =>
                {
                    Decision { change: Change::None, outcome: Ok(Claimed::Gone) }
                }
                _ => transition::claim(found, claim, now, fresh),
            }),
        ),
        BrokenStore::new(
            "insert-forgets-the-mark",
            "that its operation marks begun is not stored",
            "R26",
            "table::absent_is_inserted",
            Inserts(|record, _| record.marks_begun = false),
        ),
        BrokenStore::new(
            "insert-forgets-the-input",
            "the input is stored only when a recovery point is written",
            "R15",
            "data::no_input_is_not_an_empty_one",
            Inserts(|record, _| record.input = None),
        ),
        BrokenStore::new(
            "insert-writes-the-last-print",
            "an insert stores the print of the scheme that came last",
            "R23",
            "table::insert_writes_the_primary_scheme",
            Inserts(|record, claim| {
                if let Some(last) = claim.fingerprints.iter().last() {
                    record.fingerprint = last;
                }
            }),
        ),
        BrokenStore::new(
            "losers-prolong-the-lease",
            "whoever asks while it runs pushes the end of the lease away",
            "R2",
            "table::live_is_in_progress",
            Claims(|found, claim, now, fresh| {
                let mut decision = transition::claim(found, claim, now, fresh);
                if let (Ok(Claimed::InProgress { .. }), Some(record)) = (&decision.outcome, found) {
                    let mut record = record.clone();
                    if let State::InProgress { locked_until, .. } = &mut record.state {
                        *locked_until = locked_until.after(claim.lease);
                    }
                    decision.change = Change::Put(Box::new(record));
                }
                decision
            }),
        ),
    ]
}

pub(super) type Decides =
    fn(Option<&Record>, &Claim<'_>, Timestamp, Incarnation) -> Decision<Claimed>;

/// Another claim table.
pub(super) struct Claims(pub(super) Decides);

impl Rules for Claims {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        (self.0)(found, claim, now, fresh)
    }
}

/// Something else is inserted.
struct Inserts(fn(&mut Record, &Claim<'_>));

impl Rules for Inserts {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let mut decision = transition::claim(found, claim, now, fresh);
        if let Change::Put(record) = &mut decision.change
            && record.incarnation == fresh
        {
            (self.0)(record, claim);
        }
        decision
    }
}

/// Something else is made of a repeat of the own claim.
struct OwnClaim(fn(Decision<Claimed>, &Record, Timestamp) -> Decision<Claimed>);

impl Rules for OwnClaim {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let decision = transition::claim(found, claim, now, fresh);
        match found {
            Some(record)
                if record.owner == claim.owner
                    && matches!(record.state, State::InProgress { .. }) =>
            {
                (self.0)(decision, record, now)
            }
            _ => decision,
        }
    }
}

struct ReplaysUntilSwept;

impl Rules for ReplaysUntilSwept {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let mut kept = found.cloned();
        if let Some(State::Completed { expires_at, .. }) =
            kept.as_mut().map(|record| &mut record.state)
        {
            *expires_at = None;
        }
        transition::claim(kept.as_ref(), claim, now, fresh)
    }
}
