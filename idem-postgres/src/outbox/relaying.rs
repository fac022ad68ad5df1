//! [`Outbox`] on Postgres.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::{
    Backlog, EntryPage, EntryPosition, LeaseMessages, Leased, LeasedBatch, Lost, MessageId,
    MessageLease, MessageState, Outbox, SettleAs, Settlement, within_page,
};
use idem_core::store::{Cursor, Swept, page_size};
use idem_core::time::{Timestamp, bounded_lease, micros};
use sqlx::SqlStr;
use sqlx::postgres::PgRow;

use crate::arguments::Arguments;
use crate::failure::Fault;
use crate::outbox::rows::{self, Taken};
use crate::outbox::statements::OutboxStatements;
use crate::outbox::work::Work;
use crate::row;
use crate::store::Shared;

/// The outbox of a store.
pub(crate) struct PostgresOutbox {
    shared: Arc<Shared>,
    statements: OutboxStatements,
}

impl PostgresOutbox {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let statements = OutboxStatements::new(&shared.tables, shared.begin_verb.as_str());
        Self { shared, statements }
    }

    /// One statement in a transaction that shares the relays' lock, and its only row.
    async fn write(
        &self,
        name: &str,
        statement: &SqlStr,
        arguments: impl Fn(Arguments) -> Arguments,
    ) -> Result<PgRow, StoreError> {
        let work = Work { shared: &self.shared, begin: &self.statements.begin };
        let rows = work.run(statement, || arguments(Arguments::of(name, Verb::Relay))).await?;
        only(rows, name)
    }

    /// A lease that read what cannot be sent puts that among the dead letters.
    async fn bury(&self, number: i64) -> Result<(), StoreError> {
        let bury = &self.statements.bury;
        let reason = rows::UNREADABLE.as_bytes();
        self.write("bury", bury, |values| values.add(number).add(reason)).await.map(|_| ())
    }

    async fn count(
        &self,
        name: &str,
        statement: &SqlStr,
        ids: &[MessageId],
    ) -> Result<u64, StoreError> {
        within_page(ids.len())?;
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let row = self.write(name, statement, |values| values.add(ids.clone())).await?;
        Ok(row::value::<i64>(&row, 1, Verb::Relay)?.cast_unsigned())
    }
}

#[async_trait]
impl Outbox for PostgresOutbox {
    async fn lease(&self, call: &LeaseMessages) -> Result<LeasedBatch, StoreError> {
        let remaining = bounded_lease(call.lease);
        let arguments = || {
            Arguments::of("lease", Verb::Relay)
                .add(i64::from(page_size(call.limit)))
                .add(call.past_dead)
                .add(call.owner.as_bytes().as_slice())
                .add(micros(remaining))
        };
        let work = Work { shared: &self.shared, begin: &self.statements.begin_lease };
        let mut taken = Vec::new();
        for row in work.run(&self.statements.lease, arguments).await? {
            taken.extend(rows::taken(&row)?);
        }
        let readable = taken.iter().take_while(|taken| taken.message.is_some()).count();
        let rest = taken.split_off(readable);
        if let Some(unreadable) = rest.first() {
            self.bury(unreadable.number).await?;
            let lease = |taken: &Taken| MessageLease { id: taken.id, owner: call.owner };
            let rest: Vec<_> = rest.iter().map(lease).map(Settlement::given_back).collect();
            self.settle(&rest).await?;
        }
        let leased = taken.into_iter().filter_map(|taken| {
            let lease = MessageLease { id: taken.id, owner: call.owner };
            let (failures, lapses) = (taken.failures, taken.lapses);
            taken.message.map(|message| Leased { message, lease, failures, lapses })
        });
        Ok(LeasedBatch { messages: leased.collect(), remaining })
    }

    async fn renew(&self, leases: &[MessageLease], lease: Duration) -> Result<Lost, StoreError> {
        within_page(leases.len())?;
        let (ids, owners) = fences(leases.iter());
        let arguments = |values: Arguments| {
            values.add(ids.clone()).add(owners.clone()).add(micros(bounded_lease(lease)))
        };
        let row = self.write("renew", &self.statements.renew, arguments).await?;
        lost(&row, leases.iter())
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Lost, StoreError> {
        within_page(settlements.len())?;
        // The server takes any one of several for the same message; the first one counts.
        let mut seen = HashSet::new();
        let firsts = settlements.iter().filter(|settlement| seen.insert(settlement.lease));
        let firsts: Vec<&Settlement> = firsts.collect();
        let (ids, owners) = fences(firsts.iter().map(|settlement| &settlement.lease));
        let (mut outcomes, mut delays, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for settlement in firsts {
            let (outcome, delay, reason) = encoded(&settlement.outcome)?;
            outcomes.push(outcome);
            delays.push(delay);
            reasons.push(reason);
        }
        let arguments = |values: Arguments| {
            let values = values.add(ids.clone()).add(owners.clone()).add(outcomes.clone());
            values.add(delays.clone()).add(reasons.clone())
        };
        let row = self.write("settle", &self.statements.settle, arguments).await?;
        lost(&row, settlements.iter().map(|settlement| &settlement.lease))
    }

    async fn list(
        &self,
        state: MessageState,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<EntryPage, StoreError> {
        let after = EntryPosition::number_after(state, after)?;
        let [waiting, sent, dead] = &self.statements.list;
        let statement = match state {
            MessageState::Waiting => waiting,
            MessageState::Sent => sent,
            MessageState::Dead => dead,
            _ => return Ok(EntryPage::default()),
        };
        let limit = page_size(limit);
        let arguments = Arguments::of("list", Verb::List)
            .add(i64::try_from(after).unwrap_or(i64::MAX))
            .add(i64::from(limit) + 1);
        let found = self.shared.rows(statement, arguments, Verb::List, false).await;
        let mut entries = Vec::new();
        for row in found.map_err(Fault::into_error)? {
            entries.extend(rows::entry(&row, state)?);
        }
        let more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        let last = entries.last().filter(|_| more);
        let next = last.map(|last| EntryPosition { state, number: last.number }.to_cursor());
        Ok(EntryPage { entries, next })
    }

    async fn requeue(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        self.count("requeue", &self.statements.requeue, ids).await
    }

    async fn discard(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        self.count("discard", &self.statements.discard, ids).await
    }

    async fn delete_sent(&self, sent_before: Duration, limit: u32) -> Result<Swept, StoreError> {
        let (age, limit) = (micros(sent_before), i64::from(page_size(limit)));
        let arguments = || Arguments::of("delete_sent", Verb::Relay).add(age).add(limit);
        let statement = &self.statements.delete_sent;
        let row = self.shared.row_again("delete_sent", statement, arguments, Verb::Relay).await?;
        let deleted: i64 = row::value(&row, 1, Verb::Relay)?;
        let more = row::value(&row, 2, Verb::Relay)?;
        Ok(Swept { deleted: u32::try_from(deleted).unwrap_or(u32::MAX), more })
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let verb = Verb::Relay;
        let arguments = Arguments::of("backlog", verb);
        let statement = &self.statements.backlog;
        let row = self.shared.row("backlog", statement, arguments, verb, false).await;
        let row = row.map_err(Fault::into_error)?;
        let count =
            |index| Ok::<_, StoreError>(row::value::<i64>(&row, index, verb)?.cast_unsigned());
        let now = Timestamp::from_unix_micros(row::value(&row, 1, verb)?);
        let oldest: Option<i64> = row::value(&row, 4, verb)?;
        let oldest = oldest.map(|at| now.since(Timestamp::from_unix_micros(at)));
        Ok(Backlog::new(count(2)?, count(3)?, oldest, count(5)?))
    }
}

type Column = Vec<Vec<u8>>;

/// Ids and owners, as the server takes them.
fn fences<'l>(leases: impl Iterator<Item = &'l MessageLease>) -> (Column, Column) {
    leases.map(|lease| (lease.id.as_bytes().to_vec(), lease.owner.as_bytes().to_vec())).unzip()
}

fn encoded(outcome: &SettleAs) -> Result<(i16, i64, Option<Vec<u8>>), StoreError> {
    let bytes = |reason: &String| Some(reason.as_bytes().to_vec());
    Ok(match outcome {
        SettleAs::Sent => (0, 0, None),
        SettleAs::Failed { retry_after, reason } => (1, micros(*retry_after), bytes(reason)),
        SettleAs::Dead { reason } => (2, 0, bytes(reason)),
        SettleAs::GivenBack => (3, 0, None),
        _ => {
            let detail = "this build does not know the settlement";
            return Err(StoreError::new(ErrorKind::InvalidInput, Verb::Relay, detail));
        }
    })
}

/// Those of `asked` that the server names as lost.
fn lost<'l>(
    row: &PgRow,
    asked: impl Iterator<Item = &'l MessageLease>,
) -> Result<Lost, StoreError> {
    let ids: Column = row::value(row, 1, Verb::Relay)?;
    let owners: Column = row::value(row, 2, Verb::Relay)?;
    let named: HashSet<(&[u8], &[u8])> =
        ids.iter().map(Vec::as_slice).zip(owners.iter().map(Vec::as_slice)).collect();
    let is_lost = |lease: &&MessageLease| {
        named.contains(&(lease.id.as_bytes().as_slice(), lease.owner.as_bytes().as_slice()))
    };
    Ok(Lost { ids: asked.filter(is_lost).map(|lease| lease.id).collect() })
}

fn only(rows: Vec<PgRow>, name: &str) -> Result<PgRow, StoreError> {
    let Some(row) = rows.into_iter().next() else {
        let detail = "the server's answer has no row";
        return Err(StoreError::new(ErrorKind::WrongSchema, Verb::Relay, detail));
    };
    row::expect_name(&row, name, Verb::Relay)?;
    Ok(row)
}
