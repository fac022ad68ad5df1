//! The eight verbs on a pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::cursor::LapsedPosition;
use idem_core::error::{StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept, page_size};
use idem_core::transition;
use sqlx::{PgPool, SqlStr};

use crate::arguments::Arguments;
use crate::config::PostgresStoreBuilder;
use crate::sql::{Statements, Tables};
use crate::verbs::{Via, lapsed_page};
use crate::{row, verbs};

/// The most bytes of inputs, recovery points and replies in one page of `lapsed` or `list`. A page
/// is cut there; it holds one record at least.
pub const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;

/// A store in a Postgres database. Clones share their connections.
///
/// [`connect`](Self::connect) opens one, [`builder`](Self::builder) sets it up first.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    /// For the verbs.
    pub(crate) pool: PgPool,
    /// For transactions that handlers hold.
    pub(crate) transactions: PgPool,
    pub(crate) settings: PostgresStoreBuilder,
    pub(crate) tables: Tables,
    pub(crate) statements: Statements,
    /// Begins the transaction of one verb, behind a transaction-pooling proxy.
    pub(crate) begin_verb: SqlStr,
    /// Begins a handler's transaction.
    pub(crate) begin_transaction: SqlStr,
    /// The bound on waits for locks, as the server's setting takes it.
    pub(crate) lock_wait: String,
}

impl PostgresStore {
    /// The pool of the verbs.
    pub fn pool(&self) -> &PgPool {
        &self.shared.pool
    }

    /// Closes the connections, once each has been given back; those of a pool of the caller's too.
    ///
    /// # Cancel safety
    /// No connection is lent any more; the others close as they come back.
    pub async fn close(&self) {
        self.shared.pool.close().await;
        self.shared.transactions.close().await;
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        crate::claim::claim(&self.shared, &mut Via::Pool, claim).await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        verbs::renew(&self.shared, fence, lease).await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let via = &mut Via::Pool;
        verbs::checkpoint(&self.shared, via, fence, recovery, lease).await.map(|(_, lease)| lease)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        verbs::complete(&self.shared, &mut Via::Pool, fence, reply).await.map(|_| ())
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        verbs::release(&self.shared, fence).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let (found, now) = verbs::find(&self.shared, &mut Via::Pool, scope, key, Verb::Get).await?;
        let visible = transition::visible(found.as_ref(), now).is_some();
        Ok(found.filter(|_| visible).map(|record| Observed { record, now }))
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        let after = after.map(LapsedPosition::from_cursor).transpose()?;
        let (until, scope, key) = match &after {
            Some(at) => (at.locked_until.as_unix_micros(), at.scope.as_bytes(), at.key.as_bytes()),
            None => (i64::MIN, [].as_slice(), [].as_slice()),
        };
        let arguments = Arguments::of("lapsed", Verb::Lapsed)
            .add(i64::from(page_size(limit)))
            .add(until)
            .add(scope)
            .add(key);
        lapsed_page(&self.shared, arguments, limit).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        let verb = Verb::Sweep;
        let arguments = || {
            Arguments::of("sweep", verb)
                .add(i64::from(page_size(limit)))
                .add(self.shared.lock_wait.as_str())
        };
        let statement = &self.shared.statements.sweep;
        let row = self.shared.row_again("sweep", statement, arguments, verb).await?;
        let deleted: i64 = row::value(&row, 1, verb)?;
        Ok(Swept {
            deleted: u32::try_from(deleted).unwrap_or(u32::MAX),
            more: row::value(&row, 2, verb)?,
        })
    }
}
