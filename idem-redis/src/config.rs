//! How a store is set up.

use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::preflight::{Finding, Preflight};
use redis::aio::ConnectionManager;
use redis::cluster_async::ClusterConnection;

use crate::link::Link;
use crate::preflight;
use crate::store::RedisStore;
use crate::url::Target;

/// The most bytes of one reply, input or recovery point. A server refuses a value of more than
/// 512 MiB by closing the connection, which would look like an unknown outcome.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024 * 1024;

/// What the namespace is unless set.
pub const DEFAULT_NAMESPACE: &str = "idem";

/// The most bytes of a namespace.
pub const MAX_NAMESPACE_BYTES: usize = 64;

/// The longest that a call may take unless set.
pub const DEFAULT_CALL_LIMIT: Duration = Duration::from_secs(5);

/// The longest limit of a call, of connecting, and of waiting for replicas.
pub const MAX_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The most connections to one server.
pub const MAX_CONNECTIONS: u32 = 64;

impl RedisStore {
    /// Connects by URL; see [`RedisStoreBuilder::connect`].
    ///
    /// # Errors
    /// Those of [`RedisStoreBuilder::connect`].
    ///
    /// # Cancel safety
    /// As [`RedisStoreBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Uses a connection of the caller's; see [`RedisStoreBuilder::on_connection_manager`].
    ///
    /// # Errors
    /// Those of [`RedisStoreBuilder::on_connection_manager`].
    ///
    /// # Cancel safety
    /// As [`RedisStoreBuilder::on_connection_manager`].
    pub async fn new(manager: ConnectionManager) -> Result<Self, StoreError> {
        Self::builder().on_connection_manager(manager).await
    }

    /// Settings to open a store with.
    pub fn builder() -> RedisStoreBuilder {
        RedisStoreBuilder::default()
    }
}

/// Settings to open a [`RedisStore`] with. They are checked when it is opened.
///
/// ```
/// use std::time::Duration;
/// use idem_core::error::ErrorKind;
/// use idem_redis::RedisStore;
///
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// # let url = "redis://127.0.0.1:1";
/// let opened = RedisStore::builder()
///     .namespace("payments")
///     .wait_for_replicas(1, Duration::from_millis(500))
///     .connect(url) // Nobody listens there.
///     .await;
/// assert_eq!(opened.unwrap_err().kind(), ErrorKind::NotApplied);
/// # });
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it opens a store"]
pub struct RedisStoreBuilder {
    pub(crate) namespace: String,
    pub(crate) call_limit: Duration,
    pub(crate) connect_limit: Duration,
    connections: Option<u32>,
    pub(crate) replicas: Option<ReplicaWait>,
    pub(crate) evicting_accepted: bool,
    migrates: bool,
    #[cfg(feature = "test-clock")]
    pub(crate) clock: Option<std::sync::Arc<dyn idem_core::time::Clock>>,
}

/// How many replicas must have a write before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaWait {
    /// At least this many.
    pub(crate) replicas: u32,
    /// Waited for no longer than this; then the outcome of the write is unknown.
    pub(crate) limit: Duration,
}

impl Default for RedisStoreBuilder {
    fn default() -> Self {
        Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            call_limit: DEFAULT_CALL_LIMIT,
            connect_limit: Duration::from_secs(2),
            connections: None,
            replicas: None,
            evicting_accepted: false,
            migrates: true,
            #[cfg(feature = "test-clock")]
            clock: None,
        }
    }
}

impl RedisStoreBuilder {
    /// Keeps the records of this store apart from others on the same server: 1 to 64 ASCII
    /// letters, digits, `-` or `_`; [`DEFAULT_NAMESPACE`] unless set. Every key of the store
    /// starts with `{NAMESPACE.PARTITION}`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The longest that one call to the server may take, waiting for a connection and for
    /// replicas included; [`DEFAULT_CALL_LIMIT`] unless set, from 10 ms to [`MAX_LIMIT`]. After
    /// that a read is *not applied* and a write is *outcome unknown*.
    pub fn call_limit(mut self, limit: Duration) -> Self {
        self.call_limit = limit;
        self
    }

    /// The longest that one attempt to connect may take, 2 seconds unless set.
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// How many connections are opened to one server, 1 to [`MAX_CONNECTIONS`]. Calls share them,
    /// so one is enough, unless replicas are waited for: a wait holds up what comes behind it on
    /// its connection, and it is 8 then unless set. A Cluster has one connection to each node.
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = Some(connections);
        self
    }

    /// Waits after each write until so many replicas have it, and fails closed: a write that too
    /// few have acknowledged within `limit` is *outcome unknown*. This narrows what a failover can
    /// lose and does not rule it out; docs/redis.md says what is left. Zero replicas is no wait.
    pub fn wait_for_replicas(mut self, replicas: u32, limit: Duration) -> Self {
        self.replicas = (replicas > 0).then_some(ReplicaWait { replicas, limit });
        self
    }

    /// Works on a server that may evict records too. A lost record lets its operation run again:
    /// only for what may be done twice.
    pub fn accept_lost_records_on_an_evicting_server(mut self) -> Self {
        self.evicting_accepted = true;
        self
    }

    /// Whether opening may mark an empty server with this build's layout. It may, unless this
    /// says no; then a server on which nothing is stored is an error of kind `WrongSchema`.
    pub fn migrates(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// **For tests only.** Lets a clock of the test judge leases and expiry in place of the
    /// server's, and leaves out the server's own expiry. Two callers with clocks that differ would
    /// both win a claim.
    #[cfg(feature = "test-clock")]
    pub fn clock(mut self, clock: impl idem_core::time::Clock) -> Self {
        self.clock = Some(std::sync::Arc::new(clock));
        self
    }

    /// Connects by URL: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]` for one server,
    /// `redis-cluster://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]` for a Cluster.
    ///
    /// Looks at the server first: one that may evict records is refused unless
    /// [accepted](Self::accept_lost_records_on_an_evicting_server), and so is one that is too
    /// old, or that stores another layout. An empty one is marked with this build's layout.
    ///
    /// # Errors
    /// - `InvalidInput`: a setting or the URL cannot be used.
    /// - `WrongSchema`: the server is refused, or refuses the login.
    /// - `NotApplied`: there is no connection.
    /// - `OutcomeUnknown`, `StoreFull`: as every call.
    ///
    /// # Cancel safety
    /// The layout may have been marked; opening again is harmless.
    pub async fn connect(self, url: &str) -> Result<RedisStore, StoreError> {
        let link = self.link(url).await?;
        self.open(link).await
    }

    /// Uses a connection of the caller's, which it may share. Its own limits hold beside
    /// [`call_limit`](Self::call_limit); where replicas are waited for, its limit for a response
    /// must be longer than that wait.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    pub async fn on_connection_manager(
        self,
        manager: ConnectionManager,
    ) -> Result<RedisStore, StoreError> {
        self.check()?;
        let link = Link::on_manager(manager, &self);
        self.open(link).await
    }

    /// Uses a Cluster connection of the caller's, which it may share. Everything is asked of
    /// primaries, whatever that connection does with reads.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    pub async fn on_cluster(self, connection: ClusterConnection) -> Result<RedisStore, StoreError> {
        self.check()?;
        let link = Link::on_cluster(connection, &self);
        self.open(link).await
    }

    /// Looks at the server of a URL as [`Preflight`] does, also where a store could not be opened
    /// on it. Changes nothing.
    ///
    /// # Errors
    /// `InvalidInput` for a setting or a URL, and whatever keeps the server from being asked.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn preflight(self, url: &str) -> Result<Vec<Finding>, StoreError> {
        let link = self.link(url).await?;
        RedisStore::over(link, self).preflight().await
    }

    /// How many connections are opened to one server.
    pub(crate) fn connection_count(&self) -> u32 {
        self.connections.unwrap_or(if self.replicas.is_some() { 8 } else { 1 })
    }

    async fn link(&self, url: &str) -> Result<Link, StoreError> {
        self.check()?;
        Link::connect(&Target::parse(url)?, self).await
    }

    async fn open(self, link: Link) -> Result<RedisStore, StoreError> {
        let migrates = self.migrates;
        let store = RedisStore::over(link, self);
        preflight::refuse_unsafe(&store).await?;
        if migrates {
            store.migrate().await?;
        } else {
            preflight::check_layout(Verb::Open, store.layout(Verb::Open, false).await?)?;
        }
        Ok(store)
    }

    fn check(&self) -> Result<(), StoreError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let length = self.namespace.len();
        if !(1..=MAX_NAMESPACE_BYTES).contains(&length) || !self.namespace.bytes().all(allowed) {
            return Err(invalid("a namespace is 1 to 64 ASCII letters, digits, '-' or '_'"));
        }
        let limits = Duration::from_millis(10)..=MAX_LIMIT;
        if !limits.contains(&self.call_limit) || !limits.contains(&self.connect_limit) {
            return Err(invalid("a limit of time is 10 ms to 1 hour"));
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connection_count()) {
            return Err(invalid("a store has 1 to 64 connections to a server"));
        }
        // A wait of zero would be one without end to the server.
        let waits = Duration::from_millis(1)..self.call_limit;
        if self.replicas.is_some_and(|wait| !waits.contains(&wait.limit)) {
            return Err(invalid("the wait for replicas is 1 ms or more, and ends within a call"));
        }
        Ok(())
    }
}

/// A URL or a setting that cannot be used, found before anything is sent.
pub(crate) fn invalid(detail: &'static str) -> StoreError {
    StoreError::new(ErrorKind::InvalidInput, Verb::Open, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_cannot_steer_the_slot() {
        for bad in ["", "a}b", "{a", "a b", "a.b", &"n".repeat(65)] {
            let error = RedisStore::builder().namespace(bad).check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
        }
        RedisStore::builder().namespace("a-B_9").check().unwrap();
    }

    #[test]
    fn settings_out_of_their_bounds_are_refused() {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3_600));
        let builder = RedisStore::builder;
        for bad in [
            builder().call_limit(Duration::ZERO),
            builder().call_limit(2 * hour),
            builder().connect_limit(Duration::ZERO),
            builder().connections(0),
            builder().connections(65),
            builder().wait_for_replicas(1, Duration::ZERO),
            builder().call_limit(second).wait_for_replicas(1, second),
        ] {
            assert_eq!(bad.check().unwrap_err().kind(), ErrorKind::InvalidInput, "{bad:?}");
        }
        builder().call_limit(hour).connections(64).wait_for_replicas(3, second).check().unwrap();
    }
}
