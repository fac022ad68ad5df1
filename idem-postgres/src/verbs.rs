//! What the verbs share: how a statement is sent, and how its answer is read by the pure rules.

use std::time::Duration;

use idem_core::codec::Sealed;
use idem_core::cursor::LapsedPosition;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Record, Recovery, State};
use idem_core::store::{Cursor, Lease, Page, Renewed, page_size};
use idem_core::time::{Timestamp, bounded_lease, micros};
use idem_core::transition::{self, Applied, Change, Decision};
use sqlx::SqlStr;
use sqlx::postgres::PgRow;
use tokio::time::{sleep, timeout};

use crate::arguments::Arguments;
use crate::failure::{self, Fault, Stage};
use crate::row::{self, Answer};
use crate::session::Session;
use crate::store::Shared;
use crate::tx::PostgresTransaction;

/// How often a statement is sent again because a concurrent one was in its way.
pub(crate) const MAX_RACES: u32 = 16;

/// What a verb runs on.
pub(crate) enum Via<'t> {
    /// A connection of its own.
    Pool,
    /// A handler's transaction.
    Transaction(&'t mut PostgresTransaction),
}

impl Shared {
    /// Runs a statement on a connection of its own and gives its only row.
    pub(crate) async fn row(
        &self,
        name: &str,
        statement: &SqlStr,
        arguments: Arguments,
        verb: Verb,
        writes: bool,
    ) -> Result<PgRow, Fault> {
        let rows = self.rows(statement, arguments, verb, writes).await?;
        only(rows, name, verb)
    }

    /// Runs a statement that writes and gives its only row; what a concurrent transaction was in
    /// the way of is sent again.
    pub(crate) async fn row_again(
        &self,
        name: &str,
        statement: &SqlStr,
        arguments: impl Fn() -> Arguments,
        verb: Verb,
    ) -> Result<PgRow, StoreError> {
        for race in 1..MAX_RACES {
            match self.row(name, statement, arguments(), verb, true).await {
                Err(Fault::Conflict(_)) => pause(race).await,
                sent => return sent.map_err(Fault::into_error),
            }
        }
        Err(too_many_races(verb))
    }

    /// Runs a statement on a connection of its own.
    pub(crate) async fn rows(
        &self,
        statement: &SqlStr,
        arguments: Arguments,
        verb: Verb,
        writes: bool,
    ) -> Result<Vec<PgRow>, Fault> {
        let arguments = arguments.finish()?;
        let mut session = Session::acquire(&self.pool, verb).await?;
        let last = if writes { Stage::Committing } else { Stage::Reading };
        let work = async {
            if self.settings.pooled {
                session.begin(&self.begin_verb, verb).await?;
            }
            let stage = if self.settings.pooled && writes { Stage::Inside } else { last };
            match session.fetch(statement, arguments, !self.settings.pooled).await {
                Ok(rows) if self.settings.pooled => session.commit(verb).await.map(|()| rows),
                Ok(rows) => {
                    session.end();
                    Ok(rows)
                }
                Err(error) => {
                    let answered = matches!(error, sqlx::Error::Database(_));
                    let fault = failure::fault(verb, stage, error);
                    if answered && self.settings.pooled {
                        session.roll_back(verb).await?;
                    } else if answered {
                        session.end();
                    }
                    Err(fault)
                }
            }
        };
        timeout(self.settings.call_limit, work).await.unwrap_or_else(|_| {
            let kind = if writes { ErrorKind::OutcomeUnknown } else { ErrorKind::NotApplied };
            let detail = "the server did not answer in time";
            Err(StoreError::new(kind, verb, detail).into())
        })
    }
}

impl Via<'_> {
    /// Runs a statement that writes, and gives its only row.
    pub(crate) async fn row(
        &mut self,
        shared: &Shared,
        name: &str,
        statement: &SqlStr,
        arguments: Arguments,
        verb: Verb,
    ) -> Result<PgRow, Fault> {
        match self {
            Self::Pool => shared.row(name, statement, arguments, verb, true).await,
            Self::Transaction(transaction) => {
                let rows = transaction.rows(shared, statement, arguments, verb).await?;
                only(rows, name, verb)
            }
        }
    }

    /// The number of a handler's transaction, for what must not be written once that is gone.
    fn transaction_id(&self) -> Option<String> {
        match self {
            Self::Pool => None,
            Self::Transaction(transaction) => transaction.id().map(str::to_owned),
        }
    }

    /// Fails when a handler's transaction was rolled back under the statement.
    async fn expect_standing(&mut self, shared: &Shared, verb: Verb) -> Result<(), StoreError> {
        match self {
            Self::Pool => Ok(()),
            Self::Transaction(transaction) => transaction.expect_standing(shared, verb).await,
        }
    }

    /// A conflict ends a handler's transaction, which only its owner can run again.
    fn may_repeat(&self) -> bool {
        matches!(self, Self::Pool)
    }
}

fn only(rows: Vec<PgRow>, name: &str, verb: Verb) -> Result<PgRow, Fault> {
    let Some(row) = rows.into_iter().next() else {
        let detail = "the server's answer has no row";
        return Err(StoreError::new(ErrorKind::WrongSchema, verb, detail).into());
    };
    row::expect_name(&row, name, verb)?;
    Ok(row)
}

/// Lets the other transaction end: 1 ms, then longer, up to 64 ms.
pub(crate) async fn pause(race: u32) {
    sleep(Duration::from_millis(1 << race.min(6))).await;
}

/// The record kept changing under this call's hands.
pub(crate) fn too_many_races(verb: Verb) -> StoreError {
    let detail = "the record kept changing; nothing was written";
    StoreError::new(ErrorKind::NotApplied, verb, detail)
}

/// A verb under a fence. What was written is read by `done`; what was only found is answered by
/// the pure `rule`. Where that would have written, the record changed in between.
struct Fenced<'v, R, D> {
    verb: Verb,
    name: &'static str,
    statement: &'v SqlStr,
    rule: R,
    done: D,
}

impl<R, D> Fenced<'_, R, D> {
    async fn run<T>(
        &self,
        shared: &Shared,
        via: &mut Via<'_>,
        arguments: impl Fn() -> Arguments,
    ) -> Result<T, StoreError>
    where
        R: Fn(Option<&Record>, Timestamp) -> Decision<T>,
        D: Fn(&str, &Record, Timestamp) -> T,
    {
        let verb = self.verb;
        for race in 1..=MAX_RACES {
            let row = match via.row(shared, self.name, self.statement, arguments(), verb).await {
                Ok(row) => row,
                Err(Fault::Conflict(_)) if via.may_repeat() && race < MAX_RACES => {
                    pause(race).await;
                    continue;
                }
                Err(fault) => return Err(fault.into_error()),
            };
            let Answer { now, done, record } = row::answer(&row, self.name, verb)?;
            if let (Some((done, at)), Some(record)) = (done, &record) {
                return Ok((self.done)(&done, record, at));
            }
            let decision = (self.rule)(record.as_ref(), now);
            if decision.change == Change::None {
                return decision.outcome.map_err(|refusal| refusal.at(verb));
            }
            via.expect_standing(shared, verb).await?;
        }
        Err(too_many_races(verb))
    }
}

pub(crate) async fn renew(
    shared: &Shared,
    fence: &Fence,
    lease: Duration,
) -> Result<Renewed, StoreError> {
    let fenced = Fenced {
        verb: Verb::Renew,
        name: "renew",
        statement: &shared.statements.renew,
        rule: |found: Option<&Record>, now| transition::renew(found, fence, lease, now),
        done: |_: &str, record: &Record, at| match record.state {
            State::InProgress { given_up: false, .. } => Renewed::Held(lease_of(record, at)),
            _ => Renewed::GivenUp,
        },
    };
    let asked = if lease.is_zero() { 0 } else { micros(bounded_lease(lease)) };
    let arguments =
        || Arguments::of("renew", Verb::Renew).fence(fence, &shared.lock_wait).add(asked);
    fenced.run(shared, &mut Via::Pool, arguments).await
}

pub(crate) async fn checkpoint(
    shared: &Shared,
    via: &mut Via<'_>,
    fence: &Fence,
    recovery: &Recovery,
    lease: Duration,
) -> Result<(Applied, Lease), StoreError> {
    let fenced = Fenced {
        verb: Verb::Checkpoint,
        name: "checkpoint",
        statement: &shared.statements.checkpoint,
        rule: |found: Option<&Record>, now| {
            transition::checkpoint(found, fence, recovery, lease, now)
        },
        done: |done: &str, record: &Record, at| {
            let applied = if done == "moved" { Applied::Now } else { Applied::Already };
            (applied, lease_of(record, at))
        },
    };
    let transaction = via.transaction_id();
    let arguments = || {
        Arguments::of("checkpoint", Verb::Checkpoint)
            .fence(fence, &shared.lock_wait)
            .add(micros(bounded_lease(lease)))
            .add(i64::from(recovery.number))
            .payload(Some(&recovery.payload))
            .add(transaction.as_deref())
    };
    fenced.run(shared, via, arguments).await
}

pub(crate) async fn complete(
    shared: &Shared,
    via: &mut Via<'_>,
    fence: &Fence,
    reply: &Sealed,
) -> Result<Applied, StoreError> {
    let fenced = Fenced {
        verb: Verb::Complete,
        name: "complete",
        statement: &shared.statements.complete,
        rule: |found: Option<&Record>, now| transition::complete(found, fence, reply, now),
        done: |_: &str, _: &Record, _| Applied::Now,
    };
    let transaction = via.transaction_id();
    let arguments = || {
        Arguments::of("complete", Verb::Complete)
            .fence(fence, &shared.lock_wait)
            .payload(Some(reply))
            .add(transaction.as_deref())
    };
    fenced.run(shared, via, arguments).await
}

pub(crate) async fn release(shared: &Shared, fence: &Fence) -> Result<(), StoreError> {
    let fenced = Fenced {
        verb: Verb::Release,
        name: "release",
        statement: &shared.statements.release,
        rule: |found: Option<&Record>, now| transition::release(found, fence, now),
        done: |_: &str, _: &Record, _| (),
    };
    let arguments = || Arguments::of("release", Verb::Release).fence(fence, &shared.lock_wait);
    fenced.run(shared, &mut Via::Pool, arguments).await
}

pub(crate) async fn remove(shared: &Shared, fence: &Fence) -> Result<(), StoreError> {
    let fenced = Fenced {
        verb: Verb::Remove,
        name: "remove",
        statement: &shared.statements.remove,
        rule: |found: Option<&Record>, _| transition::remove(found, fence),
        done: |_: &str, _: &Record, _| (),
    };
    let arguments = || Arguments::of("remove", Verb::Remove).fence(fence, &shared.lock_wait);
    fenced.run(shared, &mut Via::Pool, arguments).await
}

/// Locks the record until the transaction ends.
pub(crate) async fn hold(
    shared: &Shared,
    via: &mut Via<'_>,
    fence: &Fence,
) -> Result<(), StoreError> {
    let fenced = Fenced {
        verb: Verb::Hold,
        name: "hold",
        statement: &shared.statements.hold,
        // What is found and not locked is not held; where it is, it changed in between.
        rule: |found: Option<&Record>, now| transition::hold(found, fence, now),
        done: |_: &str, _: &Record, _| (),
    };
    let arguments = || Arguments::of("hold", Verb::Hold).fence(fence, &shared.lock_wait);
    fenced.run(shared, via, arguments).await
}

/// Reads one record, expired or not, and the time.
pub(crate) async fn find(
    shared: &Shared,
    via: &mut Via<'_>,
    scope: &Scope,
    key: &Key,
    verb: Verb,
) -> Result<(Option<Record>, Timestamp), StoreError> {
    let statement = &shared.statements.get;
    let arguments = Arguments::of("get", verb).add(scope.as_bytes()).add(key.as_bytes());
    let row = match via {
        Via::Pool => shared.row("get", statement, arguments, verb, false).await,
        Via::Transaction(_) => via.row(shared, "get", statement, arguments, verb).await,
    };
    let answer = row::answer(&row.map_err(Fault::into_error)?, "get", verb)?;
    Ok((answer.record, answer.now))
}

pub(crate) async fn lapsed_page(
    shared: &Shared,
    arguments: Arguments,
    limit: u32,
) -> Result<Page, StoreError> {
    let verb = Verb::Lapsed;
    let rows = shared.rows(&shared.statements.lapsed, arguments, verb, false).await;
    page(rows.map_err(Fault::into_error)?, "lapsed", limit, verb, |last| {
        LapsedPosition::of(last).map(|position| position.to_cursor())
    })
}

/// The records of `rows`, which hold one more than `limit` where there are more.
pub(crate) fn page(
    rows: Vec<PgRow>,
    name: &str,
    limit: u32,
    verb: Verb,
    cursor: impl Fn(&Observed) -> Option<Cursor>,
) -> Result<Page, StoreError> {
    let mut page = Page::default();
    let mut there = 0;
    for row in rows.iter().take(page_size(limit) as usize) {
        let Answer { now, record, .. } = row::answer(row, name, verb)?;
        let rows: String = row::value(row, 2, verb)?;
        there = rows.parse().unwrap_or(usize::MAX);
        page.records.extend(record.map(|record| Observed { record, now }));
    }
    if there > page.records.len() {
        page.next = page.records.last().and_then(cursor);
    }
    Ok(page)
}

pub(crate) fn lease_of(record: &Record, at: Timestamp) -> Lease {
    let remaining = match record.state {
        State::InProgress { locked_until, .. } => locked_until.since(at),
        State::Completed { .. } => Duration::ZERO,
    };
    Lease { remaining }
}
