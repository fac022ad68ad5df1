//! Writes a history down while it happens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::StoreError;
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};

use super::History;
use super::operation::{Answer, Call, Operation};

/// Writes down what its wrapped stores are asked and answer. Clones share the history.
#[derive(Debug, Clone)]
pub struct Recorder {
    started: Instant,
    operations: Arc<Mutex<Vec<Operation>>>,
}

impl Recorder {
    /// An empty history that starts now.
    pub fn new() -> Self {
        Self { started: Instant::now(), operations: Arc::default() }
    }

    /// `store`, as client number `client` uses it. Several clients may share one store.
    pub fn wrap<S: Store>(&self, client: u32, store: S) -> Recorded<S> {
        Recorded { recorder: self.clone(), client, store }
    }

    /// What was written down so far. A call that is under way, or whose future was dropped, is
    /// in it as unknown.
    pub fn history(&self) -> History {
        History::new(self.operations().iter().cloned())
    }

    fn operations(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the call before it is made, as unknown: its future may never come back.
    fn call(&self, client: u32, call: Call) -> usize {
        let mut operations = self.operations();
        let invoked = self.started.elapsed();
        let answer = Answer::Unknown;
        operations.push(Operation { client, invoked, returned: None, call, answer });
        operations.len() - 1
    }

    fn answered(&self, at: usize, answer: Answer) {
        let mut operations = self.operations();
        let returned = self.started.elapsed();
        let operation = &mut operations[at];
        // What is unknown stays open: it may take effect at any later time.
        operation.returned = (answer != Answer::Unknown).then_some(returned);
        operation.answer = answer;
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

/// A store whose calls are written down.
#[derive(Debug, Clone)]
pub struct Recorded<S> {
    recorder: Recorder,
    client: u32,
    store: S,
}

impl<S> Recorded<S> {
    async fn record<T>(
        &self,
        call: Call,
        made: impl Future<Output = Result<T, StoreError>>,
        answer: impl FnOnce(&T) -> Answer,
    ) -> Result<T, StoreError> {
        let at = self.recorder.call(self.client, call);
        let result = made.await;
        self.recorder.answered(at, Answer::of(&result, answer));
        result
    }
}

/// Listings are passed on and not written down: they are about many records at once.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Recorded<S> {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let call = Call::Claim(claim.into());
        self.record(call, self.store.claim(claim), |told| Answer::Claimed(told.clone())).await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        let call = Call::Renew { fence: fence.clone(), lease };
        self.record(call, self.store.renew(fence, lease), |told| Answer::Renewed(*told)).await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let call = Call::Checkpoint { fence: fence.clone(), recovery: recovery.clone(), lease };
        let made = self.store.checkpoint(fence, recovery, lease);
        self.record(call, made, |told| Answer::Leased(*told)).await
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        let call = Call::Complete { fence: fence.clone(), reply: reply.clone() };
        self.record(call, self.store.complete(fence, reply), |()| Answer::Done).await
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let call = Call::Release { fence: fence.clone() };
        self.record(call, self.store.release(fence), |()| Answer::Done).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let call = Call::Get { scope: scope.clone(), key: key.clone() };
        self.record(call, self.store.get(scope, key), |told| Answer::Seen(told.clone())).await
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.store.lapsed(after, limit).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.record(Call::Sweep, self.store.sweep(limit), |_| Answer::Done).await
    }
}
