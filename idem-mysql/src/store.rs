//! The eight verbs on a pool.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
use mysql_async::Pool;

use crate::config::MysqlStoreBuilder;
use crate::session::Lender;
use crate::sql::{Statements, Tables};
use crate::{claim, sweep, verbs};

/// The most bytes of inputs, recovery points and replies in one page of `lapsed` or `list`. A page
/// is cut there; it holds one record at least.
pub const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;

/// What one row may have beside its long values.
const ROW_OVERHEAD: usize = 64 * 1024;

/// A store in a MySQL or MariaDB database. Clones share their connections.
///
/// [`connect`](Self::connect) opens one, [`builder`](Self::builder) sets it up first.
#[derive(Clone)]
pub struct MysqlStore {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    /// Connections for the verbs.
    pub(crate) verbs: Lender,
    /// Connections for transactions that handlers hold.
    pub(crate) transactions: Lender,
    pub(crate) settings: MysqlStoreBuilder,
    pub(crate) tables: Tables,
    pub(crate) statements: Statements,
    /// The server's `max_allowed_packet`, in bytes; as it was when the store was opened.
    pub(crate) max_packet: AtomicUsize,
}

impl Shared {
    /// The longest value: what is configured, and no more than lets a row with an input and a
    /// recovery point, or a statement with one of them, through as one packet.
    pub(crate) fn max_value_bytes(&self) -> usize {
        let packet = self.max_packet.load(Ordering::Relaxed);
        self.settings.max_value_bytes.min(packet.saturating_sub(ROW_OVERHEAD) / 2)
    }
}

impl MysqlStore {
    /// The pool of the verbs. Its connections have settings of the store's own: statements are
    /// sent as bytes and commit by themselves.
    pub fn pool(&self) -> &Pool {
        &self.shared.verbs.pool
    }

    /// The longest reply, input or recovery point that this store takes, in bytes: the
    /// configured limit, or what the server's `max_allowed_packet` leaves.
    pub fn max_value_bytes(&self) -> usize {
        self.shared.max_value_bytes()
    }

    /// Closes the connections, once each has been given back; those of a pool of the caller's too.
    ///
    /// # Cancel safety
    /// No connection is lent any more; the others close as they come back.
    pub async fn close(&self) {
        // It fails only where it was closed before.
        let _ = self.shared.verbs.pool.clone().disconnect().await;
        let _ = self.shared.transactions.pool.clone().disconnect().await;
    }
}

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlStore")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MysqlStore {
    async fn claim(&self, asked: &Claim<'_>) -> Result<Claimed, StoreError> {
        let shared = &self.shared;
        let via = &mut shared.own(Verb::Claim).await?;
        shared.within(Verb::Claim, true, claim::claim(shared, via, asked)).await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        let shared = &self.shared;
        let via = &mut shared.own(Verb::Renew).await?;
        let work = verbs::renew(shared, via, fence, lease);
        shared.within(Verb::Renew, true, work).await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let shared = &self.shared;
        let via = &mut shared.own(Verb::Checkpoint).await?;
        let work = verbs::checkpoint(shared, via, fence, recovery, lease);
        shared.within(Verb::Checkpoint, true, work).await.map(|(_, lease)| lease)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        let shared = &self.shared;
        let via = &mut shared.own(Verb::Complete).await?;
        let work = verbs::complete(shared, via, fence, reply);
        shared.within(Verb::Complete, true, work).await.map(|_| ())
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let shared = &self.shared;
        let via = &mut shared.own(Verb::Release).await?;
        let work = verbs::release(shared, via, fence);
        shared.within(Verb::Release, true, work).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let shared = &self.shared;
        let via = &mut shared.own(Verb::Get).await?;
        let work = verbs::find(shared, via, scope, key, Verb::Get);
        let found = shared.within(Verb::Get, false, work).await?;
        Ok(found.and_then(|found| {
            let visible = transition::visible(Some(&found.record), found.now).is_some();
            visible.then_some(Observed { record: found.record, now: found.now })
        }))
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        let after = after.map(LapsedPosition::from_cursor).transpose()?;
        let (until, scope, key) = match &after {
            Some(at) => (at.locked_until.as_unix_micros(), at.scope.as_bytes(), at.key.as_bytes()),
            None => (i64::MIN, [].as_slice(), [].as_slice()),
        };
        let parameters = vec![until.into(), until.into(), scope.into(), scope.into(), key.into()];
        let pages = &self.shared.statements.lapsed;
        let cursor = |last: &Observed| Some(LapsedPosition::of(last)?.to_cursor());
        self.page(pages, parameters, page_size(limit), Verb::Lapsed, cursor).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        sweep::sweep(&self.shared, page_size(limit)).await
    }
}
