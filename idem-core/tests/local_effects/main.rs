//! R19 in both forms: the handler's own rows commit with the record, or not at all.

mod chaos;
mod commits;
mod dropping;
mod ends;
mod fate;
mod misuse;
mod one_commit;
mod steps;
mod store;
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::engine::{Answer, Call, Engine, Execution, Failure, Outcome, RunError, Transaction};
use idem_core::error::Verb;
use idem_core::fingerprint::Fingerprint;
use idem_core::key::{Key, Scope};
use idem_core::operation::{LocalForm, Operation, OperationBuilder};
use idem_core::record::{Observed, State};
use idem_core::store::Store;

use store::{Rows, TxStore};

const LEASE: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(10);
const BOTH: [LocalForm; 2] = [LocalForm::ClaimFirst, LocalForm::OneCommit];

/// One engine on one store, one operation, and a count of handler runs.
#[derive(Clone)]
struct World {
    store: TxStore,
    engine: Engine,
    operation: Operation,
    runs: Arc<AtomicU32>,
}

impl World {
    fn new(form: LocalForm) -> Self {
        Self::with(form, |builder| builder)
    }

    fn with(form: LocalForm, settings: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Self {
        let builder =
            Operation::builder("order").lease(LEASE).transaction_limit(LIMIT).local_form(form);
        let store = TxStore::default();
        let engine = Engine::builder(store.clone())
            .one_commit_on(store.clone())
            .namespace("test")
            .unwrap()
            .build()
            .unwrap();
        let operation = settings(builder).build().unwrap();
        Self { store, engine, operation, runs: Arc::default() }
    }

    fn call() -> Call {
        let (scope, key) = (Scope::new("a").unwrap(), Key::new("k").unwrap());
        Call::new(scope, key, Fingerprint::of_bytes("k"))
    }

    /// Runs a handler and counts that it ran.
    async fn run<F, Fut, R>(&self, handler: F) -> Result<Outcome, RunError>
    where
        F: FnOnce(Execution, TxStore) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Into<Answer> + Send + 'static,
    {
        let (runs, store) = (Arc::clone(&self.runs), self.store.clone());
        let counted = move |execution| {
            runs.fetch_add(1, Ordering::SeqCst);
            handler(execution, store)
        };
        self.engine.run(&self.operation, Self::call(), counted).await
    }

    /// Opens a transaction, writes a row and a message, and commits `reply` with them.
    async fn order(&self, reply: &str) -> Result<Outcome, RunError> {
        let reply = reply.to_owned();
        self.run(async move |execution, store| {
            let mut transaction = ordered(&execution, &store).await?;
            let message = idem_core::outbox::OutboxMessage::new("order.created", "")?;
            transaction.push(&message).await?;
            transaction.commit(reply).await
        })
        .await
    }

    /// A retry that would answer otherwise, if it ran.
    async fn retry(&self) -> Result<Outcome, RunError> {
        self.run(async |_, _| Ok("ran again".to_owned())).await
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    fn rows(&self) -> usize {
        let Rows { rows, outbox } = self.store.rows();
        assert!(outbox.len() <= rows.len(), "a message never stands without its row");
        rows.len()
    }

    async fn record(&self) -> Option<Observed> {
        let (scope, key) = (Scope::new("a").unwrap(), Key::new("k").unwrap());
        self.store.get(&scope, &key).await.unwrap()
    }

    async fn is_completed(&self) -> bool {
        matches!(self.record().await.map(|seen| seen.record.state), Some(State::Completed { .. }))
    }

    fn commits(&self) -> usize {
        self.store.calls(Verb::Commit)
    }
}

/// A transaction with a row in it.
async fn ordered(execution: &Execution, store: &TxStore) -> Result<Transaction<TxStore>, Failure> {
    let mut transaction = execution.transaction(store).await?;
    transaction.connection().insert("order");
    Ok(transaction)
}

fn body(outcome: &Outcome) -> &str {
    std::str::from_utf8(outcome.reply.body().expect("a body")).unwrap()
}
