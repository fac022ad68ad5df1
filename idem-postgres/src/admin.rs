//! The operator's verbs.

use idem_core::admin::{Admin, Filter, Forgotten, StateFilter, Stats};
use idem_core::async_trait;
use idem_core::cursor::ListPosition;
use idem_core::error::{StoreError, Verb};
use idem_core::key::Scope;
use idem_core::record::Fence;
use idem_core::store::{Cursor, Page, page_size};
use idem_core::time::Timestamp;

use crate::arguments::Arguments;
use crate::failure::Fault;
use crate::row::value;
use crate::store::PostgresStore;
use crate::verbs;

#[async_trait]
impl Admin for PostgresStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        let verb = Verb::Stats;
        let (statement, arguments) = (&self.shared.statements.stats, Arguments::of("stats", verb));
        let row = self.shared.row("stats", statement, arguments, verb, false).await;
        let row = row.map_err(Fault::into_error)?;
        let count = |index| value::<i64>(&row, index, verb).map(unsigned);
        let now = Timestamp::from_unix_micros(value(&row, 1, verb)?);
        let oldest: Option<i64> = value(&row, 5, verb)?;
        let (live, lapsed_begun, lapsed_not_begun) = (count(2)?, count(3)?, count(4)?);
        let (all, expired) = (count(6)?, count(7)?);
        let in_progress = live + lapsed_begun + lapsed_not_begun;
        Ok(Stats {
            live,
            lapsed_begun,
            lapsed_not_begun,
            completed: all.saturating_sub(in_progress + expired),
            expired,
            oldest_lapse: oldest.map(|until| now.since(Timestamp::from_unix_micros(until))),
            outbox_pending: Some(count(8)?),
        })
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let verb = Verb::List;
        let after = after.map(ListPosition::from_cursor).transpose()?;
        let statements = &self.shared.statements;
        let after = after.as_ref();
        let past = |scope: &Scope| after.is_some_and(|after| after.scope > *scope);
        let (statement, scope) = match &filter.scope {
            Some(scope) if past(scope) => return Ok(Page::default()),
            Some(scope) => (&statements.list_in_scope, scope.as_bytes()),
            None => (&statements.list, after.map_or([].as_slice(), |at| at.scope.as_bytes())),
        };
        // Within a scope, a cursor of an earlier one is before its first key.
        let key = after.filter(|after| after.scope.as_bytes() == scope);
        let arguments = Arguments::of("list", verb)
            .add(scope)
            .add(key.map_or([].as_slice(), |at| at.key.as_bytes()))
            .add(i64::from(page_size(limit)))
            .add(filter.operation.as_ref().map(|operation| operation.as_str().as_bytes()))
            .add(filter.state.map(|state| match state {
                StateFilter::Live => "live",
                StateFilter::Lapsed => "lapsed",
                StateFilter::Completed => "completed",
            }));
        let rows = self.shared.rows(statement, arguments, verb, false).await;
        let rows = rows.map_err(Fault::into_error)?;
        verbs::page(rows, "list", limit, verb, |last| Some(ListPosition::of(last).to_cursor()))
    }

    async fn forget(&self, scope: &Scope, limit: u32) -> Result<Forgotten, StoreError> {
        let verb = Verb::Forget;
        let arguments = || {
            Arguments::of("forget", verb)
                .add(scope.as_bytes())
                .add(i64::from(page_size(limit)))
                .add(self.shared.lock_wait.as_str())
        };
        let statement = &self.shared.statements.forget;
        let row = self.shared.row_again("forget", statement, arguments, verb).await?;
        Ok(Forgotten {
            deleted: unsigned(value(&row, 1, verb)?),
            more: value(&row, 2, verb)?,
            in_progress: unsigned(value(&row, 3, verb)?),
        })
    }

    async fn remove(&self, fence: &Fence) -> Result<(), StoreError> {
        verbs::remove(&self.shared, fence).await
    }
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
