//! [`Store`] on SQLite. Each verb takes the write lock, reads the row, asks the pure rule with
//! the time read inside the lock, writes what it says, and commits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::cursor::LapsedPosition;
use idem_core::error::{StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, Observed, Record, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept, page_size};
use idem_core::time::{Clock, Timestamp};
use idem_core::transition::{self, Change, Decision};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Sqlite, SqliteConnection};

use crate::error;
use crate::pool::Pools;
use crate::row;
use crate::sql::{Statements, Tables};

/// A page ends early once the inputs, recovery points and replies in it have more bytes than this,
/// 16 MiB; its cursor goes on from there.
pub const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;

/// A store in an SQLite file. Clones share its connections.
///
/// See the [crate's page](crate) for how to open one.
#[derive(Clone)]
pub struct SqliteStore {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) pools: Pools,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tables: Tables,
    pub(crate) statements: Statements,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("records", &self.shared.tables.records)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Closes the connections, of every clone. A call after this is an error of kind
    /// [`NotApplied`](idem_core::error::ErrorKind::NotApplied).
    ///
    /// Dropping the last clone closes them too, a moment later.
    pub async fn close(&self) {
        self.shared.pools.close().await;
    }

    async fn decide<T: Send>(
        &self,
        verb: Verb,
        (scope, key): (&Scope, &Key),
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T> + Send,
    ) -> Result<T, StoreError> {
        let shared = &self.shared;
        let mut transaction = shared.pools.begin(verb).await?;
        let found = shared.find(&mut transaction, verb, scope, key).await?;
        let decision = rule(found.as_ref(), shared.clock.now());
        if matches!(decision.change, Change::None) {
            // Nothing is to be kept. If this fails, the pool closes the connection.
            let _ = transaction.rollback().await;
        } else {
            shared.apply(&mut transaction, verb, scope, key, &decision.change).await?;
            if let Err(error) = transaction.commit().await {
                return Err(shared.not_committed(verb, scope, key, found.as_ref(), error).await);
            }
        }
        decision.outcome.map_err(|refusal| refusal.at(verb))
    }

    async fn decide_under<T: Send>(
        &self,
        verb: Verb,
        fence: &Fence,
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T> + Send,
    ) -> Result<T, StoreError> {
        self.decide(verb, (&fence.scope, &fence.key), rule).await
    }

    /// [`Admin::remove`](idem_core::admin::Admin::remove).
    pub(crate) async fn remove_under(&self, fence: &Fence) -> Result<(), StoreError> {
        self.decide_under(Verb::Remove, fence, |found, _| transition::remove(found, fence)).await
    }
}

impl Shared {
    /// Reads one row. Within a write transaction it stays as it was read.
    pub(crate) async fn find(
        &self,
        connection: &mut SqliteConnection,
        verb: Verb,
        scope: &Scope,
        key: &Key,
    ) -> Result<Option<Record>, StoreError> {
        let query = sqlx::query(self.statements.find.clone());
        let found = query.bind(scope.as_bytes()).bind(key.as_bytes());
        let found = found.fetch_optional(connection).await;
        let found = found.map_err(|error| error::before_commit(verb, error))?;
        found.map(|row| row::decode(&row, verb)).transpose()
    }

    /// Writes what a rule said.
    pub(crate) async fn apply(
        &self,
        connection: &mut SqliteConnection,
        verb: Verb,
        scope: &Scope,
        key: &Key,
        change: &Change,
    ) -> Result<(), StoreError> {
        let query = match change {
            Change::None => return Ok(()),
            Change::Put(record) => row::bind(sqlx::query(self.statements.put.clone()), record),
            Change::Delete => {
                let query = sqlx::query(self.statements.delete.clone());
                query.bind(scope.as_bytes()).bind(key.as_bytes())
            }
        };
        let done = query.execute(connection).await;
        let done = done.map_err(|error| error::before_commit(verb, error))?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(error::interfered(verb)) }
    }

    /// The error of a commit of one record. A disk that was full while the commit was being
    /// written is common enough to look: under the write lock, a record that stands as it was
    /// found says that the commit did not happen.
    async fn not_committed(
        &self,
        verb: Verb,
        scope: &Scope,
        key: &Key,
        found: Option<&Record>,
        error: sqlx::Error,
    ) -> StoreError {
        if error::is_full(&error)
            && let Ok(mut transaction) = self.pools.begin(verb).await
            && let Ok(standing) = self.find(&mut transaction, verb, scope, key).await
            && standing.as_ref() == found
        {
            return error::before_commit(verb, error);
        }
        error::at_commit(verb, error)
    }

    /// Reads a page of at most `limit` records from a query that asks for one more.
    pub(crate) async fn page(
        &self,
        verb: Verb,
        query: Query<'_, Sqlite, SqliteArguments>,
        now: Timestamp,
        limit: u32,
        cursor: impl Fn(&Observed) -> Option<Cursor>,
    ) -> Result<Page, StoreError> {
        let failed = |error| error::before_commit(verb, error);
        let mut page = Page::default();
        let mut bytes = 0;
        let mut rows = query.fetch(&self.pools.readers);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            if page.records.len() == limit as usize || bytes > MAX_PAGE_BYTES {
                page.next = page.records.last().and_then(cursor);
                break;
            }
            let observed = Observed { record: row::decode(&row, verb)?, now };
            bytes += row::payload_bytes(&observed.record);
            page.records.push(observed);
        }
        Ok(page)
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.decide(Verb::Claim, (claim.scope, claim.key), |found, now| {
            transition::claim(found, claim, now, Incarnation::random())
        })
        .await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.decide_under(Verb::Renew, fence, |found, now| {
            transition::renew(found, fence, lease, now)
        })
        .await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.decide_under(Verb::Checkpoint, fence, |found, now| {
            transition::checkpoint(found, fence, recovery, lease, now)
        })
        .await
        .map(|(_, lease)| lease)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        self.decide_under(Verb::Complete, fence, |found, now| {
            transition::complete(found, fence, reply, now)
        })
        .await
        .map(|_| ())
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.decide_under(Verb::Release, fence, |found, now| transition::release(found, fence, now))
            .await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let reader = self.shared.pools.readers.acquire().await;
        let mut reader = reader.map_err(|error| error::before_commit(Verb::Get, error))?;
        let found = self.shared.find(&mut reader, Verb::Get, scope, key).await?;
        let now = self.shared.clock.now();
        Ok(transition::visible(found.as_ref(), now)
            .map(|record| Observed { record: record.clone(), now }))
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        let after = after.map(LapsedPosition::from_cursor).transpose()?;
        let (limit, now) = (page_size(limit), self.shared.clock.now());
        let statements = &self.shared.statements;
        let statement = match after {
            None => &statements.lapsed,
            Some(_) => &statements.lapsed_after,
        };
        let query = sqlx::query(statement.clone());
        let mut query = query.bind(now.as_unix_micros()).bind(i64::from(limit) + 1);
        if let Some(after) = &after {
            query = query
                .bind(after.locked_until.as_unix_micros())
                .bind(after.scope.as_bytes())
                .bind(after.key.as_bytes());
        }
        let cursor = |last: &Observed| LapsedPosition::of(last).map(|at| at.to_cursor());
        self.shared.page(Verb::Lapsed, query, now, limit, cursor).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        let failed = |error| error::before_commit(Verb::Sweep, error);
        let shared = &self.shared;
        let mut transaction = shared.pools.begin(Verb::Sweep).await?;
        let now = shared.clock.now().as_unix_micros();
        let sweep = sqlx::query(shared.statements.sweep.clone());
        let sweep = sweep.bind(now).bind(i64::from(page_size(limit)));
        let swept = sweep.execute(&mut *transaction).await.map_err(failed)?;
        let more = sqlx::query_scalar(shared.statements.sweep_more.clone());
        let more = more.bind(now).fetch_one(&mut *transaction).await.map_err(failed)?;
        transaction.commit().await.map_err(|error| error::at_commit(Verb::Sweep, error))?;
        let deleted = u32::try_from(swept.rows_affected()).unwrap_or(u32::MAX);
        Ok(Swept { deleted, more })
    }
}
