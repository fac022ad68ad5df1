//! The sequential specification: the pure rules over a map, on a clock of its own.
//!
//! A store that answers like the model, move by move, keeps the contract as far as one caller at
//! a time can see.

mod compare;
mod lockstep;
mod moves;

use std::collections::BTreeMap;
use std::time::Duration;

use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::Refusal;
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, Record, Recovery};
use idem_core::store::{Lease, Renewed};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Change, Decision};

pub(crate) use lockstep::Lockstep;
pub(crate) use moves::{Bend, Kept, Move, Policy, Span, Which, sequences};

/// Records and a clock that moves when it is told to.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) now: Timestamp,
    records: BTreeMap<(Scope, Key), Record>,
    lives: u128,
}

impl Model {
    pub(crate) fn at(now: Timestamp) -> Self {
        Self { now, records: BTreeMap::new(), lives: 0 }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    pub(crate) fn claim(&mut self, claim: &Claim<'_>) -> Result<Claimed, Refusal> {
        self.lives += 1;
        let fresh = Incarnation::from_bytes(self.lives.to_be_bytes());
        self.decide(claim.scope, claim.key, |found, now| {
            transition::claim(found, claim, now, fresh)
        })
    }

    pub(crate) fn renew(&mut self, fence: &Fence, lease: Duration) -> Result<Renewed, Refusal> {
        self.under(fence, |found, now| transition::renew(found, fence, lease, now))
    }

    pub(crate) fn checkpoint(
        &mut self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, Refusal> {
        self.under(fence, |found, now| transition::checkpoint(found, fence, recovery, lease, now))
            .map(|(_, lease)| lease)
    }

    pub(crate) fn complete(&mut self, fence: &Fence, reply: &Sealed) -> Result<(), Refusal> {
        self.under(fence, |found, now| transition::complete(found, fence, reply, now)).map(drop)
    }

    pub(crate) fn release(&mut self, fence: &Fence) -> Result<(), Refusal> {
        self.under(fence, |found, now| transition::release(found, fence, now))
    }

    pub(crate) fn remove(&mut self, fence: &Fence) -> Result<(), Refusal> {
        self.under(fence, |found, _| transition::remove(found, fence))
    }

    /// What a reader sees.
    pub(crate) fn get(&self, scope: &Scope, key: &Key) -> Option<&Record> {
        let found = self.records.get(&(scope.clone(), key.clone()));
        transition::visible(found, self.now)
    }

    /// Everything that a reader can see, by scope and key.
    pub(crate) fn visible(&self) -> impl Iterator<Item = &Record> {
        self.records.values().filter_map(|record| transition::visible(Some(record), self.now))
    }

    pub(crate) fn lapsed(&self) -> Vec<&Record> {
        let is_lapsed = |record: &&Record| transition::is_lapsed(record, self.now);
        self.records.values().filter(is_lapsed).collect()
    }

    /// Deletes all that a sweep may, and says how many those were.
    pub(crate) fn sweep(&mut self) -> usize {
        let before = self.records.len();
        let now = self.now;
        self.records.retain(|_, record| !transition::is_sweepable(record, now));
        before - self.records.len()
    }

    /// Forgets a scope; how many went that a reader could see, and how many are in progress.
    pub(crate) fn forget(&mut self, scope: &Scope) -> (u64, u64) {
        let (mut visible, mut in_progress) = (0, 0);
        let now = self.now;
        self.records.retain(|(of, _), record| {
            let forgotten = of == scope && transition::is_forgettable(record);
            if forgotten && transition::visible(Some(record), now).is_some() {
                visible += 1;
            }
            if of == scope && !forgotten {
                in_progress += 1;
            }
            !forgotten
        });
        (visible, in_progress)
    }

    fn under<T>(
        &mut self,
        fence: &Fence,
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T>,
    ) -> Result<T, Refusal> {
        self.decide(&fence.scope, &fence.key, rule)
    }

    fn decide<T>(
        &mut self,
        scope: &Scope,
        key: &Key,
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T>,
    ) -> Result<T, Refusal> {
        let identity = (scope.clone(), key.clone());
        let decision = rule(self.records.get(&identity), self.now);
        match decision.change {
            Change::None => {}
            Change::Put(record) => drop(self.records.insert(identity, *record)),
            Change::Delete => drop(self.records.remove(&identity)),
        }
        decision.outcome
    }
}
