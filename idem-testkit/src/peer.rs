//! One connection as a case uses it: every call and every answer goes into the trace.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::Admin;
use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::StoreError;
use idem_core::key::{Key, Scope};
use idem_core::outbox::Outbox;
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};

use crate::effects::Transactions;
use crate::failure::{Failure, chain};
use crate::fixture::Connected;
use crate::trace::Trace;

/// A connection that writes down what is done with it.
#[derive(Clone)]
pub(crate) struct Peer {
    name: String,
    connected: Connected,
    trace: Trace,
}

impl Peer {
    pub(crate) fn new(name: String, connected: Connected, trace: Trace) -> Self {
        Self { name, connected, trace }
    }

    /// The operator's verbs. A case that uses them says that it needs them.
    pub(crate) fn admin(&self) -> Result<Arc<dyn Admin>, Failure> {
        self.connected.admin.clone().ok_or_else(|| {
            Failure::new("a connection with the operator's verbs, as declared", "one without")
        })
    }

    /// The store's transactions. A case that uses them says that it needs them.
    pub(crate) fn transactions(&self) -> Result<Arc<dyn Transactions>, Failure> {
        self.connected.transactions.clone().ok_or_else(|| {
            Failure::new("a connection that lends transactions, as declared", "one that does not")
        })
    }

    /// The store's outbox. A case that uses it says that it needs it.
    pub(crate) fn outbox(&self) -> Result<Arc<dyn Outbox>, Failure> {
        self.connected
            .outbox
            .clone()
            .ok_or_else(|| Failure::new("a connection with an outbox, as declared", "one without"))
    }

    fn note<T: Debug>(&self, call: String, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match &answer {
            Ok(answer) => self.trace.add(&self.name, format_args!("{call} -> {answer:?}")),
            Err(error) => self.trace.add(&self.name, format_args!("{call} -> {}", chain(error))),
        }
        answer
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Peer {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let call = format!(
            "claim {} by {:?}, {}, {:?}, lease {:?}, {:?}, {:?}",
            identity(claim.scope, claim.key),
            claim.owner,
            claim.operation,
            claim.fingerprints.primary(),
            claim.lease,
            claim.retention,
            claim.takeover,
        );
        self.note(call, self.connected.store.claim(claim).await)
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        let call = format!("renew {} for {lease:?}", held(fence));
        self.note(call, self.connected.store.renew(fence, lease).await)
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let call = format!("checkpoint {} number {} for {lease:?}", held(fence), recovery.number);
        self.note(call, self.connected.store.checkpoint(fence, recovery, lease).await)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        let call = format!("complete {} with {reply:?}", held(fence));
        self.note(call, self.connected.store.complete(fence, reply).await)
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let call = format!("release {}", held(fence));
        self.note(call, self.connected.store.release(fence).await)
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let answer = self.connected.store.get(scope, key).await;
        let call = format!("get {}", identity(scope, key));
        let seen = answer.as_ref().map(|found| found.as_ref().map(|seen| &seen.record.state));
        match seen {
            Ok(state) => self.trace.add(&self.name, format_args!("{call} -> {state:?}")),
            Err(error) => self.trace.add(&self.name, format_args!("{call} -> {}", chain(error))),
        }
        answer
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        let answer = self.connected.store.lapsed(after, limit).await;
        let seen = answer.as_ref().map(|page| (page.records.len(), page.next.is_some()));
        self.trace.add(&self.name, format_args!("lapsed, limit {limit} -> {seen:?}"));
        answer
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        let call = format!("sweep, limit {limit}");
        self.note(call, self.connected.store.sweep(limit).await)
    }
}

fn held(fence: &Fence) -> String {
    format!(
        "{} attempt {} of {:?} by {:?}",
        identity(&fence.scope, &fence.key),
        fence.attempt,
        fence.incarnation,
        fence.owner
    )
}

/// The end of the scope and the start of the key: the suite's own names hold no secret.
fn identity(scope: &Scope, key: &Key) -> String {
    let scope = scope.as_str();
    let label = scope.rsplit('/').next().unwrap_or(scope);
    let label: String = label.chars().take(24).collect();
    let key: Vec<u8> = key.as_bytes().iter().copied().take(24).collect();
    format!("[{label} {}]", key.escape_ascii())
}
