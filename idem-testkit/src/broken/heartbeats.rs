//! Stores whose heartbeats and recovery points move the wrong way.

use std::time::Duration;

use idem_core::record::{Fence, Record, Recovery, State};
use idem_core::store::{Lease, Renewed};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Applied, Change, Decision};

use super::BrokenStore;
use super::fences::LOST;
use super::rules::Rules;

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
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
            "R8, R13",
            "verbs::renew_when_completed",
            Renews(|decision, _, _, _| {
                if matches!(decision.outcome, Ok(Renewed::Completed)) {
                    decision.outcome = Err(LOST);
                }
            }),
        ),
    ]
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
