//! The levers: what a store decides, one method each, all of them right unless overridden.

use std::time::Duration;

use idem_core::admin::{Filter, Forgotten, Stats};
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{Refusal, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, Record, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Swept};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Applied, Decision};

use super::listing;
use super::workshop::{Data, Identity};

/// How a store decides. The defaults are the contract.
pub(super) trait Rules: Send + Sync + 'static {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        transition::claim(found, claim, now, fresh)
    }

    fn renew(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        lease: Duration,
        now: Timestamp,
    ) -> Decision<Renewed> {
        transition::renew(found, fence, lease, now)
    }

    fn checkpoint(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
        now: Timestamp,
    ) -> Decision<(Applied, Lease)> {
        transition::checkpoint(found, fence, recovery, lease, now)
    }

    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        transition::complete(found, fence, reply, now)
    }

    fn release(&self, found: Option<&Record>, fence: &Fence, now: Timestamp) -> Decision<()> {
        transition::release(found, fence, now)
    }

    fn remove(&self, found: Option<&Record>, fence: &Fence) -> Decision<()> {
        transition::remove(found, fence)
    }

    /// What a reader is shown.
    fn visible(&self, found: Option<Record>, now: Timestamp) -> Option<Record> {
        found.filter(|record| transition::visible(Some(record), now).is_some())
    }

    /// Where a record is filed.
    fn file(&self, scope: &Scope, key: &Key) -> Identity {
        (scope.as_bytes().to_vec(), key.as_bytes().to_vec())
    }

    /// What a write makes of a record, which may take the place of an old one.
    fn stored(&self, record: Record, _old: Option<&Record>) -> Record {
        record
    }

    /// What the clock says.
    fn now(&self, now: Timestamp) -> Timestamp {
        now
    }

    /// The incarnation of a new life.
    fn incarnation(&self, _claim: &Claim<'_>) -> Incarnation {
        Incarnation::random()
    }

    /// Whether a verb reads and writes in one step.
    fn is_atomic(&self, _verb: Verb) -> bool {
        true
    }

    /// Whether it does all the same where it finds this.
    fn is_atomic_on(&self, _found: Option<&Record>) -> bool {
        false
    }

    fn error(&self, verb: Verb, refusal: Refusal, _key: &Key) -> StoreError {
        refusal.at(verb)
    }

    fn lapsed(
        &self,
        data: &Data,
        after: Option<&Cursor>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        listing::lapsed(data, after, limit, now, transition::is_lapsed)
    }

    fn sweep(&self, data: &mut Data, limit: u32, now: Timestamp) -> Swept {
        listing::sweep(data, limit, now, transition::is_sweepable)
    }

    fn stats(&self, data: &Data, now: Timestamp) -> Stats {
        listing::stats(data, now)
    }

    fn list(
        &self,
        data: &Data,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        listing::list(data, filter, after, limit, now)
    }

    fn forget(&self, data: &mut Data, scope: &Scope, limit: u32) -> Forgotten {
        listing::forget(data, limit, |record| record.scope == *scope, transition::is_forgettable)
    }

    /// How long a call waits before it does its work, and again before it answers.
    fn pause(&self) -> Option<Duration> {
        None
    }

    fn asynchrony(&self) -> Async {
        Async::Right
    }

    fn transaction(&self) -> InTransaction {
        InTransaction::Right
    }

    fn keeping(&self) -> Keeping {
        Keeping::Right
    }
}

/// What a store does with what it cannot read, and with a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    Right,
    /// A damaged record is taken for none.
    DamagedIsAbsent,
    /// A damaged record is read as far as it goes.
    DamagedIsRead,
    /// A damaged record makes every sweep fail.
    DamageStopsSweeps,
    /// The last write before a restart is gone.
    RestartLosesTheLastWrite,
    /// Connections from before a restart are of no use any more, and say something else.
    RestartBreaksConnections,
}

/// What a store does with futures that are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Async {
    Right,
    /// A permit that a dropped call took is never given back.
    LeaksPermits,
    /// A reply is stored in two writes with an await between them.
    CompletesInTwoWrites,
    /// A sweep empties the table and puts back what it keeps.
    SweepsByRebuilding,
}

/// What a store does inside a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InTransaction {
    Right,
    /// The claim is committed at once.
    ClaimsOutside,
    /// The reply is committed at once.
    CompletesOutside,
    /// A recovery point is committed at once.
    ChecksPointsOutside,
    /// A repeated completion is success, as it is outside.
    RepeatedCompletionIsOk,
    /// A repeated checkpoint is success, as it is outside.
    RepeatedCheckpointIsOk,
    /// What is dropped is committed.
    DropCommits,
    /// A savepoint marks nothing: undoing takes everything back.
    SavepointMarksNothing,
    /// Undoing to the savepoint undoes nothing.
    UndoesNothing,
    /// A message waits at once, whatever becomes of the transaction.
    PushesOutside,
    /// The fence is not looked at.
    HoldsAnything,
    /// A commit writes the record and forgets the handler's rows.
    CommitsTheRecordAlone,
    /// A rollback says Ok and commits.
    RollbackCommits,
    /// A claim waits for somebody's transaction without a bound.
    WaitsForEver,
    /// The lease is counted from before the wait.
    CountsFromBeforeTheWait,
}

/// The right store.
pub(super) struct Right;

impl Rules for Right {}
