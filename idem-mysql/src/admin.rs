//! The operator's verbs, and pages.

use idem_core::admin::{Admin, Filter, Forgotten, StateFilter, Stats};
use idem_core::async_trait;
use idem_core::cursor::ListPosition;
use idem_core::error::{StoreError, Verb};
use idem_core::key::Scope;
use idem_core::record::{Fence, Observed};
use idem_core::store::{Cursor, Page, page_size};
use idem_core::time::Timestamp;
use mysql_async::Value;

use crate::failure::Fault;
use crate::row;
use crate::sql::Pages;
use crate::store::{MAX_PAGE_BYTES, MysqlStore};
use crate::{sweep, verbs};

#[async_trait]
impl Admin for MysqlStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        let verb = Verb::Stats;
        let statement = &self.shared.statements.stats;
        let via = &mut self.shared.own(verb).await?;
        let read = async { via.rows(statement, Vec::new(), verb).await.map_err(Fault::into_error) };
        let mut rows = self.shared.within(verb, false, read).await?;
        let [now, live, begun, not_begun, oldest, all, expired, waiting] =
            row::numbers(rows.pop(), verb)?;
        let now = Timestamp::from_unix_micros(now.unwrap_or_default());
        let (live, lapsed_begun, lapsed_not_begun) =
            (unsigned(live), unsigned(begun), unsigned(not_begun));
        let (all, expired) = (unsigned(all), unsigned(expired));
        let in_progress = live + lapsed_begun + lapsed_not_begun;
        Ok(Stats {
            live,
            lapsed_begun,
            lapsed_not_begun,
            completed: all.saturating_sub(in_progress + expired),
            expired,
            oldest_lapse: oldest.map(|until| now.since(Timestamp::from_unix_micros(until))),
            outbox_pending: Some(unsigned(waiting)),
        })
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let after = after.map(ListPosition::from_cursor).transpose()?;
        let after = after.as_ref();
        let past = |scope: &Scope| after.is_some_and(|after| after.scope > *scope);
        let statements = &self.shared.statements;
        let (pages, mut parameters): (_, Vec<Value>) = match &filter.scope {
            Some(scope) if past(scope) => return Ok(Page::default()),
            Some(scope) => {
                // Within a scope, a cursor of an earlier one is before its first key.
                let key = after.filter(|after| after.scope == *scope);
                let key = key.map_or([].as_slice(), |at| at.key.as_bytes());
                (&statements.list_in_scope, vec![scope.as_bytes().into(), key.into()])
            }
            None => {
                let scope = after.map_or([].as_slice(), |at| at.scope.as_bytes());
                let key = after.map_or([].as_slice(), |at| at.key.as_bytes());
                (&statements.list, vec![scope.into(), scope.into(), key.into()])
            }
        };
        let operation: Value =
            filter.operation.as_ref().map(|operation| operation.as_str().as_bytes()).into();
        let state: Value = filter
            .state
            .map(|state| match state {
                StateFilter::Live => 0,
                StateFilter::Lapsed => 1,
                StateFilter::Completed => 2,
            })
            .into();
        parameters.extend([operation.clone(), operation, state.clone(), state]);
        let cursor = |last: &Observed| Some(ListPosition::of(last).to_cursor());
        self.page(pages, parameters, page_size(limit), Verb::List, cursor).await
    }

    async fn forget(&self, scope: &Scope, limit: u32) -> Result<Forgotten, StoreError> {
        let (verb, shared) = (Verb::Forget, &self.shared);
        let limit = page_size(limit);
        let via = &mut shared.own(verb).await?;
        let work = async {
            let looked_for = &shared.statements.forgettable;
            let parameters = vec![scope.as_bytes().into(), (u64::from(limit) + 1).into()];
            let (deleted, more) =
                sweep::clear(shared, via, looked_for, parameters, limit, verb).await?;
            let scope = vec![scope.as_bytes().into()];
            let rows = via.rows(&shared.statements.in_progress, scope, verb).await;
            let [in_progress] = row::numbers(rows.map_err(Fault::into_error)?.pop(), verb)?;
            Ok(Forgotten { deleted: u64::from(deleted), in_progress: unsigned(in_progress), more })
        };
        shared.within(verb, true, work).await
    }

    async fn remove(&self, fence: &Fence) -> Result<(), StoreError> {
        let shared = &self.shared;
        let via = &mut shared.own(Verb::Remove).await?;
        shared.within(Verb::Remove, true, verbs::remove(shared, via, fence)).await
    }
}

impl MysqlStore {
    /// Reads a page. Its records are measured first, and then no more are read than fit.
    pub(crate) async fn page(
        &self,
        pages: &Pages,
        parameters: Vec<Value>,
        limit: u32,
        verb: Verb,
        cursor: impl Fn(&Observed) -> Option<Cursor> + Send + Sync,
    ) -> Result<Page, StoreError> {
        let up_to = |rows: usize| {
            let mut parameters = parameters.clone();
            parameters.push(rows.into());
            parameters
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let via = &mut self.shared.own(verb).await?;
        let read = async {
            let sizes = via.rows(&pages.sizes, up_to(limit + 1), verb).await;
            let mut bytes = Vec::with_capacity(limit + 1);
            for row in sizes.map_err(Fault::into_error)? {
                let [size] = row::numbers(Some(row), verb)?;
                bytes.push(usize::try_from(unsigned(size)).unwrap_or(usize::MAX));
            }
            let fits = fits(&bytes).min(limit);
            if fits == 0 {
                return Ok(Page::default());
            }
            let rows = via.rows(&pages.records, up_to(fits), verb).await;
            let mut page = Page::default();
            for row in rows.map_err(Fault::into_error)? {
                let found = row::found(row, verb)?;
                page.records.push(Observed { record: found.record, now: found.now });
            }
            if bytes.len() > fits && page.records.len() == fits {
                page.next = page.records.last().and_then(&cursor);
            }
            Ok(page)
        };
        self.shared.within(verb, false, read).await
    }
}

/// How many of the first records fit in a page: one at least.
fn fits(bytes: &[usize]) -> usize {
    let mut total = 0_usize;
    for (at, bytes) in bytes.iter().enumerate() {
        total = total.saturating_add(*bytes);
        if total > MAX_PAGE_BYTES {
            return at.max(1);
        }
    }
    bytes.len()
}

fn unsigned(count: Option<i64>) -> u64 {
    count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_by_its_bytes_and_holds_one_record_at_least() {
        assert_eq!(fits(&[]), 0);
        assert_eq!(fits(&[MAX_PAGE_BYTES + 1, 1]), 1);
        assert_eq!(fits(&[MAX_PAGE_BYTES, 1]), 1);
        assert_eq!(fits(&[1, 2, 3]), 3);
    }
}
