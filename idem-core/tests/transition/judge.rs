//! What must hold after any request, whenever it arrives: it compares the record before and after,
//! and remembers what each life of the key has said.

use std::collections::HashMap;

use idem_core::claim::Claimed;
use idem_core::codec::Sealed;
use idem_core::error::ErrorKind;
use idem_core::record::{Fence, Incarnation, Owner, Record, Recovery, State};
use idem_core::time::Timestamp;
use idem_core::transition::{is_lapsed, visible};

use crate::world::Ask;

/// The longest memory of all that was ever true of a life of the key.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    holders: HashMap<(Incarnation, u32), Owner>,
    replies: HashMap<Incarnation, Sealed>,
    points: HashMap<Incarnation, Recovery>,
    births: HashMap<Incarnation, Record>,
}

/// The record before and after one request, and when it was served.
pub(crate) struct Seen<'a> {
    pub(crate) before: Option<&'a Record>,
    pub(crate) after: Option<&'a Record>,
    pub(crate) now: Timestamp,
}

impl Judge {
    pub(crate) fn after_claim(
        &mut self,
        ask: &Ask,
        answer: &Result<Claimed, ErrorKind>,
        seen: &Seen<'_>,
    ) {
        let Ok(Claimed::Acquired(acquired)) = answer else {
            assert_eq!(seen.before, seen.after, "losers change nothing (R2)");
            if let Ok(Claimed::Completed(replay)) = answer {
                let stands = self.replies.get(&replay.fence.incarnation);
                assert_eq!(stands, Some(&replay.reply), "the first reply is replayed");
            }
            return self.after_any(seen);
        };
        let fence = &acquired.fence;
        let life = (fence.incarnation, fence.attempt);
        let holder = *self.holders.entry(life).or_insert(fence.owner);
        assert_eq!(holder, fence.owner, "one holder in each attempt of each life (R2)");
        assert_eq!(fence.owner, ask.owner);
        assert!(!acquired.lease.is_zero(), "a lease that is returned is never over (R6)");
        let after = seen.after.expect("a record is held");
        assert!(after.fence() == *fence && !is_lapsed(after, seen.now));
        if let Some(live) = visible(seen.before, seen.now).filter(|r| is_live(r, seen.now)) {
            assert_eq!(live.owner, ask.owner, "nobody takes what is held");
        }
        self.after_any(seen);
    }

    pub(crate) fn after_write(&mut self, fence: &Fence, seen: &Seen<'_>) {
        if !visible(seen.before, seen.now).is_some_and(|record| record.fence() == *fence) {
            assert_eq!(seen.before, seen.after, "a stale fence changes nothing (R8)");
        }
        self.after_any(seen);
    }

    /// A renewal or a recovery point: neither shortens a lease, nor revives one given up (R8).
    pub(crate) fn after_prolonging(&mut self, fence: &Fence, seen: &Seen<'_>) {
        self.after_write(fence, seen);
        let (Some((before, given_up)), Some((after, _))) = (lease(seen.before), lease(seen.after))
        else {
            return;
        };
        assert!(after >= before, "heartbeats never shorten a lease");
        assert!(!given_up || after == before, "nor revive one that was given up");
    }

    /// Work in progress goes only by a release, or by a sweep of what never began (R10, R14).
    pub(crate) fn after_any(&mut self, seen: &Seen<'_>) {
        let Some(after) = seen.after else {
            if let Some(gone) = seen.before {
                assert!(gone.recovery().is_none(), "what began is never deleted");
            }
            return;
        };
        let life = after.incarnation;
        let birth = self.births.entry(life).or_insert_with(|| after.clone());
        assert_eq!(
            (birth.created_at, &birth.operation, birth.fingerprint, birth.retention),
            (after.created_at, &after.operation, after.fingerprint, after.retention),
            "what was asked stays as the first claim of this life said it"
        );
        match &after.state {
            State::Completed { reply, .. } => {
                let first = self.replies.entry(life).or_insert_with(|| reply.clone());
                assert_eq!(first, reply, "a reply never changes");
            }
            State::InProgress { recovery, .. } => {
                assert!(!self.replies.contains_key(&life), "what is completed stays so");
                self.after_recovery(life, recovery.as_ref());
            }
        }
        if let Some(before) = seen.before.filter(|before| before.incarnation == life) {
            assert!(after.attempt >= before.attempt, "attempts count up");
        }
    }

    fn after_recovery(&mut self, life: Incarnation, recovery: Option<&Recovery>) {
        let Some(highest) = self.points.get(&life) else {
            if let Some(recovery) = recovery {
                assert_eq!(recovery.number, 1, "the first recovery point is number 1");
                self.points.insert(life, recovery.clone());
            }
            return;
        };
        let recovery = recovery.expect("a recovery point never goes away");
        assert!(recovery.number >= highest.number, "a recovery point never moves back");
        if recovery.number == highest.number {
            assert_eq!(recovery, highest, "number n again has the same bytes");
        }
        self.points.insert(life, recovery.clone());
    }
}

fn is_live(record: &Record, now: Timestamp) -> bool {
    matches!(record.state, State::InProgress { locked_until, .. } if locked_until > now)
}

fn lease(record: Option<&Record>) -> Option<(Timestamp, bool)> {
    match record?.state {
        State::InProgress { locked_until, given_up, .. } => Some((locked_until, given_up)),
        State::Completed { .. } => None,
    }
}
