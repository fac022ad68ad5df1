//! Stores whose fenced writes look at too little, and stores that release or refuse wrongly.

use std::time::Duration;

use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, Refusal, StoreError, Verb};
use idem_core::key::Key;
use idem_core::record::{Fence, Record, Recovery, State};
use idem_core::store::{Lease, Renewed};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Applied, Change, Decision};

use super::BrokenStore;
use super::rules::Rules;

pub(super) fn stores() -> Vec<BrokenStore> {
    [parts(), releases(), errors()].concat()
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

pub(super) const LOST: Refusal =
    Refusal { kind: ErrorKind::FenceLost, detail: "the fence is lost" };

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
