//! How a store is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::preflight::Finding;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::sql::{Statements, Tables, sql};
use crate::store::{PostgresStore, Shared};
use crate::{preflight, schema, session, url};

/// The schema that the tables are in unless told otherwise.
pub const DEFAULT_SCHEMA: &str = "public";

/// What the tables are called unless told otherwise: `idem_records`, `idem_outbox`,
/// `idem_schema`.
pub const DEFAULT_TABLE_PREFIX: &str = "idem";

/// The most bytes of one reply, input or recovery point. The server breaks the connection at about
/// 1 GiB, which would look like an unknown outcome.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024 * 1024;

/// The longest wait that can be set: a day.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// How transactions of handlers are isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// READ COMMITTED.
    #[default]
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl Isolation {
    fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}

impl PostgresStore {
    /// Opens the database of a URL, `postgres://user:password@host:port/database`, and makes the
    /// tables where they are missing.
    ///
    /// # Errors
    /// Those of [`PostgresStoreBuilder::connect`].
    ///
    /// # Cancel safety
    /// The tables may have been made; connecting again is harmless.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Works on a pool of the caller's; see [`PostgresStoreBuilder::on_pool`].
    ///
    /// # Errors
    /// Those of [`PostgresStoreBuilder::connect`].
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    pub async fn new(pool: PgPool) -> Result<Self, StoreError> {
        Self::builder().on_pool(pool).await
    }

    /// Settings to open a store with.
    pub fn builder() -> PostgresStoreBuilder {
        PostgresStoreBuilder::default()
    }
}

/// Settings to open a [`PostgresStore`] with. They are checked when it is opened.
///
/// ```
/// use idem_postgres::{Isolation, PostgresStore};
///
/// let builder = PostgresStore::builder()
///     .schema("billing")
///     .table_prefix("retry")
///     .isolation(Isolation::Serializable);
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it opens a store"]
pub struct PostgresStoreBuilder {
    pub(crate) schema: String,
    pub(crate) table_prefix: String,
    pub(crate) migrates: bool,
    pub(crate) pooled: bool,
    pub(crate) isolation: Isolation,
    pub(crate) lock_wait: Duration,
    pub(crate) call_limit: Duration,
    pub(crate) idle_transaction_limit: Duration,
    pub(crate) acquire_limit: Duration,
    pub(crate) max_connections: u32,
    pub(crate) max_transactions: u32,
    pub(crate) concurrency: Option<u32>,
}

impl Default for PostgresStoreBuilder {
    fn default() -> Self {
        Self {
            schema: DEFAULT_SCHEMA.to_owned(),
            table_prefix: DEFAULT_TABLE_PREFIX.to_owned(),
            migrates: true,
            pooled: false,
            isolation: Isolation::ReadCommitted,
            lock_wait: Duration::from_secs(1),
            call_limit: Duration::from_secs(10),
            idle_transaction_limit: Duration::from_secs(60),
            acquire_limit: Duration::from_secs(5),
            max_connections: 10,
            max_transactions: 10,
            concurrency: None,
        }
    }
}

impl PostgresStoreBuilder {
    /// The schema that the tables are in, [`DEFAULT_SCHEMA`] unless set: 1 to 40 of `a`-`z`,
    /// `0`-`9` and `_`, the first one no digit.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// What the names of the tables begin with, [`DEFAULT_TABLE_PREFIX`] unless set; formed as
    /// the schema's name.
    pub fn table_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.table_prefix = prefix.into();
        self
    }

    /// Whether opening may make the tables, or bring them to this build's version. It may, unless
    /// this says no; then tables of another version are an error of kind `WrongSchema`. Nothing
    /// is made where the version is right, so a role that only reads and writes rows is enough.
    pub fn migrates(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// Works behind a proxy that gives a connection to a server for one transaction at a time,
    /// such as PgBouncer with `pool_mode = transaction`.
    ///
    /// The driver prepares a statement in one message and runs it in the next, and such a proxy
    /// may send the two to different servers, which run whatever statement has that name there.
    /// With this setting each verb is an explicit transaction that holds one server, and nothing
    /// is prepared under a name. It costs three more round trips for each verb. Handlers' own
    /// queries have to be sent with `.persistent(false)` too.
    pub fn behind_transaction_pooler(mut self, pooled: bool) -> Self {
        self.pooled = pooled;
        self
    }

    /// How transactions of handlers are isolated, READ COMMITTED unless set. The verbs work under
    /// any default of the database.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// How long a call waits for a lock on a record, 1 s unless set: 1 ms to [`MAX_WAIT`], in
    /// whole milliseconds. A claim that waited this long says `InProgress`. It holds for a handler's
    /// own statements in its transaction too.
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
    /// unless set: 1 ms to [`MAX_WAIT`], in whole milliseconds. It bounds what a client that
    /// vanished can block.
    pub fn idle_transaction_limit(mut self, limit: Duration) -> Self {
        self.idle_transaction_limit = limit;
        self
    }

    /// How long a call waits for a connection, 5 s unless set: 1 ms to [`MAX_WAIT`]. A pool of
    /// the caller's has its own setting.
    pub fn acquire_limit(mut self, limit: Duration) -> Self {
        self.acquire_limit = limit;
        self
    }

    /// The most connections for verbs, 10 unless set. A pool of the caller's has its own setting.
    pub fn max_connections(mut self, connections: u32) -> Self {
        self.max_connections = connections;
        self
    }

    /// The most transactions of handlers at once, 10 unless set. They have connections of their
    /// own, so that handlers that hold all of them do not keep heartbeats waiting. A pool of the
    /// caller's has its own setting.
    pub fn max_transactions(mut self, transactions: u32) -> Self {
        self.max_transactions = transactions;
        self
    }

    /// How many executions are meant to run at once, for
    /// [`Preflight`](idem_core::preflight::Preflight) to compare with the connections.
    pub fn concurrency(mut self, executions: u32) -> Self {
        self.concurrency = Some(executions);
        self
    }

    /// Opens the database of a URL: `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE`, with the
    /// driver's parameters, and `pgbouncer=true` for what
    /// [`behind_transaction_pooler`](Self::behind_transaction_pooler) sets.
    ///
    /// # Errors
    /// - `InvalidInput`: the URL is not one of Postgres, or a setting is out of its bounds.
    /// - `WrongSchema`: the tables are not those of this build; the role may not make them; the
    ///   server refused the user, the password or the database.
    /// - `NotApplied`: the server could not be reached. A refused connection is tried again until
    ///   [`acquire_limit`](Self::acquire_limit) is over, since a server that starts refuses too.
    /// - `OutcomeUnknown`: the tables were being made when the server went away; open again.
    ///
    /// # Cancel safety
    /// The tables may have been made; opening again is harmless.
    pub async fn connect(self, url: &str) -> Result<PostgresStore, StoreError> {
        let store = self.lazily(url)?;
        store.prepare().await?;
        Ok(store)
    }

    /// Works on a pool of the caller's, for verbs and for handlers' transactions alike.
    ///
    /// Verbs need connections while handlers hold theirs: let the pool have more than there are
    /// transactions at once, or use [`on_pools`](Self::on_pools). A pool that other code uses too
    /// should be made with [`guarded`](crate::guarded).
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    pub async fn on_pool(self, pool: PgPool) -> Result<PostgresStore, StoreError> {
        self.on_pools(pool.clone(), pool).await
    }

    /// Works on two pools of the caller's: one for the verbs, one for handlers' transactions.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    pub async fn on_pools(
        self,
        verbs: PgPool,
        transactions: PgPool,
    ) -> Result<PostgresStore, StoreError> {
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

    fn lazily(mut self, url: &str) -> Result<PostgresStore, StoreError> {
        let (options, pooled) = url::parse(url)?;
        self.pooled |= pooled.unwrap_or_default();
        self.check()?;
        let pool = |connections| {
            session::tested(PgPoolOptions::new())
                .max_connections(connections)
                .acquire_timeout(self.acquire_limit)
                .connect_lazy_with(options.clone())
        };
        let (verbs, transactions) = (pool(self.max_connections), pool(self.max_transactions));
        self.assemble(verbs, transactions)
    }

    fn assemble(self, pool: PgPool, transactions: PgPool) -> Result<PostgresStore, StoreError> {
        self.check()?;
        let tables = Tables::new(&self.schema, &self.table_prefix)?;
        let lock_wait = milliseconds(self.lock_wait);
        let idle = milliseconds(self.idle_transaction_limit);
        let begin = |isolation: Isolation| {
            let isolation = isolation.name();
            sql(format!(
                "BEGIN ISOLATION LEVEL {isolation}; SET LOCAL lock_timeout = \
                 {lock_wait}; SET LOCAL idle_in_transaction_session_timeout = {idle}"
            ))
        };
        let shared = Shared {
            statements: Statements::new(&tables),
            begin_verb: begin(Isolation::ReadCommitted),
            begin_transaction: begin(self.isolation),
            pool,
            transactions,
            settings: self,
            tables,
            lock_wait,
        };
        Ok(PostgresStore { shared: Arc::new(shared) })
    }

    fn check(&self) -> Result<(), StoreError> {
        let waits =
            [self.lock_wait, self.call_limit, self.idle_transaction_limit, self.acquire_limit];
        if waits.iter().any(|wait| !(Duration::from_millis(1)..=MAX_WAIT).contains(wait)) {
            return Err(invalid("a wait or a limit is 1 ms to 24 h"));
        }
        if self.max_connections == 0 || self.max_transactions == 0 {
            return Err(invalid("a store has at least one connection of each sort"));
        }
        Tables::new(&self.schema, &self.table_prefix).map(|_| ())
    }
}

impl PostgresStore {
    async fn prepare(&self) -> Result<(), StoreError> {
        if self.shared.settings.migrates {
            schema::migrate(&self.shared).await
        } else {
            schema::check(&self.shared).await
        }
    }
}

impl fmt::Debug for PostgresStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStoreBuilder")
            .field("schema", &self.schema)
            .field("table_prefix", &self.table_prefix)
            .field("pooled", &self.pooled)
            .finish_non_exhaustive()
    }
}

fn milliseconds(duration: Duration) -> String {
    duration.as_millis().to_string()
}

pub(crate) fn invalid(detail: &'static str) -> StoreError {
    StoreError::new(ErrorKind::InvalidInput, Verb::Open, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_their_bounds_are_refused_before_anything_is_opened() {
        let builder = PostgresStore::builder;
        for builder in [
            builder().lock_wait(Duration::ZERO),
            builder().call_limit(MAX_WAIT + Duration::from_millis(1)),
            builder().max_connections(0),
            builder().max_transactions(0),
            builder().schema("a;b"),
        ] {
            let error = builder.lazily("postgres://127.0.0.1:1/x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_url_that_is_refused_is_not_repeated() {
        for url in ["mysql://a:hunter2@b/c", "postgres://a:hunter2@:x:y/c", ""] {
            let error = PostgresStore::builder().lazily(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
    }
}
