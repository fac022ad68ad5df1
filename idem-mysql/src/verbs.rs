//! The verbs under a fence: read the record, ask the pure rule, change exactly what was read.

use std::time::{Duration, Instant};

use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, Record, Recovery, State};
use idem_core::store::{Lease, Renewed};
use idem_core::time::{Timestamp, bounded_lease};
use idem_core::transition::{self, Applied, Change, Decision};
use tokio::time::{sleep, timeout};

use crate::failure::Fault;
use crate::row::{self, Found};
use crate::store::Shared;
use crate::via::{Payloads, Via, too_many_races};
use crate::write;

/// How often a verb starts again because a concurrent one was in its way.
pub(crate) const MAX_RACES: u32 = 16;

/// How often a lease is set anew because a wait used up much of it. Where the way to the server
/// takes longer than the lease, that never ends; its holder counts from before it asked, and knows.
pub(crate) const MAX_LATE: u32 = 3;

/// A statement that took no longer has waited for nothing that matters to a lease.
const SHORT_WAIT: Duration = Duration::from_millis(20);

/// Lets the other transaction end: 1 ms or so, then longer, up to 64 ms, and no two callers alike.
pub(crate) async fn pause(race: u32) {
    let longest = 1_000_u64 << race.min(6);
    let random = u64::from(Incarnation::random().as_bytes()[0]);
    sleep(Duration::from_micros(longest / 2 + longest * random / 512)).await;
}

impl Shared {
    /// A connection of a verb's own.
    pub(crate) async fn own(&self, verb: Verb) -> Result<Via<'static>, StoreError> {
        Ok(Via::Own(Box::new(self.verbs.lend(verb).await?)))
    }

    /// Does the work of a verb within the bound of a call.
    pub(crate) async fn within<T>(
        &self,
        verb: Verb,
        writes: bool,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timeout(self.settings.call_limit, work).await.unwrap_or_else(|_| {
            let kind = if writes { ErrorKind::OutcomeUnknown } else { ErrorKind::NotApplied };
            Err(StoreError::new(kind, verb, "the server did not answer in time"))
        })
    }

    /// Whether a lease that was set until then has more than half of it left. It was counted from
    /// before a wait for another's lock, if there was one.
    pub(crate) async fn was_in_time(
        &self,
        via: &mut Via<'_>,
        until: Timestamp,
        lease: Duration,
        sent: Instant,
        verb: Verb,
    ) -> Result<bool, Fault> {
        if sent.elapsed() < SHORT_WAIT {
            return Ok(true);
        }
        let rows = via.rows(&self.statements.clock, Vec::new(), verb).await?;
        let [now] = row::numbers(rows.into_iter().next(), verb)?;
        let now = Timestamp::from_unix_micros(now.unwrap_or_default());
        Ok(until.since(now) > bounded_lease(lease) / 2)
    }

    /// A value that the server could not take, or not give back, is refused before it is sent.
    pub(crate) fn check_size(&self, value: Option<&Sealed>, verb: Verb) -> Result<(), StoreError> {
        if value.is_none_or(|value| value.len() <= self.max_value_bytes()) {
            return Ok(());
        }
        let detail = "the value is longer than the store takes: see max_value_bytes, and the \
                      server's max_allowed_packet";
        Err(StoreError::new(ErrorKind::InvalidInput, verb, detail))
    }
}

/// A verb under a fence.
struct Fenced<'f, R> {
    verb: Verb,
    fence: &'f Fence,
    payloads: Payloads,
    /// The lease that it sets, if it sets one.
    lease: Option<Duration>,
    rule: R,
}

impl<R> Fenced<'_, R> {
    async fn run<T>(&self, shared: &Shared, via: &mut Via<'_>) -> Result<T, StoreError>
    where
        R: Fn(Option<&Record>, Timestamp) -> Decision<T>,
    {
        let mut written: Option<T> = None;
        let mut late = 0;
        for race in 1..=MAX_RACES {
            match self.attempt(shared, via).await {
                Ok(Try::Late(outcome)) if late < MAX_LATE => {
                    late += 1;
                    written = Some(outcome);
                }
                Ok(Try::Late(outcome) | Try::Done(outcome)) => return Ok(outcome),
                Ok(Try::Changed) => {}
                // What was written before stands, and its answer is true.
                Err(_) if written.is_some() => break,
                Err(Fault::Conflict(error)) => {
                    if !via.may_repeat(self.verb).await {
                        return Err(error);
                    }
                    pause(race).await;
                }
                Err(fault) => return Err(fault.into_error()),
            }
        }
        written.ok_or_else(|| too_many_races(self.verb))
    }

    async fn attempt<T>(&self, shared: &Shared, via: &mut Via<'_>) -> Result<Try<T>, Fault>
    where
        R: Fn(Option<&Record>, Timestamp) -> Decision<T>,
    {
        let Self { verb, fence, payloads, .. } = *self;
        let sent = Instant::now();
        let found = via.find(shared, (&fence.scope, &fence.key), payloads, verb).await?;
        via.expect_standing(fence, found.as_ref(), verb)?;
        let now = found.as_ref().map_or(Timestamp::from_unix_micros(0), |found| found.now);
        let decision = (self.rule)(found.as_ref().map(|found| &found.record), now);
        let outcome = decision.outcome.map_err(|refusal| refusal.at(verb))?;
        let stood = match (&decision.change, &found) {
            (Change::Put(after), Some(found)) => {
                write::put(&shared.statements, via, found, after, verb).await?
            }
            (Change::Delete, Some(found)) => {
                let delete = &shared.statements.delete;
                via.change(delete, Vec::new(), &found.identity(), verb).await?
            }
            _ => true,
        };
        if !stood {
            return Ok(Try::Changed);
        }
        // In a transaction that is for its commit, and nobody can take the record before.
        if let (Change::Put(after), Some(lease), true) =
            (&decision.change, self.lease, via.commits())
            && let State::InProgress { locked_until, given_up: false, .. } = after.state
            && !shared.was_in_time(via, locked_until, lease, sent, verb).await.unwrap_or(true)
        {
            return Ok(Try::Late(outcome));
        }
        Ok(Try::Done(outcome))
    }
}

/// What one try of a verb came to.
enum Try<T> {
    /// The answer.
    Done(T),
    /// It was written, and a wait for a lock used up much of the lease that was set.
    Late(T),
    /// The record changed between two statements; nothing was written.
    Changed,
}

pub(crate) async fn renew(
    shared: &Shared,
    via: &mut Via<'_>,
    fence: &Fence,
    lease: Duration,
) -> Result<Renewed, StoreError> {
    let fenced = Fenced {
        verb: Verb::Renew,
        fence,
        payloads: Payloads::None,
        lease: Some(lease).filter(|lease| !lease.is_zero()),
        rule: |found: Option<&Record>, now| transition::renew(found, fence, lease, now),
    };
    fenced.run(shared, via).await
}

pub(crate) async fn checkpoint(
    shared: &Shared,
    via: &mut Via<'_>,
    fence: &Fence,
    recovery: &Recovery,
    lease: Duration,
) -> Result<(Applied, Lease), StoreError> {
    shared.check_size(Some(&recovery.payload), Verb::Checkpoint)?;
    let fenced = Fenced {
        verb: Verb::Checkpoint,
        fence,
        payloads: Payloads::Recovery,
        lease: Some(lease),
        rule: |found: Option<&Record>, now| {
            transition::checkpoint(found, fence, recovery, lease, now)
        },
    };
    fenced.run(shared, via).await
}

pub(crate) async fn complete(
    shared: &Shared,
    via: &mut Via<'_>,
    fence: &Fence,
    reply: &Sealed,
) -> Result<Applied, StoreError> {
    shared.check_size(Some(reply), Verb::Complete)?;
    let fenced = Fenced {
        verb: Verb::Complete,
        fence,
        payloads: Payloads::Reply,
        lease: None,
        rule: |found: Option<&Record>, now| transition::complete(found, fence, reply, now),
    };
    fenced.run(shared, via).await
}

pub(crate) async fn release(
    shared: &Shared,
    via: &mut Via<'_>,
    fence: &Fence,
) -> Result<(), StoreError> {
    let fenced = Fenced {
        verb: Verb::Release,
        fence,
        payloads: Payloads::None,
        lease: None,
        rule: |found: Option<&Record>, now| transition::release(found, fence, now),
    };
    fenced.run(shared, via).await
}

/// Locks the record until the transaction ends, and gives its revision there.
pub(crate) async fn hold(
    shared: &Shared,
    via: &mut Via<'_>,
    fence: &Fence,
) -> Result<Option<i64>, StoreError> {
    for race in 1..MAX_RACES {
        match via.run(&shared.statements.hold, write::fence(fence), Verb::Hold).await {
            Ok(done) if done.rows == 1 => {
                // A proxy may keep back what a statement hands back.
                let revision = done.handed_back.and_then(|revision| i64::try_from(revision).ok());
                return Ok(revision);
            }
            Ok(_) => break,
            Err(Fault::Conflict(error)) => {
                if !via.may_repeat(Verb::Hold).await {
                    return Err(error);
                }
                pause(race).await;
            }
            Err(fault) => return Err(fault.into_error()),
        }
    }
    // It does not stand under the fence, so the rule says why.
    let fenced = Fenced {
        verb: Verb::Hold,
        fence,
        payloads: Payloads::None,
        lease: None,
        rule: |found: Option<&Record>, now| transition::hold(found, fence, now),
    };
    fenced.run(shared, via).await.map(|()| None)
}

/// Deletes the record under the fence, whether it reads as a record or not: a person asked.
pub(crate) async fn remove(
    shared: &Shared,
    via: &mut Via<'_>,
    fence: &Fence,
) -> Result<(), StoreError> {
    let verb = Verb::Remove;
    let mut race = 1;
    let removed = loop {
        match via.run(&shared.statements.remove, write::fence(fence), verb).await {
            Err(Fault::Conflict(_)) if race < MAX_RACES => {
                pause(race).await;
                race += 1;
            }
            done => break done.map_err(Fault::into_error)?.rows > 0,
        }
    };
    if removed {
        return Ok(());
    }
    let found = find(shared, via, &fence.scope, &fence.key, verb).await?;
    let decision = transition::remove(found.as_ref().map(|found| &found.record), fence);
    decision.outcome.map_err(|refusal| refusal.at(verb))
}

/// Reads one record, expired or not.
pub(crate) async fn find(
    shared: &Shared,
    via: &mut Via<'_>,
    scope: &Scope,
    key: &Key,
    verb: Verb,
) -> Result<Option<Found>, StoreError> {
    via.find(shared, (scope, key), Payloads::All, verb).await.map_err(Fault::into_error)
}
