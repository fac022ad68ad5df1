//! [`Admin`] on SQLite.

use std::time::Duration;

use idem_core::admin::{Admin, Filter, Forgotten, StateFilter, Stats};
use idem_core::async_trait;
use idem_core::cursor::ListPosition;
use idem_core::error::{StoreError, Verb};
use idem_core::key::Scope;
use idem_core::record::{Fence, Observed};
use idem_core::store::{Cursor, Page, page_size};
use idem_core::time::Timestamp;

use crate::error;
use crate::sql::{SORT_COMPLETED, SORT_EXPIRED, SORT_LAPSED, SORT_LIVE};
use crate::store::SqliteStore;

#[async_trait]
impl Admin for SqliteStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        let failed = |error| error::before_commit(Verb::Stats, error);
        let (shared, now) = (&self.shared, self.shared.clock.now());
        let counts: Vec<Count> = sqlx::query_as(shared.statements.stats.clone())
            .bind(now.as_unix_micros())
            .fetch_all(&shared.pools.readers)
            .await
            .map_err(failed)?;
        let pending: i64 = sqlx::query_scalar(shared.statements.outbox_pending.clone())
            .fetch_one(&shared.pools.readers)
            .await
            .map_err(failed)?;
        let outbox_pending = Some(pending.unsigned_abs());
        let mut stats = Stats { outbox_pending, ..Stats::default() };
        for count in counts {
            add(&mut stats, count, now);
        }
        Ok(stats)
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let after = after.map(ListPosition::from_cursor).transpose()?;
        let (limit, now) = (page_size(limit), self.shared.clock.now());
        let statements = &self.shared.statements;
        let (statement, scope, key) = match (&filter.scope, &after) {
            (None, None) => (&statements.list, &b""[..], &b""[..]),
            (None, Some(at)) => (&statements.list, at.scope.as_bytes(), at.key.as_bytes()),
            (Some(scope), None) => (&statements.list_in_scope, scope.as_bytes(), &b""[..]),
            (Some(scope), Some(at)) => match at.scope.cmp(scope) {
                // Pages are in the order of the scopes, so the cursor stands before or after it.
                std::cmp::Ordering::Less => (&statements.list_in_scope, scope.as_bytes(), &b""[..]),
                std::cmp::Ordering::Equal => {
                    (&statements.list_in_scope, scope.as_bytes(), at.key.as_bytes())
                }
                std::cmp::Ordering::Greater => return Ok(Page::default()),
            },
        };
        let query = sqlx::query(statement.clone())
            .bind(now.as_unix_micros())
            .bind(i64::from(limit) + 1)
            .bind(scope)
            .bind(key)
            .bind(filter.operation.as_ref().map(|operation| operation.as_str().as_bytes()))
            .bind(filter.state.map(|state| match state {
                StateFilter::Live => SORT_LIVE,
                StateFilter::Lapsed => SORT_LAPSED,
                StateFilter::Completed => SORT_COMPLETED,
            }));
        let cursor = |last: &Observed| Some(ListPosition::of(last).to_cursor());
        self.shared.page(Verb::List, query, now, limit, cursor).await
    }

    async fn forget(&self, scope: &Scope, limit: u32) -> Result<Forgotten, StoreError> {
        let failed = |error| error::before_commit(Verb::Forget, error);
        let shared = &self.shared;
        let mut transaction = shared.pools.begin(Verb::Forget).await?;
        let forget = sqlx::query(shared.statements.forget.clone());
        let forget = forget.bind(scope.as_bytes()).bind(i64::from(page_size(limit)));
        let forgotten = forget.execute(&mut *transaction).await.map_err(failed)?;
        let counts = sqlx::query_as(shared.statements.count_scope.clone());
        let counts = counts.bind(scope.as_bytes()).fetch_one(&mut *transaction).await;
        let (left, in_progress): (i64, i64) = counts.map_err(failed)?;
        transaction.commit().await.map_err(|error| error::at_commit(Verb::Forget, error))?;
        Ok(Forgotten {
            deleted: forgotten.rows_affected(),
            in_progress: in_progress.unsigned_abs(),
            more: left > 0,
        })
    }

    async fn remove(&self, fence: &Fence) -> Result<(), StoreError> {
        self.remove_under(fence).await
    }
}

/// The sort, whether it began, how many there are, and the end of the oldest lease.
type Count = (i64, bool, i64, Option<i64>);

fn add(stats: &mut Stats, (sort, began, count, oldest): Count, now: Timestamp) {
    let count = count.unsigned_abs();
    match sort {
        SORT_LAPSED => {
            let since = oldest.map(|oldest| now.since(Timestamp::from_unix_micros(oldest)));
            stats.oldest_lapse = stats.oldest_lapse.max(since.or(Some(Duration::ZERO)));
            if began {
                stats.lapsed_begun += count;
            } else {
                stats.lapsed_not_begun += count;
            }
        }
        SORT_COMPLETED => stats.completed += count,
        SORT_EXPIRED => stats.expired += count,
        _ => stats.live += count,
    }
}
