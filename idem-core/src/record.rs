//! What a store keeps for one (scope, key).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::codec::Sealed;
use crate::fingerprint::Fingerprint;
use crate::key::{Key, Name, NameError, Scope, check_length};
use crate::time::{MAX_DURATION, Timestamp};

/// The name of an operation: 1 to 255 bytes of UTF-8, compared byte for byte (R4).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationName(Arc<str>);

impl OperationName {
    /// A name from text.
    ///
    /// # Errors
    /// [`NameError`] when it is empty or longer than 255 bytes.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
        let name = name.as_ref();
        check_length(Name::Operation, name.as_bytes())?;
        Ok(Self(name.into()))
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! random_token {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; 16]);

        impl $name {
            /// A fresh one from the operating system's randomness.
            ///
            /// # Panics
            /// When the operating system gives no randomness: nothing could be told apart then.
            pub fn random() -> Self {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).expect("the operating system gives randomness");
                Self(bytes)
            }

            /// The one with these bytes, as a store read them.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// Its bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let [a, b, c, d, ..] = self.0;
                write!(f, concat!(stringify!($name), "({:02x}{:02x}{:02x}{:02x}…)"), a, b, c, d)
            }
        }
    };
}

random_token! {
    /// Who holds a record: 128 random bits, fresh for each claim call, so that a repeated call
    /// finds its own row (R5) and no two calls share one.
    Owner
}

random_token! {
    /// Which life of a (scope, key) this is: made by the **store** when it inserts. The attempt
    /// restarts at 1 after expiry or release, and a delayed duplicate of a claim can bring back a
    /// record with the same owner and attempt 1; only this tells the two apart (R8).
    Incarnation
}

/// What every write after the claim is conditional on (R8).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Whose key.
    pub scope: Scope,
    /// Which key.
    pub key: Key,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Which attempt in that life, from 1.
    pub attempt: u32,
    /// Which claim call.
    pub owner: Owner,
}

/// How long a reply is kept (R11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retention {
    /// For `total` from the first claim, and for no less than `after_completion` from completion.
    For {
        /// Counted from the first claim of this life.
        total: Duration,
        /// The least, counted from completion.
        after_completion: Duration,
    },
    /// Until it is removed by hand.
    Forever,
}

impl Retention {
    /// Kept for `total` from the first claim, with no minimum after completion. Both are bounded
    /// by [`MAX_DURATION`].
    pub fn of(total: Duration) -> Self {
        Self::at_least(total, Duration::ZERO)
    }

    /// Kept for `total` from the first claim and at least `after_completion` from completion.
    pub fn at_least(total: Duration, after_completion: Duration) -> Self {
        Self::For {
            total: total.min(MAX_DURATION),
            after_completion: after_completion.min(MAX_DURATION),
        }
    }

    /// The total, or `None` for [`Retention::Forever`].
    pub fn total(&self) -> Option<Duration> {
        match self {
            Self::For { total, .. } => Some(*total),
            Self::Forever => None,
        }
    }

    /// When a record claimed at `created` and completed at `completed` expires; `None` is never.
    pub fn expiry(&self, created: Timestamp, completed: Timestamp) -> Option<Timestamp> {
        match self {
            Self::For { total, after_completion } => {
                Some(created.after(*total).max(completed.after(*after_completion)))
            }
            Self::Forever => None,
        }
    }
}

/// A recovery point: its number, from 1, and what the engine put in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// 1 for the first; each one stands only on its predecessor (R8).
    pub number: u32,
    /// Opaque to a store.
    pub payload: Sealed,
}

/// What a store keeps for one (scope, key).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whose key.
    pub scope: Scope,
    /// Which key.
    pub key: Key,
    /// The operation that claimed it.
    pub operation: OperationName,
    /// What was asked, as the first claim of this life said it.
    pub fingerprint: Fingerprint,
    /// What a resumption needs, framed by the codec; gone once completed.
    pub input: Option<Sealed>,
    /// How often this life was claimed, from 1.
    pub attempt: u32,
    /// The claim call that holds it, or that completed it.
    pub owner: Owner,
    /// Which life of the key this is.
    pub incarnation: Incarnation,
    /// When this life was first claimed.
    pub created_at: Timestamp,
    /// How long its reply is kept.
    pub retention: Retention,
    /// Whether its operation writes a recovery point before its handler runs (R26).
    pub marks_begun: bool,
    /// In progress, or completed.
    pub state: State,
}

impl Record {
    /// The fence under which it is held or was completed.
    pub fn fence(&self) -> Fence {
        Fence {
            scope: self.scope.clone(),
            key: self.key.clone(),
            incarnation: self.incarnation,
            attempt: self.attempt,
            owner: self.owner,
        }
    }

    /// Whether `fence` is this record's.
    pub fn is_under(&self, fence: &Fence) -> bool {
        self.incarnation == fence.incarnation
            && self.attempt == fence.attempt
            && self.owner == fence.owner
            && self.scope == fence.scope
            && self.key == fence.key
    }

    /// The recovery point, while in progress.
    pub fn recovery(&self) -> Option<&Recovery> {
        match &self.state {
            State::InProgress { recovery, .. } => recovery.as_ref(),
            State::Completed { .. } => None,
        }
    }
}

/// The two stored states. There is no third.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Somebody holds it, or held it when the lease ran out.
    InProgress {
        /// Held while this is later than the store's now; at this very instant it is lapsed.
        locked_until: Timestamp,
        /// The holder gave the lease up: no late heartbeat brings it back.
        given_up: bool,
        /// What the execution has done so far.
        recovery: Option<Recovery>,
    },
    /// The reply stands.
    Completed {
        /// Framed by the codec.
        reply: Sealed,
        /// When it was stored.
        completed_at: Timestamp,
        /// From this instant on the record counts as absent; `None` is never.
        expires_at: Option<Timestamp>,
    },
}

/// A record and the store's time when it was read, so that ages need no clock of the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The record.
    pub record: Record,
    /// The store's now.
    pub now: Timestamp,
}

impl Observed {
    /// How long ago it was first claimed.
    pub fn age(&self) -> Duration {
        self.now.since(self.record.created_at)
    }

    /// How long ago its lease ran out, when it is in progress and lapsed.
    pub fn lapsed_for(&self) -> Option<Duration> {
        match self.record.state {
            State::InProgress { locked_until, .. } if locked_until <= self.now => {
                Some(self.now.since(locked_until))
            }
            _ => None,
        }
    }
}
