//! What a caller of the engine gets back.

use std::time::Duration;

use crate::codec::CodecError;
use crate::engine::untaken::StepsChanged;
use crate::error::{ErrorKind, StoreError};
use crate::reply::Reply;

/// What a handler answers.
///
/// Usually a [`Reply`], which converts into it. A reply whose body does not fit in memory is
/// [`streamed`](Self::streamed) past the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) reply: Reply,
    pub(crate) streamed: bool,
}

impl Answer {
    /// An answer whose body goes to the caller by another way and is not kept: a tombstone with
    /// its status and headers is stored (R17).
    pub fn streamed(head: Reply) -> Self {
        Self { reply: head, streamed: true }
    }
}

impl<R: Into<Reply>> From<R> for Answer {
    fn from(reply: R) -> Self {
        Self { reply: reply.into(), streamed: false }
    }
}

/// A reply, and how it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The answer, byte for byte the same for every retry.
    pub reply: Reply,
    /// How it came about.
    pub how: How,
    /// Whether it stands in the store. When it does not, a retry may be answered differently
    /// (R16).
    pub stored: bool,
    /// The attempt that gave it; 0 where the store did not say.
    pub attempt: u32,
    /// How long a client may still rely on a retry: the published lifetime, counted down. `None`
    /// is for ever.
    pub lifetime: Option<Duration>,
}

impl Outcome {
    /// Whether this call ran the handler.
    pub fn is_executed(&self) -> bool {
        !matches!(self.how, How::Replayed)
    }
}

/// How a reply came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// This call ran the handler.
    Executed,
    /// This call ran the handler, which found nothing to execute; the key is free again (R14).
    Rejected,
    /// An earlier call ran it, or one that took over.
    Replayed,
    /// This call ran the handler with no protection, since the store was down (R18).
    Unprotected,
}

impl How {
    /// A stable name for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Rejected => "rejected",
            Self::Replayed => "replayed",
            Self::Unprotected => "unprotected",
        }
    }
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The first one is still running.
    #[error("the first request under this key is still running")]
    InProgress {
        /// How long its lease still runs; it may be renewed.
        retry_after: Duration,
    },
    /// An earlier execution ended without a reply, and nothing runs it again until a person
    /// settles it.
    #[error("an earlier execution under this key is held until it is settled")]
    Held {
        /// Its attempt.
        attempt: u32,
    },
    /// This execution ended without a reply. What it did is not known; a retry after the lease
    /// goes on, or is told that it is held.
    #[error("the execution ended without a reply, and what it did is not known")]
    Unknown,
    /// The handler was changed while the record was under way, and its steps are not those on
    /// record. No reply is stored; a retry finds the same until a release knows the steps again.
    #[error("the steps on record are not those of the handler: {0}")]
    StepsChanged(#[source] StepsChanged),
    /// This execution ended without a reply, and it is known to have changed nothing.
    #[error("the execution failed and was rolled back")]
    RolledBack,
    /// The same key was used for another operation or another request.
    #[error("the key was used for another request")]
    Mismatch {
        /// Whether the first one has finished.
        completed: bool,
    },
    /// The reply was over the size limit: it was delivered once and is not kept (R17).
    #[error("the reply was too large to be kept")]
    ReplyNotKept {
        /// The status that it had.
        status: u16,
    },
    /// Another execution took over while this one ran, and has not finished yet.
    #[error("the lease was lost to another execution, which has not finished")]
    LeaseLost,
    /// The handler has a reply, but it could not be stored, and the operation does not deliver
    /// such replies.
    #[error("the reply could not be stored")]
    NotStored,
    /// As many executions run as may.
    #[error("too many executions are running")]
    Busy,
    /// The engine is shutting down; nothing was claimed.
    #[error("the engine is shutting down")]
    Draining,
    /// There is nothing to resume: it was finished, taken over, or never began.
    #[error("there is nothing to resume")]
    NothingToResume,
    /// No handler is registered for the record's operation, or it kept no input.
    #[error("the operation cannot be resumed without its client: {detail}")]
    NotResumable {
        /// What is missing.
        detail: &'static str,
    },
    /// The call itself is wrong; nothing was claimed.
    #[error("{detail}")]
    Invalid {
        /// What is wrong.
        detail: &'static str,
    },
    /// What is stored cannot be read. Nothing ran.
    #[error("what is stored under this key cannot be read")]
    Corrupt(#[source] CodecError),
    /// The store failed before anything ran.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RunError {
    /// A stable name for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::InProgress { .. } => "in_progress",
            Self::Held { .. } => "held",
            Self::Unknown => "unknown",
            Self::RolledBack => "rolled_back",
            Self::Mismatch { .. } => "mismatch",
            Self::ReplyNotKept { .. } => "reply_not_kept",
            Self::LeaseLost => "lease_lost",
            Self::NotStored => "not_stored",
            Self::Busy => "busy",
            Self::Draining => "draining",
            Self::NothingToResume => "nothing_to_resume",
            Self::NotResumable { .. } => "not_resumable",
            Self::Invalid { .. } => "invalid",
            Self::Corrupt(_) => "corrupt",
            Self::Store(_) => "store_failed",
            Self::StepsChanged(_) => "steps_changed",
        }
    }

    /// The kind of the store's failure, when it is one.
    pub fn store_kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Store(error) => Some(error.kind()),
            _ => None,
        }
    }
}
