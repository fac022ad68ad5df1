//! [`Outbox`] on SQLite. Each verb takes the write lock first, so that what it reads is true
//! until it has written.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use idem_core::async_trait;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::{
    Backlog, EntryPage, EntryPosition, LeaseMessages, Leased, LeasedBatch, Lost, MAX_LEASED_BYTES,
    MessageId, MessageLease, MessageState, Outbox, SettleAs, Settlement, within_page,
};
use idem_core::store::{Cursor, Swept, page_size};
use idem_core::time::{Timestamp, bounded_lease};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{SqlStr, Sqlite, Transaction};

use crate::error;
use crate::outbox::rows::{self, Due};
use crate::outbox::statements::OutboxStatements;
use crate::store::Shared;

/// The outbox of a store.
pub(crate) struct SqliteOutbox {
    shared: Arc<Shared>,
    statements: OutboxStatements,
}

type Open = Transaction<'static, Sqlite>;

impl SqliteOutbox {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let statements = OutboxStatements::new(&shared.tables);
        Self { shared, statements }
    }

    async fn begin(&self) -> Result<(Open, Timestamp), StoreError> {
        let transaction = self.shared.pools.begin(Verb::Relay).await?;
        Ok((transaction, self.shared.clock.now()))
    }

    /// Reads what is due up to the bound on bytes, or up to what cannot be read.
    async fn due(
        &self,
        transaction: &mut Open,
        call: &LeaseMessages,
        now: Timestamp,
    ) -> Result<Vec<Due>, StoreError> {
        let query = sqlx::query(self.statements.due.clone());
        let query = query
            .bind(now.as_unix_micros())
            .bind(i64::from(page_size(call.limit)))
            .bind(call.past_dead);
        let mut found = query.fetch(&mut **transaction);
        let (mut due, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.try_next().await.map_err(failed)? {
            let next = rows::due(&row).map_err(failed)?;
            bytes += next.message.as_ref().map_or(0, |message| message.payload().len());
            if bytes > MAX_LEASED_BYTES && !due.is_empty() {
                break;
            }
            let unreadable = next.message.is_none();
            due.push(next);
            if unreadable {
                break;
            }
        }
        Ok(due)
    }

    /// Runs one statement for each id, and counts the rows that changed.
    async fn for_each(&self, statement: &SqlStr, ids: &[MessageId]) -> Result<u64, StoreError> {
        within_page(ids.len())?;
        let (mut transaction, _) = self.begin().await?;
        let mut changed = 0;
        for id in ids {
            let query = sqlx::query(statement.clone()).bind(id.as_bytes().as_slice());
            changed += run(&mut transaction, query).await?;
        }
        commit(transaction).await?;
        Ok(changed)
    }

    fn settling<'q>(
        &self,
        settlement: &'q Settlement,
        now: Timestamp,
    ) -> Result<Query<'q, Sqlite, SqliteArguments>, StoreError> {
        let statements = &self.statements;
        let under = |statement: &SqlStr| {
            sqlx::query(statement.clone())
                .bind(settlement.lease.id.as_bytes().as_slice())
                .bind(settlement.lease.owner.as_bytes().as_slice())
        };
        Ok(match &settlement.outcome {
            SettleAs::Sent => under(&statements.sent).bind(now.as_unix_micros()),
            SettleAs::Failed { retry_after, reason } => {
                let next = now.after(*retry_after).as_unix_micros();
                under(&statements.failed).bind(next).bind(reason)
            }
            SettleAs::Dead { reason } => under(&statements.dead).bind(reason),
            SettleAs::GivenBack => under(&statements.given_back),
            _ => {
                let detail = "this build does not know the settlement";
                return Err(StoreError::new(ErrorKind::InvalidInput, Verb::Relay, detail));
            }
        })
    }
}

#[async_trait]
impl Outbox for SqliteOutbox {
    async fn lease(&self, call: &LeaseMessages) -> Result<LeasedBatch, StoreError> {
        let (mut transaction, now) = self.begin().await?;
        let mut due = self.due(&mut transaction, call, now).await?;
        if let Some(unreadable) = due.pop_if(|due| due.message.is_none()) {
            let bury = sqlx::query(self.statements.bury.clone());
            let bury = bury.bind(unreadable.number).bind(rows::UNREADABLE);
            run(&mut transaction, bury).await?;
        }
        let remaining = bounded_lease(call.lease);
        if !due.is_empty() {
            let numbers: Vec<i64> = due.iter().map(|due| due.number).collect();
            let take = sqlx::query(self.statements.take.clone())
                .bind(serde_json::json!(numbers).to_string())
                .bind(call.owner.as_bytes().as_slice())
                .bind(now.after(remaining).as_unix_micros());
            if run(&mut transaction, take).await? != numbers.len() as u64 {
                return Err(error::interfered(Verb::Relay));
            }
        }
        commit(transaction).await?;
        let leased = due.into_iter().filter_map(|due| {
            let message = due.message?;
            let lease = MessageLease { id: message.id(), owner: call.owner };
            Some(Leased { message, lease, failures: due.failures, lapses: due.lapses })
        });
        Ok(LeasedBatch { messages: leased.collect(), remaining })
    }

    async fn renew(&self, leases: &[MessageLease], lease: Duration) -> Result<Lost, StoreError> {
        within_page(leases.len())?;
        let (mut transaction, now) = self.begin().await?;
        let until = now.after(bounded_lease(lease)).as_unix_micros();
        let mut lost = Lost::default();
        for lease in leases {
            let renew = sqlx::query(self.statements.renew.clone())
                .bind(lease.id.as_bytes().as_slice())
                .bind(lease.owner.as_bytes().as_slice())
                .bind(until);
            if run(&mut transaction, renew).await? == 0 {
                lost.ids.push(lease.id);
            }
        }
        commit(transaction).await?;
        Ok(lost)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Lost, StoreError> {
        within_page(settlements.len())?;
        let (mut transaction, now) = self.begin().await?;
        let mut lost = Lost::default();
        for settlement in settlements {
            if run(&mut transaction, self.settling(settlement, now)?).await? > 0 {
                continue;
            }
            let settled = sqlx::query_scalar(self.statements.was_settled.clone())
                .bind(settlement.lease.id.as_bytes().as_slice())
                .bind(settlement.lease.owner.as_bytes().as_slice());
            if !settled.fetch_one(&mut *transaction).await.map_err(failed)? {
                lost.ids.push(settlement.lease.id);
            }
        }
        commit(transaction).await?;
        Ok(lost)
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
        let query = sqlx::query(statement.clone())
            .bind(i64::try_from(after).unwrap_or(i64::MAX))
            .bind(i64::from(limit) + 1);
        let found = query.fetch_all(&self.shared.pools.readers).await.map_err(failed)?;
        let now = self.shared.clock.now();
        let entries = found.iter().take(limit as usize).map(|row| rows::entry(row, state, now));
        let entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let last = entries.last().filter(|_| found.len() > limit as usize);
        let next = last.map(|last| EntryPosition { state, number: last.number }.to_cursor());
        Ok(EntryPage { entries, next })
    }

    async fn requeue(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        self.for_each(&self.statements.requeue, ids).await
    }

    async fn discard(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        self.for_each(&self.statements.discard, ids).await
    }

    async fn delete_sent(&self, sent_before: Duration, limit: u32) -> Result<Swept, StoreError> {
        let (mut transaction, now) = self.begin().await?;
        let latest = now.before(sent_before).as_unix_micros();
        let delete = sqlx::query(self.statements.delete_sent.clone());
        let delete = delete.bind(latest).bind(i64::from(page_size(limit)));
        let deleted = run(&mut transaction, delete).await?;
        let more = sqlx::query_scalar(self.statements.more_sent.clone()).bind(latest);
        let more = more.fetch_one(&mut *transaction).await.map_err(failed)?;
        commit(transaction).await?;
        Ok(Swept { deleted: u32::try_from(deleted).unwrap_or(u32::MAX), more })
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let now = self.shared.clock.now();
        let query =
            sqlx::query_as::<_, (i64, i64, Option<i64>, i64)>(self.statements.backlog.clone());
        let counted = query.bind(now.as_unix_micros()).fetch_one(&self.shared.pools.readers).await;
        let (waiting, leased, oldest, dead) = counted.map_err(failed)?;
        let oldest = oldest.map(|at| now.since(Timestamp::from_unix_micros(at)));
        let count = i64::cast_unsigned;
        Ok(Backlog::new(count(waiting), count(leased), oldest, count(dead)))
    }
}

async fn run(
    transaction: &mut Open,
    query: Query<'_, Sqlite, SqliteArguments>,
) -> Result<u64, StoreError> {
    query.execute(&mut **transaction).await.map(|done| done.rows_affected()).map_err(failed)
}

async fn commit(transaction: Open) -> Result<(), StoreError> {
    transaction.commit().await.map_err(|error| error::at_commit(Verb::Relay, error))
}

fn failed(error: sqlx::Error) -> StoreError {
    error::before_commit(Verb::Relay, error)
}
