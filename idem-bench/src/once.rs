//! A handler that does nothing, under protection: what idem itself costs.

use std::sync::Arc;

use idem_core::engine::{Call, Engine};
use idem_core::fingerprint::Fingerprint;
use idem_core::key::{Key, Scope};
use idem_core::operation::Operation;
use idem_core::store::Store;

use crate::measure::{BoxError, Subject};

/// Whose keys they are.
pub(crate) const SCOPE: &str = "bench";

/// Another key each time: a claim, the handler, a completion.
pub(crate) fn protected(store: impl Store) -> Result<Subject, BoxError> {
    let once = Arc::new(Once::new(store)?);
    Ok(Subject::new("protected", move |number| {
        let once = Arc::clone(&once);
        async move {
            let executed = once.run(&number.to_string()).await?;
            if executed { Ok(()) } else { Err("it was not executed".into()) }
        }
    }))
}

/// The same key each time: a claim that finds the reply.
pub(crate) async fn replayed(store: impl Store) -> Result<Subject, BoxError> {
    let once = Arc::new(Once::new(store)?);
    once.run("replayed").await?;
    Ok(Subject::new("replayed", move |_| {
        let once = Arc::clone(&once);
        async move {
            let executed = once.run("replayed").await?;
            if executed { Err("it was executed again".into()) } else { Ok(()) }
        }
    }))
}

struct Once {
    engine: Engine,
    operation: Operation,
}

impl Once {
    fn new(store: impl Store) -> Result<Self, BoxError> {
        let engine = Engine::builder(store).namespace("bench")?.build()?;
        Ok(Self { engine, operation: Operation::builder("bench.nothing").build()? })
    }

    /// Whether this call ran the handler.
    async fn run(&self, key: &str) -> Result<bool, BoxError> {
        let call = Call::new(Scope::new(SCOPE)?, Key::new(key)?, Fingerprint::of_bytes("nothing"));
        let handler = |_| async { Ok("done".to_owned()) };
        Ok(self.engine.run(&self.operation, call, handler).await?.is_executed())
    }
}
