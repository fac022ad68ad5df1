//! A store whose calls get lost, or come twice, at the level of its verbs: for tests of whatever
//! is built on a store.
//!
//! ```
//! use std::time::Duration;
//! use idem_core::error::ErrorKind;
//! use idem_core::memory::MemoryStore;
//! use idem_core::store::Store;
//! use idem_testkit::faults::lossy::{Loss, LossyStore};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store = LossyStore::new(MemoryStore::new());
//! store.arm(Loss::Reply);
//! let error = store.sweep(10).await.unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
//! assert!(store.sweep(10).await.is_ok());
//! # });
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};

use crate::owned::OwnedClaim;

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It does not arrive, and the caller knows: an error of kind `NotApplied`.
    Refused,
    /// It does not arrive, and the caller cannot know: `OutcomeUnknown`.
    Request,
    /// It arrives, and its answer does not: `OutcomeUnknown`.
    Reply,
    /// It arrives, and a copy of it waits until [`LossyStore::deliver`].
    Duplicate,
    /// It waits until [`LossyStore::deliver`], and the caller is told `OutcomeUnknown` now.
    Late,
}

/// A wrapper that loses what it is told to. Clones share the store and what is armed.
#[derive(Clone)]
pub struct LossyStore<S> {
    inner: Arc<S>,
    armed: Arc<Mutex<VecDeque<Loss>>>,
    waiting: Arc<Mutex<Vec<Waiting>>>,
}

type Waiting = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

impl<S: Store> LossyStore<S> {
    /// Loses nothing until something is armed.
    pub fn new(inner: S) -> Self {
        Self { inner: Arc::new(inner), armed: Arc::default(), waiting: Arc::default() }
    }

    /// The store inside, which loses nothing.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The next call that nothing is armed for meets `loss`.
    pub fn arm(&self, loss: Loss) {
        locked(&self.armed).push_back(loss);
    }

    /// Delivers every call that waits, in its order, and says how many those were.
    ///
    /// # Cancel safety
    /// Some may not have been delivered, and are gone.
    pub async fn deliver(&self) -> usize {
        let waiting = std::mem::take(&mut *locked(&self.waiting));
        let count = waiting.len();
        for call in waiting {
            call().await;
        }
        count
    }

    async fn call<T: Send + 'static>(
        &self,
        verb: Verb,
        call: impl Fn(Arc<S>) -> BoxFuture<'static, Result<T, StoreError>> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let loss = locked(&self.armed).pop_front();
        let unknown = || StoreError::new(ErrorKind::OutcomeUnknown, verb, "the answer was lost");
        match loss {
            None => call(self.inner.clone()).await,
            Some(Loss::Refused) => {
                Err(StoreError::new(ErrorKind::NotApplied, verb, "the call did not arrive"))
            }
            Some(Loss::Request) => Err(unknown()),
            Some(Loss::Reply) => {
                let _ = call(self.inner.clone()).await;
                Err(unknown())
            }
            Some(Loss::Duplicate) => {
                let answer = call(self.inner.clone()).await;
                self.keep(call);
                answer
            }
            Some(Loss::Late) => {
                self.keep(call);
                Err(unknown())
            }
        }
    }

    fn keep<T: Send + 'static>(
        &self,
        call: impl Fn(Arc<S>) -> BoxFuture<'static, Result<T, StoreError>> + Send + Sync + 'static,
    ) {
        let inner = self.inner.clone();
        locked(&self.waiting).push(Box::new(move || {
            Box::pin(async move {
                // Whoever asked is no longer there to be told.
                let _ = call(inner).await;
            })
        }));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for LossyStore<S> {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let claim = OwnedClaim::of(claim);
        self.call(Verb::Claim, move |store| {
            let claim = claim.clone();
            Box::pin(async move { store.claim(&claim.borrow()).await })
        })
        .await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        let fence = fence.clone();
        self.call(Verb::Renew, move |store| {
            let fence = fence.clone();
            Box::pin(async move { store.renew(&fence, lease).await })
        })
        .await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let sent = (fence.clone(), recovery.clone());
        self.call(Verb::Checkpoint, move |store| {
            let (fence, recovery) = sent.clone();
            Box::pin(async move { store.checkpoint(&fence, &recovery, lease).await })
        })
        .await
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        let sent = (fence.clone(), reply.clone());
        self.call(Verb::Complete, move |store| {
            let (fence, reply) = sent.clone();
            Box::pin(async move { store.complete(&fence, &reply).await })
        })
        .await
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let fence = fence.clone();
        self.call(Verb::Release, move |store| {
            let fence = fence.clone();
            Box::pin(async move { store.release(&fence).await })
        })
        .await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let sent = (scope.clone(), key.clone());
        self.call(Verb::Get, move |store| {
            let (scope, key) = sent.clone();
            Box::pin(async move { store.get(&scope, &key).await })
        })
        .await
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        let after = after.cloned();
        self.call(Verb::Lapsed, move |store| {
            let after = after.clone();
            Box::pin(async move { store.lapsed(after.as_ref(), limit).await })
        })
        .await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.call(Verb::Sweep, move |store| Box::pin(async move { store.sweep(limit).await })).await
    }
}
