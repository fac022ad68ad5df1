//! A right store whose transactions push messages, several at once, and do nothing else: what the
//! suite's cases about outboxes need.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};
use idem_core::transactional::TransactionalStore;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::post::Post;
use super::slip::Slip;
use crate::effects::Effects;
use crate::fixture::SetupError;

/// How long a push waits for somebody's transaction (R6).
const BUSY: Duration = Duration::from_millis(1_500);

/// The locks of the ordering keys, which are held from a push to the end of its transaction.
type Locks = Arc<Mutex<BTreeMap<String, Arc<AsyncMutex<()>>>>>;

#[derive(Clone)]
pub(super) struct Mail {
    store: MemoryStore,
    pub(super) post: Post,
    locks: Locks,
}

/// A transaction. Dropping it forgets its messages and frees its keys.
#[derive(Default)]
pub(super) struct Open {
    rows: (),
    messages: Vec<OutboxMessage>,
    keys: BTreeMap<String, OwnedMutexGuard<()>>,
}

impl Mail {
    pub(super) fn new(post: Post) -> Self {
        Self { store: MemoryStore::new(), post, locks: Locks::default() }
    }

    async fn lock(&self, open: &mut Open, key: &str) -> Result<(), StoreError> {
        if open.keys.contains_key(key) || self.post.slip == Slip::LocksNoKey {
            return Ok(());
        }
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.entry(key.to_owned()).or_default().clone()
        };
        let held = tokio::time::timeout(BUSY, lock.lock_owned()).await.map_err(|_| {
            let detail = "somebody's transaction holds the ordering key";
            StoreError::new(ErrorKind::NotApplied, Verb::Push, detail)
        })?;
        open.keys.insert(key.to_owned(), held);
        Ok(())
    }
}

/// Its transactions hold no records.
fn no_records<T>(verb: Verb) -> Result<T, StoreError> {
    Err(StoreError::new(ErrorKind::InvalidInput, verb, "this store's transactions hold messages"))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TransactionalStore for Mail {
    type Connection = ();
    type Transaction = Open;

    fn connection<'t>(&self, open: &'t mut Open) -> &'t mut () {
        &mut open.rows
    }

    async fn begin(&self) -> Result<Open, StoreError> {
        Ok(Open::default())
    }

    async fn hold_in(&self, _: &mut Open, _: &Fence) -> Result<(), StoreError> {
        no_records(Verb::Hold)
    }

    async fn claim_in(&self, _: &mut Open, _: &Claim<'_>) -> Result<Claimed, StoreError> {
        no_records(Verb::Claim)
    }

    async fn savepoint_in(&self, _: &mut Open) -> Result<(), StoreError> {
        no_records(Verb::Rollback)
    }

    async fn undo_to_savepoint_in(&self, _: &mut Open) -> Result<(), StoreError> {
        no_records(Verb::Rollback)
    }

    async fn checkpoint_in(
        &self,
        _: &mut Open,
        _: &Fence,
        _: &Recovery,
        _: Duration,
    ) -> Result<Lease, StoreError> {
        no_records(Verb::Checkpoint)
    }

    async fn complete_in(&self, _: &mut Open, _: &Fence, _: &Sealed) -> Result<(), StoreError> {
        no_records(Verb::Complete)
    }

    async fn push_in(&self, open: &mut Open, message: &OutboxMessage) -> Result<(), StoreError> {
        if let Some(key) = message.ordering_key() {
            self.lock(open, key).await?;
        }
        self.post.number(message);
        if self.post.slip == Slip::PushesOutside {
            return self.post.push(message);
        }
        open.messages.push(message.clone());
        Ok(())
    }

    async fn commit(&self, open: Open) -> Result<(), StoreError> {
        open.messages.iter().try_for_each(|message| self.post.push(message))
    }

    async fn rollback(&self, _: Open) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Mail {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.store.claim(claim).await
    }
    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.store.renew(fence, lease).await
    }
    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.store.checkpoint(fence, recovery, lease).await
    }
    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        self.store.complete(fence, reply).await
    }
    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.store.release(fence).await
    }
    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        self.store.get(scope, key).await
    }
    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.store.lapsed(after, limit).await
    }
    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.store.sweep(limit).await
    }
}

/// No case about outboxes writes rows.
pub(super) struct NoRows;

#[async_trait]
impl Effects<Mail> for NoRows {
    async fn insert(&self, (): &mut (), _: &str) -> Result<(), SetupError> {
        Err("this store has no rows".into())
    }

    async fn count(&self, _: &Mail, _: &str) -> Result<u64, SetupError> {
        Err("this store has no rows".into())
    }
}
