//! Whether a store's answer is the model's.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use idem_core::claim::{Acquired, Claimed};
use idem_core::error::{Refusal, StoreError};
use idem_core::record::{Fence, Incarnation, Record, State};
use idem_core::store::{Lease, Renewed};
use idem_core::time::Timestamp;

use crate::failure::{CaseResult, Failure, chain};

/// How closely time is compared, and which of the store's lives is which of the model's.
#[derive(Debug)]
pub(super) struct Compare {
    /// The store is on a stepped clock, so that every duration is known.
    pub(super) exact: bool,
    /// The model's incarnation of each of the store's.
    lives: BTreeMap<Incarnation, Incarnation>,
}

impl Compare {
    pub(super) fn new(exact: bool) -> Self {
        Self { exact, lives: BTreeMap::new() }
    }

    /// A fence of the store as the model would have it.
    pub(super) fn to_model(&self, fence: &Fence) -> Fence {
        let incarnation = self.lives.get(&fence.incarnation).copied();
        Fence { incarnation: incarnation.unwrap_or(fence.incarnation), ..fence.clone() }
    }

    /// Learns the incarnation of a life that both have just begun.
    fn meet(&mut self, store: Incarnation, model: Incarnation) -> CaseResult {
        match self.lives.get(&store) {
            Some(known) if *known == model => Ok(()),
            Some(_) => {
                Err(Failure::new("a new life to have an incarnation of its own", "an old one"))
            }
            None if self.lives.values().any(|known| *known == model) => {
                Err(Failure::new("the incarnation of a life to stay", "another one"))
            }
            None => {
                self.lives.insert(store, model);
                Ok(())
            }
        }
    }

    pub(super) fn claimed(
        &mut self,
        store: Result<Claimed, StoreError>,
        model: Result<Claimed, Refusal>,
    ) -> Result<Option<Acquired>, Failure> {
        let Some((store, model)) = same_kind(store, model)? else { return Ok(None) };
        match (&store, &model) {
            (Claimed::Acquired(seen), Claimed::Acquired(expected)) => {
                self.meet(seen.fence.incarnation, expected.fence.incarnation)?;
                self.acquired(seen, expected)?;
                Ok(Some(seen.clone()))
            }
            (Claimed::InProgress { remaining: seen }, Claimed::InProgress { remaining }) => {
                self.time("remaining", *seen, *remaining).map(|()| None)
            }
            (Claimed::Lapsed(seen), Claimed::Lapsed(expected)) => {
                same("the attempt", seen.attempt, expected.attempt)?;
                self.time("since", seen.since, expected.since).map(|()| None)
            }
            (Claimed::Completed(seen), Claimed::Completed(expected)) => {
                same("the reply", &seen.reply, &expected.reply)?;
                same("the fence", self.to_model(&seen.fence), expected.fence.clone())?;
                same(
                    "whether it expires",
                    seen.expires_in.is_some(),
                    expected.expires_in.is_some(),
                )?;
                let times = (seen.expires_in.unwrap_or_default(), expected.expires_in);
                self.time("expires_in", times.0, times.1.unwrap_or_default()).map(|()| None)
            }
            _ => same("the claim", store, model).map(|()| None),
        }
    }

    fn acquired(&self, seen: &Acquired, expected: &Acquired) -> CaseResult {
        same("the fence", self.to_model(&seen.fence), expected.fence.clone())?;
        same("the recovery point", &seen.recovery, &expected.recovery)?;
        same("the input", &seen.input, &expected.input)?;
        same("the fingerprint", seen.fingerprint, expected.fingerprint)?;
        same("whether it replaced a record", seen.replaced, expected.replaced)?;
        self.time("the age", seen.age, expected.age)?;
        self.time("the lease", seen.lease, expected.lease)
    }

    pub(super) fn renewed(
        &self,
        store: Result<Renewed, StoreError>,
        model: Result<Renewed, Refusal>,
    ) -> CaseResult {
        match same_kind(store, model)? {
            Some((Renewed::Held(seen), Renewed::Held(expected))) => self.lease(seen, expected),
            Some((seen, expected)) => same("the renewal", seen, expected),
            None => Ok(()),
        }
    }

    pub(super) fn leased(
        &self,
        store: Result<Lease, StoreError>,
        model: Result<Lease, Refusal>,
    ) -> CaseResult {
        match same_kind(store, model)? {
            Some((seen, expected)) => self.lease(seen, expected),
            None => Ok(()),
        }
    }

    pub(super) fn done(
        &self,
        store: Result<(), StoreError>,
        model: Result<(), Refusal>,
    ) -> CaseResult {
        same_kind(store, model).map(drop)
    }

    fn lease(&self, seen: Lease, expected: Lease) -> CaseResult {
        self.time("the lease", seen.remaining, expected.remaining)
    }

    fn time(&self, what: &str, seen: Duration, expected: Duration) -> CaseResult {
        if self.exact { same(what, seen, expected) } else { Ok(()) }
    }

    /// The stored record, field by field; `now` is the store's at that reading.
    pub(super) fn record(&self, seen: Option<&Record>, expected: Option<&Record>) -> CaseResult {
        let (Some(seen), Some(expected)) = (seen, expected) else {
            return same("whether the record is there", seen.is_some(), expected.is_some());
        };
        let mut translated = seen.clone();
        translated.incarnation = self.to_model(&seen.fence()).incarnation;
        if !self.exact {
            translated.created_at = expected.created_at;
            timeless(&mut translated.state, &expected.state);
        }
        same("the record", &translated, expected)
    }
}

/// Takes the model's instants where the store's cannot be known; what kind of instant stands
/// where still counts.
fn timeless(seen: &mut State, expected: &State) {
    let align = |seen: &mut Timestamp, expected: &Timestamp| *seen = *expected;
    match (seen, expected) {
        (State::InProgress { locked_until: seen, .. }, State::InProgress { locked_until, .. }) => {
            align(seen, locked_until);
        }
        (
            State::Completed { completed_at: seen, expires_at: Some(seen_expiry), .. },
            State::Completed { completed_at, expires_at: Some(expires_at), .. },
        ) => {
            align(seen, completed_at);
            align(seen_expiry, expires_at);
        }
        (State::Completed { completed_at: seen, .. }, State::Completed { completed_at, .. }) => {
            align(seen, completed_at);
        }
        _ => {}
    }
}

/// Both succeeded, or both were refused with the same kind; anything else is the difference.
fn same_kind<T: Debug>(
    store: Result<T, StoreError>,
    model: Result<T, Refusal>,
) -> Result<Option<(T, T)>, Failure> {
    match (store, model) {
        (Ok(seen), Ok(expected)) => Ok(Some((seen, expected))),
        (Err(error), Err(refusal)) if error.kind() == refusal.kind => Ok(None),
        (store, model) => {
            let expected = match model {
                Ok(answer) => format!("{answer:?}"),
                Err(refusal) => format!("an error of kind {}: {}", refusal.kind, refusal.detail),
            };
            let seen = match store {
                Ok(answer) => format!("{answer:?}"),
                Err(error) => chain(&error),
            };
            Err(Failure::new(expected, seen))
        }
    }
}

fn same<T: PartialEq + Debug>(what: &str, seen: T, expected: T) -> CaseResult {
    crate::failure::equal(what, seen, expected)
}
