//! How a store is opened.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::preflight::Finding;
use mysql_async::prelude::Queryable;
use mysql_async::{IsolationLevel, Pool};
use tokio::time::timeout;

use crate::failure::{self, Stage};
use crate::session::{Lender, transaction_settings, verb_settings};
use crate::sql::{Clock, Statements, Tables};
use crate::store::{MysqlStore, Shared};
use crate::{preflight, schema};

/// What the tables are called unless told otherwise: `idem_records`, `idem_outbox`,
/// `idem_outbox_keys`, `idem_schema`.
pub const DEFAULT_TABLE_PREFIX: &str = "idem";

/// The longest wait that can be set: a day.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest reply, input or recovery point unless told otherwise: 4 MiB. The server's
/// `max_allowed_packet` may leave less.
pub const MAX_VALUE_BYTES: usize = 4 * 1024 * 1024;

/// How transactions of handlers are isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// As the server, or the pool of the caller's, has it: REPEATABLE READ on most.
    #[default]
    AsConfigured,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl Isolation {
    pub(crate) fn level(self) -> Option<IsolationLevel> {
        match self {
            Self::AsConfigured => None,
            Self::ReadCommitted => Some(IsolationLevel::ReadCommitted),
            Self::RepeatableRead => Some(IsolationLevel::RepeatableRead),
            Self::Serializable => Some(IsolationLevel::Serializable),
        }
    }
}

impl MysqlStore {
    /// Opens the database of a URL, `mysql://user:password@host:port/database`, and makes the
    /// tables where they are missing.
    ///
    /// # Errors
    /// Those of [`MysqlStoreBuilder::connect`].
    ///
    /// # Cancel safety
    /// The tables may have been made; connecting again is harmless.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Works on a pool of the caller's; see [`MysqlStoreBuilder::on_pool`].
    ///
    /// # Errors
    /// Those of [`MysqlStoreBuilder::connect`].
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    pub async fn new(pool: Pool) -> Result<Self, StoreError> {
        Self::builder().on_pool(pool).await
    }

    /// Settings to open a store with.
    pub fn builder() -> MysqlStoreBuilder {
        MysqlStoreBuilder::default()
    }
}

/// Settings to open a [`MysqlStore`] with. They are checked when it is opened.
///
/// ```
/// use idem_mysql::{Isolation, MysqlStore};
///
/// let builder = MysqlStore::builder().table_prefix("retry").isolation(Isolation::Serializable);
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it opens a store"]
pub struct MysqlStoreBuilder {
    pub(crate) table_prefix: String,
    pub(crate) migrates: bool,
    pub(crate) isolation: Isolation,
    pub(crate) lock_wait: Duration,
    pub(crate) call_limit: Duration,
    pub(crate) idle_transaction_limit: Duration,
    pub(crate) acquire_limit: Duration,
    pub(crate) max_connections: usize,
    pub(crate) max_transactions: usize,
    pub(crate) max_value_bytes: usize,
    pub(crate) concurrency: Option<u32>,
    clock: Clock,
}

impl Default for MysqlStoreBuilder {
    fn default() -> Self {
        Self {
            table_prefix: DEFAULT_TABLE_PREFIX.to_owned(),
            migrates: true,
            isolation: Isolation::AsConfigured,
            lock_wait: Duration::from_secs(1),
            call_limit: Duration::from_secs(10),
            idle_transaction_limit: Duration::from_secs(60),
            acquire_limit: Duration::from_secs(5),
            max_connections: 10,
            max_transactions: 10,
            max_value_bytes: MAX_VALUE_BYTES,
            concurrency: None,
            clock: Clock::default(),
        }
    }
}

impl MysqlStoreBuilder {
    /// What the names of the tables begin with, [`DEFAULT_TABLE_PREFIX`] unless set: 1 to 40 of
    /// `a`-`z`, `0`-`9` and `_`, the first one no digit.
    pub fn table_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.table_prefix = prefix.into();
        self
    }

    /// Whether opening may make the tables, or bring them to this build's version. It may, unless
    /// this says no; then tables of another version are an error of kind `WrongSchema`. Nothing
    /// is made where the version is right, so a user who only reads and writes rows is enough.
    pub fn migrates(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// How transactions of handlers are isolated; as the server has it unless set. The verbs work
    /// under any default of the server.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// How long a call waits for a lock on a record, 1 s unless set: up to [`MAX_WAIT`], in whole
    /// seconds, rounded up, since the server counts no smaller ones. A claim that waited this
    /// long says `InProgress`.
    pub fn lock_wait(mut self, limit: Duration) -> Self {
        self.lock_wait = limit;
        self
    }

    /// How long a call takes from the moment that it has a connection, 10 s unless set: 1 ms to
    /// [`MAX_WAIT`].
    pub fn call_limit(mut self, limit: Duration) -> Self {
        self.call_limit = limit;
        self
    }

    /// How long a transaction may wait for its next statement before the server ends it, 60 s
    /// unless set: up to [`MAX_WAIT`], in whole seconds, rounded up. It bounds what a client that
    /// vanished can block.
    pub fn idle_transaction_limit(mut self, limit: Duration) -> Self {
        self.idle_transaction_limit = limit;
        self
    }

    /// How long a call waits for a connection, 5 s unless set: 1 ms to [`MAX_WAIT`].
    pub fn acquire_limit(mut self, limit: Duration) -> Self {
        self.acquire_limit = limit;
        self
    }

    /// The most connections for verbs, 10 unless set. A pool of the caller's has its own setting.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// The most transactions of handlers at once, 10 unless set. They have connections of their
    /// own, so that handlers that hold all of them do not keep heartbeats waiting. A pool of the
    /// caller's has its own setting.
    pub fn max_transactions(mut self, transactions: usize) -> Self {
        self.max_transactions = transactions;
        self
    }

    /// The longest reply, input or recovery point, [`MAX_VALUE_BYTES`] unless set. A longer one
    /// is refused as `InvalidInput` before it is sent, and so is one that the server's
    /// `max_allowed_packet` does not let through.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// How many executions are meant to run at once, for
    /// [`Preflight`](idem_core::preflight::Preflight) to compare with the connections.
    pub fn concurrency(mut self, executions: u32) -> Self {
        self.concurrency = Some(executions);
        self
    }

    /// For tests: the time is what stands in the one row and column `now` of this table, in
    /// microseconds since 1970.
    #[cfg(feature = "test-clock")]
    pub fn clock_table(mut self, table: &str) -> Self {
        self.clock = Clock::table(table);
        self
    }

    /// Opens the database of a URL. Parameters of the driver may follow, such as
    /// `?client_found_rows=true`.
    ///
    /// The connection goes where the URL says: the driver's habit to change to the server's
    /// socket, which behind a tunnel may be another server's, is off unless `prefer_socket=true`
    /// asks for it.
    ///
    /// # Errors
    /// - `InvalidInput`: the URL is not one of MySQL, or a setting is out of its bounds.
    /// - `WrongSchema`: the tables are not those of this build; the user may not make them; the
    ///   server refused the user, the password or the database.
    /// - `NotApplied`: the server could not be reached.
    ///
    /// # Cancel safety
    /// The tables may have been made; opening again is harmless.
    pub async fn connect(self, url: &str) -> Result<MysqlStore, StoreError> {
        let store = self.lazily(url)?;
        store.prepare().await?;
        Ok(store)
    }

    /// Works on a pool of the caller's, for verbs and for handlers' transactions alike.
    ///
    /// What the store needs is set on a connection each time that one is lent, which is a round
    /// trip more, and the pool takes it back when it resets the connection: `reset_connection`
    /// stays on, as it is by default. Verbs need connections while handlers hold theirs: let the
    /// pool have more than there are transactions at once, or use [`on_pools`](Self::on_pools).
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    pub async fn on_pool(self, pool: Pool) -> Result<MysqlStore, StoreError> {
        self.on_pools(pool.clone(), pool).await
    }

    /// Works on two pools of the caller's: one for the verbs, one for handlers' transactions.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    pub async fn on_pools(self, verbs: Pool, transactions: Pool) -> Result<MysqlStore, StoreError> {
        let verb_settings = Some(verb_settings(self.lock_wait));
        let transaction_settings =
            Some(transaction_settings(self.lock_wait, self.idle_transaction_limit));
        let verbs = self.lender(verbs, verb_settings);
        let transactions = self.lender(transactions, transaction_settings);
        let store = self.assemble(verbs, transactions)?;
        store.prepare().await?;
        Ok(store)
    }

    /// Looks at the database of a URL as [`Preflight`](idem_core::preflight::Preflight) does, also
    /// where a store could not be opened on it. Changes nothing.
    ///
    /// # Errors
    /// `InvalidInput` for a setting or a URL, and whatever keeps the server from being asked.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn preflight(self, url: &str) -> Result<Vec<Finding>, StoreError> {
        let store = self.lazily(url)?;
        let findings = preflight::look(&store.shared).await;
        store.close().await;
        findings
    }

    pub(crate) fn lender(&self, pool: Pool, set_up: Option<String>) -> Lender {
        Lender { pool, set_up, acquire_limit: self.acquire_limit }
    }

    pub(crate) fn assemble(
        self,
        verbs: Lender,
        transactions: Lender,
    ) -> Result<MysqlStore, StoreError> {
        self.check()?;
        let tables = Tables::new(&self.table_prefix)?;
        let shared = Shared {
            verbs,
            transactions,
            statements: Statements::new(&tables, &self.clock),
            tables,
            settings: self,
            max_packet: AtomicUsize::new(usize::MAX),
        };
        Ok(MysqlStore { shared: Arc::new(shared) })
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let waits =
            [self.lock_wait, self.call_limit, self.idle_transaction_limit, self.acquire_limit];
        if waits.iter().any(|wait| !(Duration::from_millis(1)..=MAX_WAIT).contains(wait)) {
            return Err(invalid("a wait or a limit is 1 ms to 24 h"));
        }
        if self.max_connections == 0 || self.max_transactions == 0 {
            return Err(invalid("a store has at least one connection of each sort"));
        }
        Tables::new(&self.table_prefix).map(|_| ())
    }
}

impl MysqlStore {
    async fn prepare(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let verb = Verb::Open;
        let mut connection = shared.verbs.lend(verb).await?;
        let asked = connection.query_first("SELECT @@max_allowed_packet");
        let packet: Option<usize> = timeout(shared.settings.call_limit, asked)
            .await
            .map_err(|_| {
                let detail = "the server did not answer in time";
                StoreError::new(ErrorKind::NotApplied, verb, detail)
            })?
            .map_err(|error| failure::error(verb, Stage::Reading, error))?;
        drop(connection);
        shared.max_packet.store(packet.unwrap_or(0), Ordering::Relaxed);
        if shared.settings.migrates {
            schema::migrate(shared).await
        } else {
            schema::check(shared).await
        }
    }
}

impl fmt::Debug for MysqlStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlStoreBuilder")
            .field("table_prefix", &self.table_prefix)
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

pub(crate) fn invalid(detail: &'static str) -> StoreError {
    StoreError::new(ErrorKind::InvalidInput, Verb::Open, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_their_bounds_are_refused_before_anything_is_opened() {
        let builder = MysqlStore::builder;
        for builder in [
            builder().lock_wait(Duration::ZERO),
            builder().call_limit(MAX_WAIT + Duration::from_millis(1)),
            builder().max_connections(0),
            builder().max_transactions(0),
            builder().table_prefix("a;b"),
        ] {
            let error = builder.lazily("mysql://127.0.0.1:1/x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }
}
