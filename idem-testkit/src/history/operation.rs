//! One call: what was asked, what was told, and when.

use std::fmt;
use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Recovery};
use idem_core::store::{Lease, Renewed};

use crate::owned::OwnedClaim;

/// One call of a verb.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Who called.
    pub client: u32,
    /// When, counted from the start of the history.
    pub invoked: Duration,
    /// When it was answered; `None` for a call that may still take effect at any later time.
    pub returned: Option<Duration>,
    /// What was asked.
    pub call: Call,
    /// What was told.
    pub answer: Answer,
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// [`Store::claim`](idem_core::store::Store::claim).
    Claim(ClaimCall),
    /// [`Store::renew`](idem_core::store::Store::renew).
    Renew {
        /// Under which fence.
        fence: Fence,
        /// For how long.
        lease: Duration,
    },
    /// [`Store::checkpoint`](idem_core::store::Store::checkpoint).
    Checkpoint {
        /// Under which fence.
        fence: Fence,
        /// What was to be written.
        recovery: Recovery,
        /// For how long the lease was to run.
        lease: Duration,
    },
    /// [`Store::complete`](idem_core::store::Store::complete).
    Complete {
        /// Under which fence.
        fence: Fence,
        /// What was to be stored.
        reply: Sealed,
    },
    /// [`Store::release`](idem_core::store::Store::release).
    Release {
        /// Under which fence.
        fence: Fence,
    },
    /// [`Store::get`](idem_core::store::Store::get).
    Get {
        /// Whose key.
        scope: Scope,
        /// Which key.
        key: Key,
    },
    /// [`Store::sweep`](idem_core::store::Store::sweep), which may touch any key.
    Sweep,
}

/// A claim as it was made. It is made by a [`Recorder`](super::Recorder), or from a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimCall(pub(super) OwnedClaim);

impl From<&idem_core::claim::Claim<'_>> for ClaimCall {
    fn from(claim: &idem_core::claim::Claim<'_>) -> Self {
        Self(OwnedClaim::of(claim))
    }
}

impl Call {
    /// The record that it is about; `None` for a sweep.
    pub fn identity(&self) -> Option<(&Scope, &Key)> {
        match self {
            Self::Claim(ClaimCall(claim)) => Some((&claim.scope, &claim.key)),
            Self::Renew { fence, .. }
            | Self::Checkpoint { fence, .. }
            | Self::Complete { fence, .. }
            | Self::Release { fence } => Some((&fence.scope, &fence.key)),
            Self::Get { scope, key } => Some((scope, key)),
            Self::Sweep => None,
        }
    }
}

/// What was told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// A claim's.
    Claimed(Claimed),
    /// A renewal's.
    Renewed(Renewed),
    /// A checkpoint's.
    Leased(Lease),
    /// Success of a completion or a release.
    Done,
    /// A reading's.
    Seen(Option<Observed>),
    /// An error that says that nothing was written.
    Refused(ErrorKind),
    /// Nobody knows: it may have taken effect, or may still.
    Unknown,
}

impl Answer {
    pub(super) fn of<T>(result: &Result<T, StoreError>, answer: impl FnOnce(&T) -> Self) -> Self {
        match result {
            Ok(told) => answer(told),
            Err(error) if error.kind().is_known_not_applied() => Self::Refused(error.kind()),
            Err(_) => Self::Unknown,
        }
    }
}

impl Operation {
    /// Whether it failed in a way that has nothing to do with the record.
    pub(super) fn is_without_effect(&self) -> bool {
        let Answer::Refused(kind) = self.answer else { return false };
        matches!(kind, ErrorKind::NotApplied | ErrorKind::StoreFull | ErrorKind::InvalidInput)
    }

    /// Whether its answer says that it left the record as it was.
    pub(super) fn changed_nothing(&self) -> bool {
        match &self.answer {
            Answer::Claimed(claimed) => !matches!(claimed, Claimed::Acquired(_)),
            Answer::Renewed(renewed) => matches!(renewed, Renewed::Completed),
            Answer::Seen(_) | Answer::Refused(_) => true,
            Answer::Leased(_) | Answer::Done | Answer::Unknown => false,
        }
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.answer == Answer::Unknown || self.returned.is_none()
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.returned.map_or("…".to_owned(), |at| format!("{at:?}"));
        write!(f, "{:?} to {until}, client {}: ", self.invoked, self.client)?;
        match &self.call {
            Call::Claim(ClaimCall(claim)) => write!(
                f,
                "claim by {:?}, {}, {:?}, lease {:?}, {:?}, {:?}",
                claim.owner,
                claim.operation,
                claim.fingerprints.primary(),
                claim.lease,
                claim.retention,
                claim.takeover
            )?,
            Call::Renew { fence, lease } => write!(f, "renew {} for {lease:?}", held(fence))?,
            Call::Checkpoint { fence, recovery, .. } => {
                write!(f, "checkpoint {} number {}", held(fence), recovery.number)?;
            }
            Call::Complete { fence, reply } => {
                write!(f, "complete {} with {reply:?}", held(fence))?;
            }
            Call::Release { fence } => write!(f, "release {}", held(fence))?,
            Call::Get { .. } => f.write_str("get")?,
            Call::Sweep => f.write_str("sweep")?,
        }
        f.write_str(" -> ")?;
        match &self.answer {
            Answer::Claimed(Claimed::Acquired(acquired)) => {
                write!(f, "Acquired {}", held(&acquired.fence))
            }
            Answer::Claimed(claimed) => write!(f, "{claimed:?}"),
            Answer::Renewed(renewed) => write!(f, "{renewed:?}"),
            Answer::Leased(lease) => write!(f, "{lease:?}"),
            Answer::Done => f.write_str("Ok"),
            Answer::Seen(seen) => match seen {
                Some(seen) => {
                    write!(f, "{}: {:?}", held(&seen.record.fence()), seen.record.state)
                }
                None => f.write_str("nothing"),
            },
            Answer::Refused(kind) => write!(f, "{kind}"),
            Answer::Unknown => f.write_str("unknown"),
        }
    }
}

pub(super) fn held(fence: &Fence) -> String {
    format!("attempt {} of {:?} by {:?}", fence.attempt, fence.incarnation, fence.owner)
}
