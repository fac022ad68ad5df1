//! Resuming work whose client is gone (R15, R26, R27).

use std::sync::Arc;

use crate::claim::Takeover;
use crate::engine::caller::RunResult;
use crate::engine::claiming::Asked;
use crate::engine::outcome::{Answer, RunError};
use crate::engine::taking_over::read;
use crate::engine::{BoxHandler, Engine};
use crate::fingerprint::Fingerprints;
use crate::operation::OnUnknown;
use crate::record::Observed;

impl Engine {
    /// Takes over a lapsed record that was listed, and runs the handler that is registered for
    /// its operation on the stored input. It never inserts: work that nobody asks for any more
    /// is not started (R2).
    ///
    /// # Errors
    /// [`RunError::NothingToResume`] when it never began, or is another one since it was listed;
    /// [`RunError::InProgress`] when somebody was faster;
    /// [`RunError::Held`] when the operation's policy forbids it: held, too many attempts, or too
    /// old; [`RunError::NotResumable`] when no handler or no input is there; and those of
    /// [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn resume(&self, lapsed: &Observed) -> RunResult {
        let record = &lapsed.record;
        if record.recovery().is_none() || lapsed.lapsed_for().is_none() {
            return Err(RunError::NothingToResume);
        }
        let (operation, handler) = self
            .shared
            .registry
            .get(&record.operation)
            .ok_or(RunError::NotResumable { detail: "no handler is registered for it" })?;
        let held = operation.on_unknown() == OnUnknown::Hold
            || record.attempt >= operation.attempts()
            || operation.resumable_until().is_some_and(|limit| lapsed.age() >= limit);
        if held {
            return Err(RunError::Held { attempt: record.attempt });
        }
        let (stored, _) = read(self, record).map_err(RunError::Corrupt)?;
        if stored.and_then(|stored| stored.input).is_none() {
            return Err(RunError::NotResumable { detail: "no input was stored" });
        }
        let asked = Asked {
            operation: operation.clone(),
            scope: record.scope.clone(),
            key: record.key.clone(),
            fingerprints: Fingerprints::from(record.fingerprint),
            input: None,
            key_hash: self.key_hasher().hash(&record.scope, &record.key),
            takeover: Takeover::Only {
                incarnation: record.incarnation,
                attempt: record.attempt,
                // Judged again inside the claim: a takeover that may not go on would only fence
                // out the holder.
                younger_than: operation.resumable_until(),
            },
            server_error: self.server_error(),
            route: None,
            // Whoever runs it now answers to its own caller.
            patience: None,
        };
        let handler = Arc::clone(handler);
        let handler: BoxHandler = Box::new(move |execution| {
            Box::pin(async move { handler(execution).await.map(Answer::from) })
        });
        self.submit(asked, None, handler).await
    }
}
