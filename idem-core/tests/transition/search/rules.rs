//! The rules that are searched: those of the crate, or those with one of them switched off.
//!
//! A rule is switched off by bending what the real function is given, or what came of it.

use idem_core::claim::{Claim, Claimed, Takeover};
use idem_core::error::ErrorKind;
use idem_core::record::{Incarnation, Record, State};
use idem_core::transition::{self, Change, Decision, is_lapsed, visible};

use super::cell::{
    Cell, CellState, LEASE, NAMES, Token, at, cell, fence, record, recovery, reply, ticks,
};
use crate::world::Ask;

/// A rule left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mutant {
    IncarnationIgnored,
    AttemptIgnored,
    AttemptNotCounted,
    ReleasedAtAnyAttempt,
    ReleasedAfterARecoveryPoint,
    HeartbeatsShorten,
    HeartbeatsRevive,
    InProgressSwept,
    OwnClaimKeepsItsLease,
    RecoveryPointsNotNumbered,
    OnlyIgnoresIncarnation,
    OnlyInserts,
    BegunIsReplaced,
    RequestsNotCompared,
    NeverIgnored,
    MarkOutlivesTakeover,
    /// From here on: left out by the caller, not by the store.
    ActsBeforeItBegan,
    ActsAtAnyAge,
    ReconcilesWhatNeverBegan,
}

/// A write under a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Write {
    Renew { ticks: u8 },
    Point(u8),
    Complete,
    Release,
}

/// Whether a write was accepted, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Ok,
    FenceLost,
    Refused,
}

pub(super) struct Rules(pub(super) Option<Mutant>);

impl Rules {
    pub(super) fn lack(&self, mutant: Mutant) -> bool {
        self.0 == Some(mutant)
    }

    /// What a claim is told, and the record after it.
    pub(super) fn claim(
        &self,
        found: Option<&Cell>,
        ask: &Ask,
        now: u8,
        fresh: u8,
    ) -> (Claimed, Option<Cell>) {
        let mut ask = ask.clone();
        let mut stands = found.map(record);
        self.bend_claim(&mut ask, stands.as_mut(), now);
        let (scope, key, operation) = &*NAMES;
        let claim = Claim::new(
            scope,
            key,
            ask.owner,
            operation,
            &ask.fingerprints,
            ask.lease,
            ask.retention,
            ask.takeover,
        )
        .marking_begun(ask.marks_begun);
        let fresh = Incarnation::from_bytes([fresh; 16]);
        let decision = transition::claim(stands.as_ref(), &claim, at(now), fresh);
        let (claimed, mut after) = settled(decision, found);
        let mut claimed = claimed.expect("the search knows every scheme");
        self.bend_takeover(&mut claimed, after.as_mut(), found, now);
        (claimed, after)
    }

    fn bend_claim(&self, ask: &mut Ask, stands: Option<&mut Record>, now: u8) {
        if self.lack(Mutant::OnlyInserts) && visible(stands.as_deref(), at(now)).is_none() {
            ask.takeover = Takeover::Never;
        }
        let Some(stands) = stands else { return };
        match &mut ask.takeover {
            Takeover::Only { incarnation, .. } if self.lack(Mutant::OnlyIgnoresIncarnation) => {
                *incarnation = stands.incarnation;
            }
            Takeover::Never if self.lack(Mutant::NeverIgnored) => {
                ask.takeover = Takeover::Below { attempts: 9, younger_than: ticks(99) };
            }
            _ => {}
        }
        if self.lack(Mutant::RequestsNotCompared) {
            ask.fingerprints = stands.fingerprint.into();
        }
        if self.lack(Mutant::BegunIsReplaced)
            && stands.fingerprint != ask.fingerprints.primary()
            && let State::InProgress { recovery, .. } = &mut stands.state
        {
            *recovery = None;
        }
    }

    fn bend_takeover(
        &self,
        claimed: &mut Claimed,
        after: Option<&mut Cell>,
        found: Option<&Cell>,
        now: u8,
    ) {
        let (Claimed::Acquired(acquired), Some(after), Some(found)) = (claimed, after, found)
        else {
            return;
        };
        if after.under == found.under && self.lack(Mutant::OwnClaimKeepsItsLease) {
            after.state = found.state;
            let CellState::Held { until, .. } = found.state else { return };
            acquired.lease = ticks(until.saturating_sub(now));
        }
        if after.under.life != found.under.life || after.under.attempt == found.under.attempt {
            return;
        }
        if self.lack(Mutant::AttemptNotCounted) {
            after.under.attempt = found.under.attempt;
            acquired.fence = fence(after.under);
        }
        if self.lack(Mutant::MarkOutlivesTakeover) {
            after.marks = found.marks;
        }
    }

    /// What a write is told, and the record after it.
    pub(super) fn write(
        &self,
        found: Option<&Cell>,
        mut under: Token,
        write: Write,
        now: u8,
    ) -> (Written, Option<Cell>) {
        let mut stands = found.map(record);
        let token = under;
        if let (Some(found), Some(stands)) = (found, &mut stands) {
            self.bend_fence(&mut under, found);
            self.bend_record(stands, write);
            if self.lack(Mutant::ReleasedAtAnyAttempt)
                && write == Write::Release
                && under == found.under
            {
                (stands.attempt, under.attempt) = (1, 1);
            }
        }
        let (stands, fence, now_at) = (stands.as_ref(), fence(under), at(now));
        match write {
            Write::Renew { ticks: lease } => {
                let renewed = transition::renew(stands, &fence, ticks(lease), now_at);
                let changes = renewed.change != Change::None;
                let (told, mut after) = written(renewed, found);
                if let Some(Cell { state: CellState::Held { until, .. }, .. }) = &mut after
                    && changes
                    && self.lack(Mutant::HeartbeatsShorten)
                {
                    *until = now + lease;
                }
                (told, after)
            }
            Write::Point(number) => {
                let point = recovery(number);
                let lease = ticks(LEASE);
                written(transition::checkpoint(stands, &fence, &point, lease, now_at), found)
            }
            Write::Complete => {
                written(transition::complete(stands, &fence, &reply(token), now_at), found)
            }
            Write::Release => written(transition::release(stands, &fence, now_at), found),
        }
    }

    fn bend_fence(&self, under: &mut Token, found: &Cell) {
        if self.lack(Mutant::IncarnationIgnored) {
            under.life = found.under.life;
        }
        if self.lack(Mutant::AttemptIgnored) && under.life == found.under.life {
            *under = found.under;
        }
    }

    fn bend_record(&self, stands: &mut Record, write: Write) {
        let State::InProgress { given_up, recovery: point, .. } = &mut stands.state else { return };
        match write {
            Write::Release if self.lack(Mutant::ReleasedAfterARecoveryPoint) => *point = None,
            Write::Renew { .. } if self.lack(Mutant::HeartbeatsRevive) => *given_up = false,
            Write::Point(number) if self.lack(Mutant::RecoveryPointsNotNumbered) => {
                *point = (number > 1).then(|| recovery(number - 1));
            }
            _ => {}
        }
    }

    pub(super) fn sweeps(&self, cell: &Cell, now: u8) -> bool {
        let (record, now) = (record(cell), at(now));
        transition::is_sweepable(&record, now)
            || self.lack(Mutant::InProgressSwept) && is_lapsed(&record, now)
    }
}

fn written<T>(decision: Decision<T>, found: Option<&Cell>) -> (Written, Option<Cell>) {
    let (told, after) = settled(decision, found);
    (told.map_or_else(|told| told, |_| Written::Ok), after)
}

fn settled<T>(decision: Decision<T>, found: Option<&Cell>) -> (Result<T, Written>, Option<Cell>) {
    let after = match decision.change {
        Change::None => found.copied(),
        Change::Put(record) => Some(cell(&record)),
        Change::Delete => None,
    };
    let told = decision.outcome.map_err(|refusal| match refusal.kind {
        ErrorKind::FenceLost => Written::FenceLost,
        _ => Written::Refused,
    });
    (told, after)
}
