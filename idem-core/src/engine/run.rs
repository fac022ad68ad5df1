//! One execution from claim to reply. It runs in a task of its own, whoever goes away (R12).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::claim::{Acquired, Claimed, Lapsed, Replay, Takeover};
use crate::downstream::Derivation;
use crate::engine::caller::{Caller, RunResult};
use crate::engine::claiming::{Answered, Asked, ClaimFailure, Outright, Unclaimed, claim};
use crate::engine::execution::{Execution, Inner};
use crate::engine::failure::{Failure, FailureKind};
use crate::engine::gate::Pass;
use crate::engine::lease::{LeaseState, MIN_BOUND, beat};
use crate::engine::local_state::Local;
use crate::engine::outcome::{How, Outcome, RunError};
use crate::engine::settle::{give_up, settle};
use crate::engine::steps::Standing;
use crate::engine::supervise::{AbortOnDrop, Ended, supervise};
use crate::engine::untaken::Untaken;
use crate::engine::{BoxHandler, Engine};
use crate::error::ErrorKind;
use crate::fingerprint::Fingerprint;
use crate::input::Input;
use crate::operation::{Begun, StoreDown};
use crate::progress::Progress;
use crate::reply::StoredReply;
use crate::telemetry::{InFlight, spans};

/// What a run starts from.
pub(super) struct Run {
    pub(super) engine: Engine,
    pub(super) asked: Asked,
    /// The caller's input, for the handler when it is not stored.
    pub(super) input: Option<Input>,
    pub(super) handler: BoxHandler,
    /// Held to the very end.
    pub(super) pass: Pass,
}

impl Run {
    pub(super) async fn go(mut self, mut caller: Caller) {
        let store = Outright(self.engine.store());
        match claim(&store, &self.engine, &self.asked, &mut self.pass).await {
            Ok(Answered { claimed: Claimed::Acquired(acquired), sent, .. }) => {
                self.execute(acquired, sent, caller).await;
            }
            Ok(answered) => {
                caller.tell(self.engine.answer_claim(&self.asked, answered.claimed));
            }
            Err(Unclaimed::Unreadable(error)) => caller.tell(Err(RunError::Corrupt(error))),
            Err(Unclaimed::Failed(failure)) => self.without_store(failure, caller).await,
        }
    }

    async fn execute(self, acquired: Acquired, sent: Instant, caller: Caller) {
        let (attempt, key) = (acquired.fence.attempt, self.asked.key_hash);
        Span::current().record("idem.attempt", attempt);
        let _counted = InFlight::enter(&self.asked.operation);
        if attempt == 1 {
            return self.execute_attempt(acquired, sent, caller).await;
        }
        let span = spans::takeover(&self.asked.operation, key, attempt);
        self.execute_attempt(acquired, sent, caller).instrument(span).await;
    }

    async fn execute_attempt(self, acquired: Acquired, sent: Instant, mut caller: Caller) {
        let fence = acquired.fence.clone();
        if acquired.replaced {
            tracing::info!(
                idem.operation = %self.asked.operation.name(),
                idem.key_hash = %self.asked.key_hash,
                "a lapsed claim of another request that never began was replaced"
            );
        }
        let execution = match self.engine.execution(&self.asked, self.input, acquired, sent) {
            Ok(execution) => execution,
            Err(error) => {
                // Nothing runs on what cannot be read; others may look at it at once.
                give_up(self.engine.store(), &fence, MIN_BOUND).await;
                return caller.tell(Err(error));
            }
        };
        // At the first execution too: who looks for a key later finds where it ran.
        tracing::info!(
            idem.operation = %self.asked.operation.name(),
            idem.key_hash = %execution.key_hash(),
            idem.attempt = fence.attempt,
            "executing"
        );
        let beating = beat(execution.clone(), fence.clone()).in_current_span();
        let heartbeat = AbortOnDrop(tokio::spawn(beating));
        let ended = if self.asked.operation.begun() == Begun::BeforeHandler {
            match execution.begin().await {
                Ok(()) => supervise(&execution, self.handler).await,
                Err(failure) => Ended::NotStarted(failure),
            }
        } else {
            supervise(&execution, self.handler).await
        };
        let span = spans::complete(execution.operation(), execution.key_hash(), fence.attempt);
        settle(&execution, &fence, ended, &mut caller).instrument(span).await;
        drop(heartbeat);
    }

    /// The store is down (R18).
    async fn without_store(self, failure: ClaimFailure, mut caller: Caller) {
        let open = self.asked.operation.store_down() == StoreDown::RunWithoutProtection;
        // A store that is full has answered: it is there, and says no.
        let never_left =
            !failure.key_may_be_in_use && failure.error.kind() == ErrorKind::NotApplied;
        if !(open && never_left) {
            return caller.tell(Err(RunError::Store(failure.error)));
        }
        tracing::warn!(
            idem.operation = %self.asked.operation.name(),
            idem.key_hash = %self.asked.key_hash,
            error = %failure.error,
            "the store is down; running WITHOUT PROTECTION against duplicates"
        );
        let execution = self.engine.unprotected(&self.asked, self.input);
        let result = match supervise(&execution, self.handler).await {
            Ended::Answered(answer) => Ok(answer.reply),
            Ended::Failed(Failure { kind: FailureKind::Rejected(reply) }) => Ok(reply),
            _ => Err(RunError::Unknown),
        };
        execution.inner.local.end(Duration::ZERO).await;
        caller.tell(result.map(|reply| Outcome {
            reply,
            how: How::Unprotected,
            stored: false,
            attempt: 0,
            lifetime: Some(Duration::ZERO),
        }));
    }
}

impl Engine {
    /// What a caller is told that did not win the claim.
    pub(super) fn answer_claim(&self, asked: &Asked, claimed: Claimed) -> RunResult {
        let listed = match asked.takeover {
            Takeover::Only { attempt, .. } => Some(attempt),
            _ => None,
        };
        match claimed {
            // What was listed is another attempt by now, or another request has the key.
            Claimed::Lapsed(Lapsed { attempt, .. }) if listed.is_some_and(|at| at != attempt) => {
                Err(RunError::NothingToResume)
            }
            Claimed::Mismatch { .. } if listed.is_some() => Err(RunError::NothingToResume),
            Claimed::Completed(replay) => self.replay(asked, &replay),
            Claimed::InProgress { remaining } => {
                Err(RunError::InProgress { retry_after: remaining })
            }
            Claimed::Lapsed(Lapsed { attempt, .. }) => Err(RunError::Held { attempt }),
            Claimed::Mismatch { completed } => Err(RunError::Mismatch { completed }),
            Claimed::Gone => Err(RunError::NothingToResume),
            Claimed::Acquired(_) => unreachable!("a claim that was won is executed"),
        }
    }

    pub(super) fn replay(&self, asked: &Asked, replay: &Replay) -> RunResult {
        let stored = self
            .codec()
            .decode_reply(&replay.reply, &asked.scope, &asked.key)
            .map_err(RunError::Corrupt)?;
        let longest = asked.operation.max_run_time();
        match stored {
            StoredReply::Full(reply) => Ok(Outcome {
                reply,
                how: How::Replayed,
                stored: true,
                attempt: replay.fence.attempt,
                lifetime: replay.expires_in.map(|left| left.saturating_sub(longest)),
            }),
            StoredReply::Tombstone(tombstone) => {
                Err(RunError::ReplyNotKept { status: tombstone.status() })
            }
        }
    }

    /// What a handler gets for a claim that was won.
    pub(super) fn execution(
        &self,
        asked: &Asked,
        input: Option<Input>,
        acquired: Acquired,
        sent: Instant,
    ) -> Result<Execution, RunError> {
        let (scope, key) = (&asked.scope, &asked.key);
        let (derivation, stored_input) = match &acquired.input {
            Some(sealed) => {
                let stored =
                    self.codec().decode_input(sealed, scope, key).map_err(RunError::Corrupt)?;
                (stored.derivation, stored.input)
            }
            None => (self.downstream_keys().derivation(), None),
        };
        let standing = match &acquired.recovery {
            Some(recovery) => {
                let progress = self
                    .codec()
                    .decode_progress(&recovery.payload, scope, key)
                    .map_err(RunError::Corrupt)?;
                Standing { number: recovery.number, progress }
            }
            None => Standing { number: 0, progress: Progress::begun() },
        };
        let lease = LeaseState::held_until(sent + acquired.lease, asked.operation.clone());
        Ok(Execution {
            inner: Arc::new(Inner {
                engine: self.clone(),
                operation: asked.operation.clone(),
                scope: scope.clone(),
                key: key.clone(),
                fence: Some(acquired.fence),
                fingerprint: acquired.fingerprint,
                derivation,
                input: stored_input.or(input),
                server_error: asked.server_error.clone(),
                age_at_start: acquired.age,
                started: sent,
                lease,
                untaken: Untaken::of(&standing.progress),
                standing: tokio::sync::Mutex::new(standing),
                asked_downstream: AtomicBool::new(false),
                local: Local::new(asked.operation.local_form()),
            }),
        })
    }

    fn unprotected(&self, asked: &Asked, input: Option<Input>) -> Execution {
        let derivation: Derivation = self.downstream_keys().derivation();
        let now = Instant::now();
        Execution {
            inner: Arc::new(Inner {
                engine: self.clone(),
                operation: asked.operation.clone(),
                scope: asked.scope.clone(),
                key: asked.key.clone(),
                fence: None,
                fingerprint: Fingerprint::not_compared(),
                derivation,
                input,
                server_error: asked.server_error.clone(),
                age_at_start: Duration::ZERO,
                started: now,
                lease: LeaseState::held_until(now, asked.operation.clone()),
                untaken: Untaken::of(&Progress::begun()),
                standing: tokio::sync::Mutex::new(Standing {
                    number: 0,
                    progress: Progress::begun(),
                }),
                asked_downstream: AtomicBool::new(false),
                local: Local::new(asked.operation.local_form()),
            }),
        }
    }
}
