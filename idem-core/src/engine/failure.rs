//! How a handler ends without a reply of its own.

use std::error::Error;
use std::fmt;

use crate::engine::untaken::StepsChanged;
use crate::reply::Reply;

/// Why a handler has no reply to store.
///
/// Every error converts into one by `?` and then means *unknown*: something may have been done
/// (R15). A rejection of the request is said with [`Failure::reject`].
pub struct Failure {
    pub(crate) kind: FailureKind,
}

pub(crate) enum FailureKind {
    /// The request was found wanting before anything was done.
    Rejected(Reply),
    /// The fence or the lease is lost.
    LeaseLost,
    /// The downstream may have forgotten our keys (R27).
    WindowOver,
    /// The transaction is known to have been rolled back.
    RolledBack(BoxError),
    /// The steps on record are not those of the handler.
    StepsChanged(StepsChanged),
    /// Anything else.
    Unknown(BoxError),
}

type BoxError = Box<dyn Error + Send + Sync + 'static>;

impl Failure {
    /// The request was found wanting before anything was done: the key is freed, so that a
    /// corrected retry works. Where something may have been done already (a later attempt, a
    /// recovery point, a downstream key or a transaction that was asked for) it is stored as a
    /// reply like any other (R14).
    pub fn reject(reply: impl Into<Reply>) -> Self {
        Self { kind: FailureKind::Rejected(reply.into()) }
    }

    /// What was done is not known, for a reason that is not an error type.
    pub fn unknown(reason: impl Into<BoxError>) -> Self {
        Self { kind: FailureKind::Unknown(reason.into()) }
    }

    /// A stable name for logs and metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            FailureKind::Rejected(_) => "rejected",
            FailureKind::LeaseLost => "lease_lost",
            FailureKind::WindowOver => "window_over",
            FailureKind::RolledBack(_) => "rolled_back",
            FailureKind::StepsChanged(_) => "steps_changed",
            FailureKind::Unknown(_) => "unknown",
        }
    }

    pub(crate) fn is_rejection(&self) -> bool {
        matches!(self.kind, FailureKind::Rejected(_))
    }

    pub(crate) fn lease_lost() -> Self {
        Self { kind: FailureKind::LeaseLost }
    }

    pub(crate) fn window_over() -> Self {
        Self { kind: FailureKind::WindowOver }
    }

    pub(crate) fn of_steps(changed: StepsChanged) -> Self {
        Self { kind: FailureKind::StepsChanged(changed) }
    }

    pub(crate) fn rolled_back(source: impl Into<BoxError>) -> Self {
        Self { kind: FailureKind::RolledBack(source.into()) }
    }

    /// Whether another execution has taken over. A handler that holds the failure back must stop
    /// all the same: nothing it does counts any more.
    pub fn is_lease_lost(&self) -> bool {
        matches!(self.kind, FailureKind::LeaseLost)
    }

    /// Whether the record is too old for a downstream call (R27).
    pub fn is_window_over(&self) -> bool {
        matches!(self.kind, FailureKind::WindowOver)
    }

    /// Why the steps on record do not go with the handler, if they do not: it was changed while
    /// the record was under way.
    pub fn steps_changed(&self) -> Option<&StepsChanged> {
        match &self.kind {
            FailureKind::StepsChanged(changed) => Some(changed),
            _ => None,
        }
    }

    /// Whether what was done is not known.
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, FailureKind::Unknown(_))
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::unknown(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FailureKind::Rejected(reply) => write!(f, "rejected with status {}", reply.status()),
            FailureKind::LeaseLost => f.write_str("the lease was lost"),
            FailureKind::WindowOver => {
                f.write_str("the record is older than the downstream remembers keys")
            }
            FailureKind::StepsChanged(changed) => write!(f, "{changed}"),
            FailureKind::RolledBack(source) => write!(f, "rolled back: {source}"),
            FailureKind::Unknown(source) => write!(f, "unknown outcome: {source}"),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failure({self})")
    }
}

/// A call that a handler may not make, or not now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// A step, a downstream key or a second transaction while a transaction of the same execution
    /// is open.
    #[error("a transaction of this execution is open")]
    TransactionOpen,
    /// A transaction, a step or a downstream key in an execution that runs without protection.
    #[error("this execution runs without protection: it has no record")]
    Unprotected,
    /// A step in the one-commit form, or a record without a claim-first store.
    #[error("the one-commit form has no steps")]
    OneCommitHasNoSteps,
    /// The transaction of the one-commit form belongs to another store.
    #[error("the engine's transaction belongs to another type of store")]
    OtherStore,
    /// The transaction of the one-commit form was used up.
    #[error("this execution's transaction has ended")]
    TransactionEnded,
    /// A step or a downstream key after the reply was committed, or once the handler has ended.
    #[error("this execution has ended")]
    ExecutionEnded,
    /// No handler is registered for this operation.
    #[error("no handler is registered for this operation")]
    NotRegistered,
}
