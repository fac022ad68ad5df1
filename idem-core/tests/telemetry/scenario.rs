//! One of everything: each way in which a call can be answered, a handler can end and a loop can
//! go, under keys, inputs and replies that are marked.

use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Takeover};
use idem_core::engine::{
    Answer, Call, Engine, EngineBuilder, Execution, Failure, Outcome, RunError,
};
use idem_core::error::{ErrorKind, Verb};
use idem_core::fingerprint::{Fingerprint, Fingerprints};
use idem_core::housekeeping::{Reconciler, Sweeper};
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::{LocalForm, OnUnknown, Operation, Unstored};
use idem_core::outbox::{MemoryOutbox, Outbox, OutboxMessage};
use idem_core::record::{Owner, Retention};
use idem_core::relay::{Relay, Sink, SinkError};
use idem_core::reply::Reply;
use idem_core::store::Store;
use idem_core::telemetry::{BacklogMeter, LapsedMeter};
use idem_core::time::RuntimeClock;
use tokio::time::sleep;

use crate::store::{Commit, TxStore};

/// What must never be seen.
pub(crate) const SECRET: &str = "hunter2";
const LEASE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct Scenario {
    pub(crate) engine: Engine,
    pub(crate) store: TxStore,
    pub(crate) operation: Operation,
}

impl Scenario {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(settings: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Self {
        let store = TxStore::default();
        let operation =
            Operation::builder("orders.create").lease(LEASE).max_reply_bytes(64).build().unwrap();
        let builder = Engine::builder(store.clone()).one_commit_on(store.clone());
        let engine = settings(builder).namespace("test").unwrap().build().unwrap();
        Self { engine, store, operation }
    }

    pub(crate) async fn run<F, Fut, R>(&self, key: &str, handler: F) -> Result<Outcome, RunError>
    where
        F: FnOnce(Execution, TxStore) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Into<Answer> + Send + 'static,
    {
        let store = self.store.clone();
        let handler = move |execution| handler(execution, store);
        self.engine.run(&self.operation, call(key, "body"), handler).await
    }

    /// Calls that find a record, or leave one.
    pub(crate) async fn calls(&self) {
        self.run("k", async |_, _| Ok(reply())).await.unwrap();
        self.run("k", async |_, _| Ok(reply())).await.unwrap();
        let other = call("k", "another body");
        self.engine.run(&self.operation, other, async |_| Ok(reply())).await.unwrap_err();
        self.run("rejected", async |_, _| Err::<Reply, _>(Failure::reject(reply()))).await.unwrap();
        let large = async |_, _| Ok(SECRET.repeat(100));
        self.run("large", large).await.unwrap();
        self.run("large", large).await.unwrap_err();
        self.run("running", async |execution: Execution, store: TxStore| {
            let scenario = Self {
                engine: Scenario::engine_on(&store),
                store,
                operation: execution.operation().clone(),
            };
            let error = scenario.run("running", async |_, _| Ok(reply())).await.unwrap_err();
            assert!(matches!(error, RunError::InProgress { .. }));
            Ok(reply())
        })
        .await
        .unwrap();
        self.store.fail(Verb::Claim, ErrorKind::StoreFull);
        self.run("full", async |_, _| Ok(reply())).await.unwrap_err();
        self.store.heal();
    }

    /// Executions that end without a reply, and what follows.
    pub(crate) async fn takeovers(&self) {
        let broken = async |_, _| Err::<Reply, _>(Failure::unknown(SECRET));
        self.run("unknown", broken).await.unwrap_err();
        self.run("panics", async |_, _| -> Result<Reply, Failure> { panic!("{SECRET}") })
            .await
            .unwrap_err();
        sleep(LEASE).await;
        let taken_over = self.run("unknown", async |_, _| Ok(reply())).await.unwrap();
        assert_eq!(taken_over.attempt, 2);
        // Somebody takes over while the handler runs, and its heartbeats fail before that.
        self.store.fail(Verb::Renew, ErrorKind::NotApplied);
        let overtaken = self.run("overtaken", async |execution, store: TxStore| {
            sleep(LEASE).await;
            let engine = Scenario::engine_on(&store);
            let call = call("overtaken", "body");
            engine.run(execution.operation(), call, async |_| Ok(reply())).await?;
            store.heal();
            Ok("nobody gets this")
        });
        assert!(!overtaken.await.unwrap().is_executed());
        self.replaced_claim().await;
    }

    /// A claim that never began makes way for another request under its key.
    async fn replaced_claim(&self) {
        let held = Operation::builder("held").lease(LEASE).on_unknown(OnUnknown::Hold);
        let held = held.build().unwrap();
        let (scope, key) = identity("replaced");
        let prints = Fingerprints::from(Fingerprint::of_bytes("first"));
        let owner = Owner::random();
        let retention = held.retention();
        let claim = Claim::new(
            &scope,
            &key,
            owner,
            held.name(),
            &prints,
            LEASE,
            retention,
            Takeover::Never,
        );
        self.store.claim(&claim.marking_begun(true)).await.unwrap();
        sleep(LEASE).await;
        let call = call("replaced", "second");
        let stuck = self
            .engine
            .run(&held, call.clone(), async |_| Err::<Reply, _>(Failure::unknown(SECRET)));
        stuck.await.unwrap_err();
        sleep(LEASE).await;
        let error = self.engine.run(&held, call, async |_| Ok(reply())).await.unwrap_err();
        assert!(matches!(error, RunError::Held { .. }), "{error}");
    }

    /// Replies and commits that the store does not take, or does not acknowledge.
    pub(crate) async fn storing(&self) {
        self.store.fail(Verb::Complete, ErrorKind::NotApplied);
        let unstored = self.run("unstored", async |_, _| Ok(reply())).await.unwrap();
        assert!(!unstored.stored);
        let strict = Operation::builder("strict").unstored(Unstored::Refuse).build().unwrap();
        let call = call("strict", "body");
        self.engine.run(&strict, call, async |_| Ok(reply())).await.unwrap_err();
        // The task goes on trying; it must not find the store healed.
        sleep(HOUR).await;
        self.store.heal();
        for form in [LocalForm::ClaimFirst, LocalForm::OneCommit] {
            self.store.commits_go([Commit::Unacknowledged { applied: true }]);
            let ordered = self.order(form, "commit").await.unwrap();
            assert!(ordered.stored);
            self.store.commits_go([Commit::NotApplied]);
            self.order(form, "not committed").await.unwrap_err();
        }
    }

    async fn order(&self, form: LocalForm, key: &str) -> Result<Outcome, RunError> {
        let operation = Operation::builder(format!("{form:?}")).local_form(form).build().unwrap();
        let store = self.store.clone();
        let call = call(&format!("{key} {form:?}").replace(' ', "-"), "body");
        self.engine
            .run(&operation, call, async move |execution| {
                let mut transaction = execution.transaction(&store).await?;
                transaction.connection().insert(SECRET);
                transaction.commit(reply()).await
            })
            .await
    }

    fn engine_on(store: &TxStore) -> Engine {
        Engine::builder(store.clone()).namespace("test").unwrap().build().unwrap()
    }
}

/// The loops of the night, on a store of their own.
pub(crate) async fn housekeeping() {
    let store = MemoryStore::with_clock(RuntimeClock::default());
    let kept = Retention::of(HOUR);
    let operation = Operation::builder("mail").lease(LEASE).retention(kept).resumable();
    let operation = operation.build().unwrap();
    let engine = Engine::builder(store.clone())
        .namespace("test")
        .unwrap()
        .register(&operation, async |_| Ok(reply()))
        .build()
        .unwrap();
    let broken = async |_| Err::<Reply, _>(Failure::unknown(SECRET));
    let input = Input::new(SECRET.to_owned());
    let call = call("mail", "body").with_input(input);
    engine.run(&operation, call, broken).await.unwrap_err();
    sleep(LEASE).await;
    let meter = LapsedMeter::new(Arc::new(store.clone()));
    meter.once().await.unwrap();
    assert_eq!(Reconciler::new(engine).once().await.unwrap().resumed, 1);
    sleep(HOUR * 2).await;
    assert_eq!(Sweeper::new(Arc::new(store)).once().await.unwrap(), 1);
}

/// A relay whose sink takes one message, fails another once, and refuses a third for good.
pub(crate) async fn outbox() {
    let outbox = MemoryOutbox::with_clock(RuntimeClock::default());
    for topic in ["taken", "failing", "poison"] {
        let message = OutboxMessage::new(topic, SECRET).unwrap();
        let message = message.ordered_by(format!("{topic}-{SECRET}")).unwrap();
        outbox.push(message.with_header("x-token", SECRET).unwrap()).unwrap();
    }
    let outbox: Arc<dyn Outbox> = Arc::new(outbox);
    let relayed = Relay::new(Arc::clone(&outbox), Picky).once().await.unwrap();
    assert_eq!((relayed.sent, relayed.failed, relayed.dead), (1, 1, 1));
    sleep(Duration::from_secs(7)).await;
    BacklogMeter::new(outbox).once().await.unwrap();
}

/// It has seen the payload, and says why it refuses; nothing of the payload is in that.
struct Picky;

#[async_trait]
impl Sink for Picky {
    async fn deliver(&self, message: &OutboxMessage, _: u32) -> Result<(), SinkError> {
        match message.topic() {
            "failing" => Err(SinkError::retryable("away").retry_after(HOUR).with_source(SECRET)),
            "poison" => Err(SinkError::poison("it refuses this one").with_source(SECRET)),
            _ => Ok(()),
        }
    }
}

pub(crate) fn identity(key: &str) -> (Scope, Key) {
    (
        Scope::new(format!("scope-{SECRET}")).unwrap(),
        Key::new(format!("key-{SECRET}-{key}")).unwrap(),
    )
}

pub(crate) fn call(key: &str, body: &str) -> Call {
    let (scope, key) = identity(key);
    let body = format!("{body}-{SECRET}");
    Call::new(scope, key, Fingerprint::of_bytes(&body)).with_input(Input::new(body))
}

fn reply() -> Reply {
    Reply::from(format!("reply-{SECRET}"))
}
