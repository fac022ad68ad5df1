//! What goes wrong in a store, sorted by what the caller may do about it (R9).

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// What a caller can do about a [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself is wrong. Nothing was written; the same call will fail again.
    InvalidInput,
    /// The record is no longer held under this fence. Nothing was written. The caller rolls back
    /// and stops; it never reports its own result as success.
    FenceLost,
    /// The fence holds, but the state of the record forbids this verb: a release after something
    /// began, a recovery point out of its order. Nothing was written.
    Refused,
    /// Inside a transaction only: this very write was committed before, so the transaction must
    /// roll back or its rows would stand twice (R5).
    AlreadyApplied,
    /// Nothing was written, and the same call may be repeated.
    NotApplied,
    /// The write may or may not have happened, or may still happen. Repeat the same call with the
    /// same owner or fence, or read back; never assume either.
    OutcomeUnknown,
    /// The store has no room. Nothing was written by this call; what was written before stands.
    StoreFull,
    /// The store's schema, a setting of the server or of the connection (its login, its database,
    /// its file), or a fingerprint's scheme is not one that this build works with. Nothing was
    /// written, and somebody has to change something.
    WrongSchema,
    /// What is stored cannot be read as a record. Nothing runs on it.
    CorruptRecord,
}

impl ErrorKind {
    /// Whether the write is known not to have happened.
    pub fn is_known_not_applied(self) -> bool {
        !matches!(self, Self::OutcomeUnknown | Self::AlreadyApplied)
    }

    /// Whether the same call may succeed a moment later.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::NotApplied | Self::OutcomeUnknown | Self::StoreFull)
    }

    /// A stable name for logs, metrics and problem documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid-input",
            Self::FenceLost => "fence-lost",
            Self::Refused => "refused",
            Self::AlreadyApplied => "already-applied",
            Self::NotApplied => "not-applied",
            Self::OutcomeUnknown => "outcome-unknown",
            Self::StoreFull => "store-full",
            Self::WrongSchema => "wrong-schema",
            Self::CorruptRecord => "corrupt-record",
        }
    }
}

/// For people: the [`name`](ErrorKind::name), save where it names one of several causes only. A
/// wrong password is no matter of the schema, and a migration does not help.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongSchema => "wrong schema or setting",
            _ => self.name(),
        })
    }
}

/// What a store was asked to do when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // Each is the name of the method that failed.
pub enum Verb {
    Open,
    Migrate,
    Preflight,
    Claim,
    Renew,
    Checkpoint,
    Complete,
    Release,
    Get,
    Lapsed,
    Sweep,
    Stats,
    List,
    Forget,
    Remove,
    Begin,
    Hold,
    Push,
    Commit,
    Rollback,
    Relay,
}

impl Verb {
    /// A stable lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Migrate => "migrate",
            Self::Preflight => "preflight",
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Checkpoint => "checkpoint",
            Self::Complete => "complete",
            Self::Release => "release",
            Self::Get => "get",
            Self::Lapsed => "lapsed",
            Self::Sweep => "sweep",
            Self::Stats => "stats",
            Self::List => "list",
            Self::Forget => "forget",
            Self::Remove => "remove",
            Self::Begin => "begin",
            Self::Hold => "hold",
            Self::Push => "push",
            Self::Commit => "commit",
            Self::Rollback => "rollback",
            Self::Relay => "relay",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A store's failure: its kind, what was being done, and what lay behind it.
///
/// It holds neither the key, nor a reply, nor a password (R24): a store author who wraps a
/// driver's error keeps to that too.
#[derive(Debug)]
pub struct StoreError {
    kind: ErrorKind,
    verb: Verb,
    detail: Cow<'static, str>,
    source: Option<Box<dyn Error + Send + Sync + 'static>>,
}

impl StoreError {
    /// An error of `kind` met while doing `verb`, with a sentence for a person.
    pub fn new(kind: ErrorKind, verb: Verb, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, verb, detail: detail.into(), source: None }
    }

    /// Adds what lay behind it.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn Error + Send + Sync + 'static>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The fence does not hold any more.
    pub fn fence_lost(verb: Verb) -> Self {
        Self::new(ErrorKind::FenceLost, verb, "the record is not held under this fence")
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was being done.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// A sentence for a person.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.verb, self.detail, self.kind)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// Why the pure rules refused a write; a store turns it into a [`StoreError`] with [`Refusal::at`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What the caller can do about it.
    pub kind: ErrorKind,
    /// A sentence for a person.
    pub detail: &'static str,
}

impl Refusal {
    /// The error that says so of `verb`.
    pub fn at(self, verb: Verb) -> StoreError {
        StoreError::new(self.kind, verb, self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unknown_outcome_may_have_been_applied() {
        assert!(!ErrorKind::OutcomeUnknown.is_known_not_applied());
        assert!(ErrorKind::NotApplied.is_known_not_applied());
        assert!(ErrorKind::FenceLost.is_known_not_applied());
    }

    #[test]
    fn an_error_says_verb_detail_and_kind_and_keeps_its_source() {
        let error = StoreError::new(ErrorKind::NotApplied, Verb::Claim, "no connection")
            .with_source(std::io::Error::other("refused"));
        assert_eq!(error.to_string(), "claim: no connection (not-applied)");
        assert_eq!(error.source().unwrap().to_string(), "refused");
        let error = StoreError::new(ErrorKind::WrongSchema, Verb::Open, "the login was refused");
        assert_eq!(error.to_string(), "open: the login was refused (wrong schema or setting)");
        assert_eq!(error.kind().name(), "wrong-schema");
    }
}
