//! Stores that count time wrongly, or by the wrong clock.

use std::time::Duration;

use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::record::{Fence, Incarnation, Record, Retention, State};
use idem_core::time::{Clock, SystemClock, Timestamp};
use idem_core::transition::{self, Applied, Decision};

use super::BrokenStore;
use super::rules::Rules;

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "lease-ends-a-moment-late",
            "at the very instant at which it ends a lease still counts as held",
            "R6, R7",
            "instant::lease_ends",
            Stored(|record, _| {
                if let State::InProgress { locked_until, given_up: false, .. } = &mut record.state {
                    *locked_until = locked_until.after(TICK);
                }
            }),
        ),
        BrokenStore::new(
            "reply-expires-a-moment-late",
            "at the very instant at which it expires a reply is still given out",
            "R11",
            "instant::reply_expires",
            Stored(|record, _| {
                if let State::Completed { expires_at: Some(at), .. } = &mut record.state {
                    *at = at.after(TICK);
                }
            }),
        ),
        BrokenStore::new(
            "whole-seconds",
            "instants are stored in whole seconds",
            "R6",
            "instant::parts_of_a_second",
            Stored(|record, _| truncate(record, 1_000_000)),
        ),
        BrokenStore::new(
            "whole-milliseconds",
            "instants are stored in whole milliseconds",
            "R6",
            "instant::parts_of_a_second",
            Stored(|record, _| truncate(record, 1_000)),
        ),
        BrokenStore::new(
            "zero-lease-is-none",
            "a lease of zero is taken for no lease: the record never lapses",
            "R6",
            "boundary::zero_lease_is_a_very_short_one",
            ZeroIsNone,
        ),
        BrokenStore::new(
            "durations-overflow",
            "long durations are counted in 32 bits of milliseconds",
            "R6",
            "boundary::huge_durations",
            Wraps,
        ),
        BrokenStore::new(
            "lease-capped-at-a-minute",
            "a longer lease than a minute is cut without a word",
            "R6",
            "boundary::huge_durations",
            Capped,
        ),
        BrokenStore::new(
            "retention-counted-from-completion",
            "a reply is kept for its retention from completion on, not from the first claim",
            "R11",
            "instant::reply_expires",
            Stored(|record, _| {
                if let State::Completed { completed_at, expires_at: Some(at), .. } =
                    &mut record.state
                    && let Some(total) = record.retention.total()
                {
                    *at = completed_at.after(total);
                }
            }),
        ),
        BrokenStore::new(
            "no-least-after-completion",
            "a slow execution's reply is gone before its client can ask again",
            "R11",
            "boundary::least_after_completion",
            Stored(|record, _| {
                if let State::Completed { expires_at: Some(at), .. } = &mut record.state
                    && let Some(total) = record.retention.total()
                {
                    *at = record.created_at.after(total);
                }
            }),
        ),
        BrokenStore::new(
            "for-ever-is-a-day",
            "a reply that is kept for ever expires",
            "R11",
            "table::expires_in_is_told",
            Stored(|record, _| {
                if let (State::Completed { completed_at, expires_at, .. }, Retention::Forever) =
                    (&mut record.state, record.retention)
                {
                    *expires_at = Some(completed_at.after(Duration::from_secs(86_400)));
                }
            }),
        ),
        BrokenStore::new(
            "in-progress-expires",
            "a record in progress counts as absent once its retention is over",
            "R10",
            "sweep::in_progress_is_never_swept",
            InProgressExpires,
        ),
        BrokenStore::new(
            "caller's-clock-judges",
            "leases are judged by the clock of the machine that asks",
            "R6",
            "instant::lease_ends",
            CallersClock,
        ),
        BrokenStore::new(
            "clock-never-goes-back",
            "the store remembers the latest instant it saw, and works on when the clock is set back",
            "R6",
            "instant::clock_set_back",
            NeverBack(std::sync::atomic::AtomicI64::new(i64::MIN)),
        ),
        BrokenStore::new(
            "remaining-is-the-asked-lease",
            "whoever waits is told the whole lease, however much of it is over",
            "R6",
            "boundary::remaining_time_runs",
            RemainingStands,
        ),
        BrokenStore::new(
            "complete-judges-expiry-by-the-taker",
            "the age limit is counted from the last lease, not from the first claim",
            "R27",
            "instant::age_limit",
            AgeFromTheLease,
        ),
    ]
}

const TICK: Duration = Duration::from_micros(1);

/// Something else is written than was decided.
struct Stored(fn(&mut Record, Option<&Record>));

impl Rules for Stored {
    fn stored(&self, mut record: Record, old: Option<&Record>) -> Record {
        (self.0)(&mut record, old);
        record
    }
}

fn truncate(record: &mut Record, unit: i64) {
    let cut = |at: &mut Timestamp| {
        *at = Timestamp::from_unix_micros(at.as_unix_micros() / unit * unit);
    };
    match &mut record.state {
        State::InProgress { locked_until, .. } => cut(locked_until),
        State::Completed { expires_at: Some(expires_at), .. } => cut(expires_at),
        State::Completed { .. } => {}
    }
}

/// A claim with another lease.
fn with_lease(
    found: Option<&Record>,
    claim: &Claim<'_>,
    (now, fresh): (Timestamp, Incarnation),
    lease: Duration,
) -> Decision<Claimed> {
    let mut claim = *claim;
    claim.lease = lease;
    transition::claim(found, &claim, now, fresh)
}

struct ZeroIsNone;

impl Rules for ZeroIsNone {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let zero = claim.lease <= idem_core::time::MIN_LEASE;
        let lease = if zero { idem_core::time::MAX_DURATION } else { claim.lease };
        with_lease(found, claim, (now, fresh), lease)
    }
}

struct Wraps;

impl Rules for Wraps {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let wrapped = claim.lease.as_millis() % (1 << 32);
        let lease = Duration::from_millis(u64::try_from(wrapped).expect("it is of 32 bits"));
        with_lease(found, claim, (now, fresh), lease.max(Duration::from_millis(1)))
    }
}

struct Capped;

impl Rules for Capped {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        with_lease(found, claim, (now, fresh), claim.lease.min(Duration::from_secs(60)))
    }
}

struct InProgressExpires;

impl InProgressExpires {
    fn is_over(record: &Record, now: Timestamp) -> bool {
        transition::is_lapsed(record, now)
            && record.retention.total().is_some_and(|total| record.created_at.after(total) <= now)
    }
}

impl Rules for InProgressExpires {
    fn visible(&self, found: Option<Record>, now: Timestamp) -> Option<Record> {
        found.filter(|record| {
            transition::visible(Some(record), now).is_some() && !Self::is_over(record, now)
        })
    }

    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        let found = found.filter(|record| !Self::is_over(record, now));
        transition::complete(found, fence, reply, now)
    }
}

struct CallersClock;

impl Rules for CallersClock {
    fn now(&self, _: Timestamp) -> Timestamp {
        SystemClock.now()
    }
}

struct NeverBack(std::sync::atomic::AtomicI64);

impl Rules for NeverBack {
    fn now(&self, now: Timestamp) -> Timestamp {
        let latest = self.0.fetch_max(now.as_unix_micros(), std::sync::atomic::Ordering::SeqCst);
        Timestamp::from_unix_micros(latest.max(now.as_unix_micros()))
    }
}

struct RemainingStands;

impl Rules for RemainingStands {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let mut decision = transition::claim(found, claim, now, fresh);
        if let Ok(Claimed::InProgress { remaining }) = &mut decision.outcome {
            *remaining = claim.lease;
        }
        decision
    }
}

struct AgeFromTheLease;

impl Rules for AgeFromTheLease {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let mut found = found.cloned();
        if let Some(Record { created_at, state: State::InProgress { locked_until, .. }, .. }) =
            found.as_mut()
        {
            *created_at = *locked_until;
        }
        transition::claim(found.as_ref(), claim, now, fresh)
    }
}
