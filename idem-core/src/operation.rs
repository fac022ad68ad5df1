//! What an operation is and how it wants to be protected.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::Takeover;
use crate::record::{OperationName, Retention};
use crate::time::{MAX_DURATION, bounded_lease};

mod builder;

pub use builder::{OperationBuilder, OperationError};

/// An operation that is safe to retry under a key, and its settings. Clones are cheap.
///
/// ```
/// use std::time::Duration;
/// use idem_core::operation::Operation;
///
/// let charge = Operation::builder("charges.create")
///     .lease(Duration::from_secs(20))
///     .resumable()
///     .build()?;
/// assert_eq!(charge.name().as_str(), "charges.create");
/// # Ok::<_, idem_core::operation::OperationError>(())
/// ```
#[derive(Clone)]
pub struct Operation {
    settings: Arc<Settings>,
}

struct Settings {
    name: OperationName,
    lease: Duration,
    retention: Retention,
    attempts: u32,
    window: Option<Duration>,
    on_unknown: OnUnknown,
    begun: Begun,
    compares: bool,
    keeps_input: bool,
    max_reply_bytes: usize,
    max_run_time: Duration,
    transaction_limit: Duration,
    wait: Option<Duration>,
    claim_limit: Duration,
    reply_delay_limit: Duration,
    store_down: StoreDown,
    unstored: Unstored,
    local_form: LocalForm,
}

impl Settings {
    /// No sum of an instant and a setting overflows.
    fn bound_durations(&mut self) {
        self.lease = bounded_lease(self.lease);
        for setting in [
            &mut self.max_run_time,
            &mut self.transaction_limit,
            &mut self.claim_limit,
            &mut self.reply_delay_limit,
        ] {
            *setting = (*setting).min(MAX_DURATION);
        }
        self.wait = self.wait.map(|wait| wait.min(MAX_DURATION));
    }
}

/// What follows when an execution ended without a reply, so that nobody knows what it did (R15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnUnknown {
    /// The next retry after the lease, or a reconciler, goes on from the recovery point, up to
    /// the cap of attempts. Safe because downstream keys repeat.
    #[default]
    Resume,
    /// Nothing runs it again until a person settles it; retries get a typed answer.
    ///
    /// That is for effects that cannot be repeated and that idem knows nothing of, so by default
    /// ([`Begun::BeforeHandler`]) every failure of the handler holds the record, also one whose
    /// transaction is known to be rolled back: it may not be all that the handler did. Where the
    /// handler says when it is about to act ([`Begun::ByHandler`]), a failure before that holds
    /// nothing: a transaction that was rolled back can be tried again at once (R15).
    Hold,
    /// A 500 is stored as its reply.
    StoreServerError,
}

/// When the recovery point "begun" is written (R26).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Begun {
    /// Not at all: the operation is neither held nor resumed without its client.
    #[default]
    Unmarked,
    /// By the engine, before the handler runs.
    BeforeHandler,
    /// By the handler: before it does anything that cannot be taken back, it calls
    /// [`begin`](crate::engine::Execution::begin), or something that begins for it
    /// ([`step`](crate::engine::Execution::step),
    /// [`downstream_key`](crate::engine::Execution::downstream_key),
    /// [`registered`](crate::engine::Execution::registered)). What it does before that is
    /// checking the request: a rejection found there frees the key.
    ByHandler,
}

/// What happens to a request when the store of claims cannot be reached (R18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StoreDown {
    /// It is refused; the client retries.
    #[default]
    Refuse,
    /// The handler runs **with no protection at all**: two copies of the request both run. Only
    /// where the claim provably never left, and never with local effects or steps.
    RunWithoutProtection,
}

/// What the caller gets when its reply could not be stored in time (R16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Unstored {
    /// The reply, marked as not stored.
    #[default]
    Deliver,
    /// An error; a retry finds out what became of it.
    Refuse,
}

/// How local effects and the record commit (R19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LocalForm {
    /// The claim is committed first; rows and completion commit together.
    #[default]
    ClaimFirst,
    /// Claim, rows and completion are one commit. It has no steps and no heartbeat.
    OneCommit,
}

impl Operation {
    /// Starts from the defaults: lease 30 s; replies kept for 24 h and at least 1 h after
    /// completion; 20 attempts; resume on unknown; fingerprints compared; replies up to 1 MiB;
    /// runs up to 15 min; transactions up to 10 s; no waiting; closed when the store is down.
    pub fn builder(name: impl AsRef<str>) -> OperationBuilder {
        OperationBuilder::new(name)
    }

    /// Its name, compared with the stored one (R4).
    pub fn name(&self) -> &OperationName {
        &self.settings.name
    }

    /// How long a holder has before others may take over.
    pub fn lease(&self) -> Duration {
        self.settings.lease
    }

    /// How long a reply is kept.
    pub fn retention(&self) -> Retention {
        self.settings.retention
    }

    /// How often it may be attempted.
    pub fn attempts(&self) -> u32 {
        self.settings.attempts
    }

    /// The age from which nothing may be resumed and no downstream called: the downstream window
    /// less its margin (R27). `None` is never.
    pub fn resumable_until(&self) -> Option<Duration> {
        self.settings.window
    }

    /// What follows an unknown outcome.
    pub fn on_unknown(&self) -> OnUnknown {
        self.settings.on_unknown
    }

    /// When "begun" is written.
    pub fn begun(&self) -> Begun {
        self.settings.begun
    }

    /// Whether fingerprints are compared.
    pub fn compares(&self) -> bool {
        self.settings.compares
    }

    /// Whether the input is stored with the claim.
    pub fn keeps_input(&self) -> bool {
        self.settings.keeps_input
    }

    /// The largest body of a reply that is stored, in bytes.
    pub fn max_reply_bytes(&self) -> usize {
        self.settings.max_reply_bytes
    }

    /// How long heartbeats go on.
    pub fn max_run_time(&self) -> Duration {
        self.settings.max_run_time
    }

    /// How long a transaction of the handler may stay open.
    pub fn transaction_limit(&self) -> Duration {
        self.settings.transaction_limit
    }

    /// How long a duplicate waits for the first to finish.
    pub fn wait(&self) -> Option<Duration> {
        self.settings.wait
    }

    /// How long a claim is tried before the store counts as down.
    pub fn claim_limit(&self) -> Duration {
        self.settings.claim_limit
    }

    /// How long a reply is held back while it cannot be stored.
    pub fn reply_delay_limit(&self) -> Duration {
        self.settings.reply_delay_limit
    }

    /// What happens when the store is down.
    pub fn store_down(&self) -> StoreDown {
        self.settings.store_down
    }

    /// What happens when the reply could not be stored.
    pub fn unstored(&self) -> Unstored {
        self.settings.unstored
    }

    /// How local effects commit.
    pub fn local_form(&self) -> LocalForm {
        self.settings.local_form
    }

    /// How long after the first claim a client may rely on a retry: the retention less the
    /// longest run (R11). `None` is for ever.
    pub fn published_lifetime(&self) -> Option<Duration> {
        let total = self.settings.retention.total()?;
        Some(total.saturating_sub(self.settings.max_run_time))
    }

    /// The takeover policy of a client's claim.
    pub(crate) fn takeover(&self) -> Takeover {
        match self.settings.on_unknown {
            OnUnknown::Hold => Takeover::Never,
            _ => Takeover::Below {
                attempts: self.settings.attempts,
                younger_than: self.settings.window.unwrap_or(Duration::MAX),
            },
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("name", self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn build(change: impl FnOnce(OperationBuilder) -> OperationBuilder) -> OperationError {
        change(Operation::builder("op")).build().unwrap_err()
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        assert!(matches!(Operation::builder("").build(), Err(OperationError::Name(_))));
        assert_eq!(build(|b| b.attempts(0)), OperationError::NoAttempts);
        assert_eq!(
            build(|b| b.downstream_window(HOUR * 25, HOUR)),
            OperationError::WindowOutlivesRecord
        );
        assert_eq!(build(|b| b.downstream_window(HOUR, HOUR)), OperationError::NoWindow);
        let hold = |b: OperationBuilder| b.on_unknown(OnUnknown::Hold);
        assert_eq!(build(|b| hold(b).begun(Begun::Unmarked)), OperationError::MustMarkBegun);
        let open = |b: OperationBuilder| b.store_down(StoreDown::RunWithoutProtection);
        assert_eq!(build(|b| open(b).resumable()), OperationError::UnprotectedEffects);
        let one = |b: OperationBuilder| b.local_form(LocalForm::OneCommit);
        assert_eq!(build(|b| open(one(b))), OperationError::UnprotectedEffects);
        assert_eq!(build(|b| one(b).resumable()), OperationError::OneCommitHasNoRecoveryPoint);
    }

    #[test]
    fn the_window_defaults_to_the_retention_less_a_margin() {
        let operation = Operation::builder("op").build().unwrap();
        assert_eq!(operation.resumable_until(), Some(HOUR * 24 - Duration::from_secs(300)));
        assert_eq!(operation.published_lifetime(), Some(HOUR * 24 - HOUR / 4));
        let forever = Operation::builder("op").retention(Retention::Forever).build().unwrap();
        assert_eq!((forever.resumable_until(), forever.published_lifetime()), (None, None));
    }
}
