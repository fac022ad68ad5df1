//! [`Outbox`] on MySQL and MariaDB.

use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::error::{StoreError, Verb};
use idem_core::outbox::{
    Backlog, EntryPage, EntryPosition, LeaseMessages, LeasedBatch, Lost, MessageId, MessageLease,
    MessageState, Outbox, Settlement, within_page,
};
use idem_core::store::{Cursor, Swept, page_size};
use idem_core::time::{Timestamp, bounded_lease};

use crate::failure::Fault;
use crate::outbox::jobs::{DeadLetters, DeleteSent, Lease, Renew, Settle};
use crate::outbox::{rows, work};
use crate::row;
use crate::store::Shared;

/// The outbox of a store.
pub(crate) struct MysqlOutbox {
    pub(super) shared: Arc<Shared>,
}

impl MysqlOutbox {
    async fn read(
        &self,
        statement: &str,
        values: Vec<mysql_async::Value>,
        verb: Verb,
    ) -> Result<Vec<mysql_async::Row>, StoreError> {
        let via = &mut self.shared.own(verb).await?;
        let read = async { via.rows(statement, values, verb).await.map_err(Fault::into_error) };
        self.shared.within(verb, false, read).await
    }
}

#[async_trait]
impl Outbox for MysqlOutbox {
    async fn lease(&self, call: &LeaseMessages) -> Result<LeasedBatch, StoreError> {
        let shared = &self.shared;
        let alone = Some(shared.statements.outbox.alone.as_str());
        let messages = work::run(shared, alone, &Lease { shared, call }).await?;
        Ok(LeasedBatch { messages, remaining: bounded_lease(call.lease) })
    }

    async fn renew(&self, leases: &[MessageLease], lease: Duration) -> Result<Lost, StoreError> {
        within_page(leases.len())?;
        let statements = &self.shared.statements.outbox;
        let job = Renew { statements, leases, lease };
        work::run(&self.shared, Some(&statements.shared), &job).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Lost, StoreError> {
        within_page(settlements.len())?;
        let statements = &self.shared.statements.outbox;
        let job = Settle { statements, settlements };
        work::run(&self.shared, Some(&statements.shared), &job).await
    }

    async fn list(
        &self,
        state: MessageState,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<EntryPage, StoreError> {
        let after = EntryPosition::number_after(state, after)?;
        let code = match state {
            MessageState::Waiting => 0,
            MessageState::Sent => 1,
            MessageState::Dead => 2,
            _ => return Ok(EntryPage::default()),
        };
        let limit = page_size(limit);
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let values = vec![code.into(), after.into(), (u64::from(limit) + 1).into()];
        let found = self.read(&self.shared.statements.outbox.list, values, Verb::List).await?;
        let more = found.len() > limit as usize;
        let mut entries = Vec::with_capacity(found.len());
        for row in found.into_iter().take(limit as usize) {
            entries.push(rows::entry(row, state)?);
        }
        let last = entries.last().filter(|_| more);
        let next = last.map(|last| EntryPosition { state, number: last.number }.to_cursor());
        Ok(EntryPage { entries, next })
    }

    async fn requeue(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        within_page(ids.len())?;
        let statements = &self.shared.statements.outbox;
        let job = DeadLetters { statements: &statements.requeue, ids };
        work::run(&self.shared, Some(&statements.shared), &job).await
    }

    async fn discard(&self, ids: &[MessageId]) -> Result<u64, StoreError> {
        within_page(ids.len())?;
        let statements = &self.shared.statements.outbox;
        let job = DeadLetters { statements: &statements.discard, ids };
        work::run(&self.shared, Some(&statements.shared), &job).await
    }

    async fn delete_sent(&self, sent_before: Duration, limit: u32) -> Result<Swept, StoreError> {
        let statements = &self.shared.statements.outbox;
        let job = DeleteSent { statements, sent_before, limit };
        work::run(&self.shared, None, &job).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let statement = &self.shared.statements.outbox.backlog;
        let mut rows = self.read(statement, Vec::new(), Verb::Relay).await?;
        let [now, waiting, leased, oldest, dead] = row::numbers(rows.pop(), Verb::Relay)?;
        let now = Timestamp::from_unix_micros(now.unwrap_or_default());
        let oldest = oldest.map(|at| now.since(Timestamp::from_unix_micros(at)));
        let count = |count: Option<i64>| count.unwrap_or_default().cast_unsigned();
        Ok(Backlog::new(count(waiting), count(leased), oldest, count(dead)))
    }
}
