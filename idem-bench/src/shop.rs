//! What is measured on a database with transactions: a row, without idem and with it.

use std::sync::Arc;

use idem_core::async_trait;
use idem_core::engine::{Call, Engine, Execution, Failure};
use idem_core::fingerprint::Fingerprint;
use idem_core::key::{Key, Scope};
use idem_core::operation::{LocalForm, Operation};
use idem_core::transactional::TransactionalStore;

use crate::measure::{BoxError, Effort, Row, Subject, measure};

/// A database in which a handler writes a row.
#[async_trait]
pub(crate) trait Shop: Clone + Send + Sync + 'static {
    /// Its store.
    type Store: TransactionalStore + Clone;

    fn store(&self) -> &Self::Store;

    /// Writes the row in a transaction of its own: what a handler does without idem.
    async fn alone(&self, number: u64) -> Result<(), BoxError>;

    /// Writes the row in the store's transaction.
    async fn within(
        &self,
        connection: &mut <Self::Store as TransactionalStore>::Connection,
        number: u64,
    ) -> Result<(), BoxError>;

    /// How many rows there are.
    async fn rows(&self) -> Result<u64, BoxError>;
}

/// Measures all ways, and then counts the rows: a way that is fast because it does nothing would
/// be noticed.
pub(crate) async fn measured<S: Shop>(
    group: &'static str,
    shop: S,
    effort: Effort,
) -> Result<Vec<Row>, BoxError> {
    let alone = {
        let shop = shop.clone();
        Subject::new("the row alone", move |number| {
            let shop = shop.clone();
            async move { shop.alone(number).await }
        })
    };
    let subjects = [
        alone,
        protected("protected, in one commit", &shop, LocalForm::OneCommit)?,
        protected("protected, claim first", &shop, LocalForm::ClaimFirst)?,
        replayed(&shop).await?,
    ];
    let rows = measure(group, &subjects, effort).await?;
    // One for what is replayed; the warm-up counts as a round.
    let expected = 1 + 3 * effort.calls * (effort.rounds as u64 + 1);
    let seen = shop.rows().await?;
    if seen != expected {
        return Err(format!("{group}: expected {expected} rows, seen {seen}").into());
    }
    Ok(rows)
}

fn protected<S: Shop>(name: &'static str, shop: &S, form: LocalForm) -> Result<Subject, BoxError> {
    let once = Arc::new(Once::new(shop.clone(), form)?);
    Ok(Subject::new(name, move |number| {
        let once = Arc::clone(&once);
        async move {
            let executed = once.run(&format!("{form:?} {number}"), number).await?;
            if executed { Ok(()) } else { Err("it was not executed".into()) }
        }
    }))
}

async fn replayed<S: Shop>(shop: &S) -> Result<Subject, BoxError> {
    let once = Arc::new(Once::new(shop.clone(), LocalForm::ClaimFirst)?);
    once.run("replayed", 0).await?;
    Ok(Subject::new("replayed", move |_| {
        let once = Arc::clone(&once);
        async move {
            let executed = once.run("replayed", 0).await?;
            if executed { Err("it was executed again".into()) } else { Ok(()) }
        }
    }))
}

struct Once<S> {
    shop: S,
    engine: Engine,
    operation: Operation,
}

impl<S: Shop> Once<S> {
    fn new(shop: S, form: LocalForm) -> Result<Self, BoxError> {
        let store = shop.store().clone();
        let engine = Engine::builder(store.clone()).one_commit_on(store).namespace("bench")?;
        let operation = Operation::builder("bench.row").local_form(form).build()?;
        Ok(Self { shop, engine: engine.build()?, operation })
    }

    /// Whether this call ran the handler.
    async fn run(&self, key: &str, number: u64) -> Result<bool, BoxError> {
        let call =
            Call::new(Scope::new("bench")?, Key::new(key)?, Fingerprint::of_bytes("the row"));
        let shop = self.shop.clone();
        let work = move |execution: Execution| async move {
            let mut transaction = execution.transaction(shop.store()).await?;
            shop.within(transaction.connection(), number).await.map_err(Failure::unknown)?;
            transaction.commit("done".to_owned()).await
        };
        Ok(self.engine.run(&self.operation, call, work).await?.is_executed())
    }
}
