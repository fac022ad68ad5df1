//! The eight verbs, each of them one script (R1).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};
use idem_core::transition::visible;
use redis::Value;
use redis::aio::ConnectionManager;
use redis::cluster_async::ClusterConnection;

use crate::answer::Answer;
use crate::ask::{self, flag};
use crate::config::{RedisConfig, Target};
use crate::link::Link;
use crate::schema::{self, Names};
use crate::{listing, preflight, script};

/// A store on Redis or Valkey. Clones share their connections.
///
/// `Debug` shows neither the address nor the login.
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) names: Names,
    pub(crate) config: RedisConfig,
}

impl RedisStore {
    /// Connects by URL: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]` for one server,
    /// `redis-cluster://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]` for a Cluster. Then as
    /// [`with_connection_manager`](Self::with_connection_manager).
    ///
    /// # Errors
    /// `InvalidInput` for a URL that cannot be used; `NotApplied` when there is no connection;
    /// and those of [`with_connection_manager`](Self::with_connection_manager).
    ///
    /// # Cancel safety
    /// Connections that were opened are closed.
    pub async fn connect(url: &str, config: RedisConfig) -> Result<Self, StoreError> {
        let link = Link::connect(&Target::parse(url)?, &config).await?;
        Self::over(link, config).await
    }

    /// Uses a connection of the caller's, which it may share. Its own limits of time apply beside
    /// [`RedisConfig::operation_timeout`]; where replicas are waited for, its limit for a response
    /// must be longer than that wait.
    ///
    /// Looks at the server first: one that may evict records is refused unless
    /// [accepted](RedisConfig::accept_lost_records_on_an_evicting_server), and so is one that
    /// stores another layout. An empty one is marked with this build's layout.
    ///
    /// # Errors
    /// `WrongSchema` for a server that is refused; `NotApplied` when it cannot be asked.
    ///
    /// # Cancel safety
    /// The layout may have been marked.
    pub async fn with_connection_manager(
        manager: ConnectionManager,
        config: RedisConfig,
    ) -> Result<Self, StoreError> {
        Self::over(Link::with_manager(manager, &config), config).await
    }

    /// As [`with_connection_manager`](Self::with_connection_manager), for a Cluster. Everything
    /// is asked of primaries, whatever the connection does with reads.
    ///
    /// # Errors
    /// Those of [`with_connection_manager`](Self::with_connection_manager).
    ///
    /// # Cancel safety
    /// The layout may have been marked.
    pub async fn with_cluster_connection(
        connection: ClusterConnection,
        config: RedisConfig,
    ) -> Result<Self, StoreError> {
        Self::over(Link::with_cluster(connection, &config), config).await
    }

    async fn over(link: Link, config: RedisConfig) -> Result<Self, StoreError> {
        let names = Names::new(&config.namespace);
        let store = Self { shared: Arc::new(Shared { link, names, config }) };
        preflight::refuse_unsafe(&store).await?;
        store.migrate().await?;
        Ok(store)
    }

    /// Marks the layout of what is stored where nothing is, and checks it where something is. It
    /// may run at any time, by any number of processes at once; there is no earlier layout.
    ///
    /// # Errors
    /// `WrongSchema` when another layout is stored; those of the store itself.
    ///
    /// # Cancel safety
    /// The layout may have been marked.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let found = self.layout(Verb::Migrate, true).await?;
        preflight::check_layout(Verb::Migrate, found.as_deref())
    }

    /// The layout that is stored, if any.
    pub(crate) async fn layout(
        &self,
        verb: Verb,
        mark: bool,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let keys = [self.shared.names.layout()];
        let arguments = [schema::LAYOUT.into(), flag(mark)];
        let value = self.shared.link.run(verb, &script::LAYOUT, &keys, &arguments).await?;
        Answer::new(verb, Value::Array(vec![value]))?.optional_bytes()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("cluster", &self.shared.link.is_cluster())
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        ask::claimed(claim, self.ask_claim(claim).await?)
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        ask::renewed(self.ask_renew(fence, lease).await?)
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        ask::checkpointed(self.ask_checkpoint(fence, recovery, lease).await?)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        ask::completed(self.ask_complete(fence, reply).await?)
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        ask::gone(self.ask_release(fence).await?)
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let identity = schema::identity(scope, key);
        let found = listing::read(self, Verb::Get, &[identity]).await?;
        let found = found.into_iter().next().flatten();
        Ok(found.filter(|seen| visible(Some(&seen.record), seen.now).is_some()))
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        listing::lapsed(self, after, limit).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        listing::sweep(self, limit).await
    }
}
