//! How a store is opened.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::preflight::Finding;
use idem_core::time::{Clock, SystemClock};
use sqlx::pool::PoolOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Sqlite, SqlitePool};

use crate::error;
use crate::pool::Pools;
use crate::preflight;
use crate::schema;
use crate::sql::{Statements, Tables};
use crate::store::{Shared, SqliteStore};

/// What the tables are called unless told otherwise: `idem_records`, `idem_outbox`,
/// `idem_schema`.
pub const DEFAULT_TABLE_PREFIX: &str = "idem";

/// How long a call waits for the store's connection, and then for the file's lock.
pub const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest such wait.
pub const MAX_BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// How many connections read unless told otherwise.
pub const DEFAULT_READERS: u32 = 4;

/// The most connections that read.
pub const MAX_READERS: u32 = 64;

impl SqliteStore {
    /// Opens the database at `path`, creating the file and the tables where they are missing.
    ///
    /// # Errors
    /// Those of [`SqliteStoreBuilder::open`].
    ///
    /// # Cancel safety
    /// The file and the tables may have been made; opening again is harmless.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder().open(path).await
    }

    /// Opens the database of a URL, `sqlite:PATH`, as [`open`](Self::open) does.
    ///
    /// # Errors
    /// Those of [`SqliteStoreBuilder::connect`].
    ///
    /// # Cancel safety
    /// As [`open`](Self::open).
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Opens the database that `pool` is on; see [`SqliteStoreBuilder::on_pool`].
    ///
    /// # Errors
    /// Those of [`SqliteStoreBuilder::open`].
    ///
    /// # Cancel safety
    /// As [`open`](Self::open).
    pub async fn new(pool: SqlitePool) -> Result<Self, StoreError> {
        Self::builder().on_pool(&pool).await
    }

    /// Settings to open a store with.
    pub fn builder() -> SqliteStoreBuilder {
        SqliteStoreBuilder::default()
    }
}

/// Settings to open a [`SqliteStore`] with. They are checked when it is opened.
///
/// ```
/// use std::time::Duration;
/// use idem_sqlite::SqliteStore;
///
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("orders.db");
/// let store = SqliteStore::builder()
///     .table_prefix("orders_idem")
///     .busy_timeout(Duration::from_secs(2))
///     .open(path)
///     .await?;
/// # store.close().await;
/// # Ok::<_, idem_core::error::StoreError>(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it opens a store"]
pub struct SqliteStoreBuilder {
    table_prefix: String,
    busy_timeout: Duration,
    readers: u32,
    max_pages: Option<u32>,
    migrates: bool,
    clock: Arc<dyn Clock>,
}

impl Default for SqliteStoreBuilder {
    fn default() -> Self {
        Self {
            table_prefix: DEFAULT_TABLE_PREFIX.to_owned(),
            busy_timeout: DEFAULT_BUSY_TIMEOUT,
            readers: DEFAULT_READERS,
            max_pages: None,
            migrates: true,
            clock: Arc::new(SystemClock),
        }
    }
}

impl SqliteStoreBuilder {
    /// What the names of the store's tables begin with, [`DEFAULT_TABLE_PREFIX`] unless set: 1 to
    /// 32 of `a`-`z`, `0`-`9` and `_`, the first one a letter, and not `sqlite_`.
    pub fn table_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.table_prefix = prefix.into();
        self
    }

    /// How long a call waits for the store's own connection, and then again for the file's lock,
    /// [`DEFAULT_BUSY_TIMEOUT`] unless set: 1 ms to [`MAX_BUSY_TIMEOUT`]. After that it is an
    /// error of kind `NotApplied` (R6).
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// How many connections read beside the one that writes, [`DEFAULT_READERS`] unless set: 1 to
    /// [`MAX_READERS`]. They are opened when they are needed.
    pub fn readers(mut self, readers: u32) -> Self {
        self.readers = readers;
        self
    }

    /// The most pages that the database file may have, as a quota: a write that needs more is an
    /// error of kind `StoreFull`. SQLite's own limit unless set. It binds the connections of this
    /// store only.
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }

    /// Whether opening may change the database: make the tables, bring them to this build's
    /// version, and switch the file to WAL. It may, unless this says no; then a database that is
    /// not ready is an error of kind `WrongSchema`.
    pub fn migrates(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// The clock that judges leases and expiry: the machine's unless set, which every process on
    /// the file shares, since the file is on a local disk (R6). Tests set their own.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Opens the database at `path`. A missing file is created, unless
    /// [`migrates`](Self::migrates) is off. Foreign keys are enforced, as the driver's connections
    /// do unless told otherwise; to have other settings open it [on a pool](Self::on_pool).
    ///
    /// # Errors
    /// - `InvalidInput`: a setting is out of its bounds.
    /// - `WrongSchema`: the file cannot be opened or written, is not an SQLite database, or has
    ///   tables that this build does not work on; the linked SQLite is older than 3.51.3 and has
    ///   not its fix; the journal mode cannot be WAL; `synchronous` is below FULL.
    /// - `NotApplied`: somebody held the file for too long.
    /// - `StoreFull`, `CorruptRecord`, `OutcomeUnknown`: as every call.
    ///
    /// # Cancel safety
    /// The file and the tables may have been made; opening again is harmless.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        let create = self.migrates;
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(create);
        self.finish(PoolOptions::new(), options).await
    }

    /// Opens the database of a URL: `sqlite:PATH`, in which `%` introduces two hexadecimal
    /// digits. With `?mode=rw` a missing file is not created, with `?mode=ro` the file is not
    /// written, so that opening a store on it fails.
    ///
    /// # Errors
    /// As [`open`](Self::open), and `InvalidInput` for a URL that is not of this form.
    ///
    /// # Cancel safety
    /// As [`open`](Self::open).
    pub async fn connect(self, url: &str) -> Result<SqliteStore, StoreError> {
        let options = options_of(url, self.migrates)?;
        self.finish(PoolOptions::new(), options).await
    }

    /// Opens the database that `pool` is on, with the pool's connect options and its
    /// `after_connect` and `before_acquire` hooks, so that handlers find what they are used to.
    ///
    /// The store opens connections of its own and takes none from the pool: neither can starve
    /// the other. They have `synchronous = FULL` and this builder's busy timeout, whatever the
    /// pool has. Closing the pool does not close them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Cancel safety
    /// As [`open`](Self::open).
    pub async fn on_pool(self, pool: &SqlitePool) -> Result<SqliteStore, StoreError> {
        let options = SqliteConnectOptions::clone(&pool.connect_options());
        self.finish(pool.options().clone(), options).await
    }

    /// Looks at the database of a URL as [`Preflight`](idem_core::preflight::Preflight) does, also
    /// where a store could not be opened on it. Changes nothing, and creates no file.
    ///
    /// # Errors
    /// `InvalidInput` for a setting or a URL, and whatever keeps the file from being read.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn preflight(self, url: &str) -> Result<Vec<Finding>, StoreError> {
        let pools = self.pools(PoolOptions::new(), options_of(url, false)?)?;
        let findings = preflight::look(&pools.writer, &Tables::new(&self.table_prefix)?).await;
        pools.close().await;
        findings
    }

    async fn finish(
        self,
        template: PoolOptions<Sqlite>,
        options: SqliteConnectOptions,
    ) -> Result<SqliteStore, StoreError> {
        let tables = Tables::new(&self.table_prefix)?;
        let pools = self.pools(template, options)?;
        let now = self.clock.now();
        schema::prepare(&pools.writer, &tables, self.migrates, now, self.busy_timeout).await?;
        let statements = Statements::new(&tables);
        let shared = Shared { pools, clock: self.clock, tables, statements };
        Ok(SqliteStore { shared: Arc::new(shared) })
    }

    fn pools(
        &self,
        template: PoolOptions<Sqlite>,
        mut options: SqliteConnectOptions,
    ) -> Result<Pools, StoreError> {
        if !(Duration::from_millis(1)..=MAX_BUSY_TIMEOUT).contains(&self.busy_timeout) {
            return Err(invalid("the busy timeout is 1 ms to 60 s"));
        }
        if !(1..=MAX_READERS).contains(&self.readers) {
            return Err(invalid("a store has 1 to 64 connections that read"));
        }
        if let Some(pages) = self.max_pages {
            options = options.pragma("max_page_count", pages.to_string());
        }
        Ok(Pools::new(template, options, self.busy_timeout, self.readers))
    }
}

fn options_of(url: &str, create: bool) -> Result<SqliteConnectOptions, StoreError> {
    if !url.starts_with("sqlite:") {
        return Err(invalid("the URL does not begin with sqlite:"));
    }
    let options = SqliteConnectOptions::from_str(url);
    let options = options.map_err(|error| error::before_commit(Verb::Open, error))?;
    Ok(if url.contains("mode=") { options } else { options.create_if_missing(create) })
}

fn invalid(detail: &'static str) -> StoreError {
    StoreError::new(ErrorKind::InvalidInput, Verb::Open, detail)
}
