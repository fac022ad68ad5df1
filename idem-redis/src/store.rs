//! The eight verbs, each of them one script (R1).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};
use idem_core::transition::visible;
use redis::Value;

use crate::answer::{Answer, bytes};
use crate::ask::{self, flag};
use crate::config::RedisStoreBuilder;
use crate::link::Link;
use crate::listing::{self, Seen};
use crate::schema::{self, Names};
use crate::{preflight, script};

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
    pub(crate) settings: RedisStoreBuilder,
}

impl RedisStore {
    pub(crate) fn over(link: Link, settings: RedisStoreBuilder) -> Self {
        let names = Names::new(&settings.namespace);
        Self { shared: Arc::new(Shared { link, names, settings }) }
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
        preflight::check_layout(Verb::Migrate, found)
    }

    /// The layout that is stored, if any.
    pub(crate) async fn layout(
        &self,
        verb: Verb,
        mark: bool,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let keys = [self.shared.names.layout()];
        let arguments = [schema::LAYOUT.into(), flag(mark), flag(self.shared.link.waits())];
        let value = self.shared.link.run(verb, &script::LAYOUT, &keys, &arguments).await?;
        if let Value::Array(forbidden) = value {
            let command = forbidden.into_iter().next().and_then(bytes).unwrap_or_default();
            let command = String::from_utf8_lossy(&command);
            let detail =
                format!("the server's access rules forbid this user the command {command}");
            return Err(StoreError::new(ErrorKind::WrongSchema, verb, detail));
        }
        Answer::new(verb, Value::Array(vec![value]))?.optional_bytes()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("cluster", &self.shared.link.is_cluster())
            .field("settings", &self.shared.settings)
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
        let found = match listing::read(self, Verb::Get, &[identity]).await?.pop() {
            Some(Seen::Found(seen)) => Some(*seen),
            _ => None,
        };
        Ok(found.filter(|seen| visible(Some(&seen.record), seen.now).is_some()))
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        listing::lapsed(self, after, limit).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        listing::sweep(self, limit).await
    }
}
