//! How an operation's settings are given, and checked against each other.

use std::sync::Arc;
use std::time::Duration;

use super::{Begun, LocalForm, OnUnknown, Operation, Settings, StoreDown, Unstored};
use crate::key::NameError;
use crate::record::{OperationName, Retention};

/// Builds an [`Operation`].
#[must_use]
pub struct OperationBuilder {
    name: Result<OperationName, NameError>,
    window: Option<Duration>,
    margin: Option<Duration>,
    begun: Option<Begun>,
    resumable: bool,
    settings: Settings,
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => {
        impl OperationBuilder {$(
            $(#[$doc])*
            pub fn $name(mut self, $name: $type) -> Self {
                self.settings.$name = $name;
                self
            }
        )*}
    };
}

settings! {
    /// How long a holder has before others may take over. A heartbeat renews it three times in
    /// that span.
    lease: Duration,
    /// How long a reply is kept.
    retention: Retention,
    /// How often it may be attempted before it is held; at least 1.
    attempts: u32,
    /// What follows an unknown outcome.
    on_unknown: OnUnknown,
    /// The largest body of a reply that is stored, in bytes. A larger one is delivered, and a
    /// tombstone is stored (R17).
    max_reply_bytes: usize,
    /// How long heartbeats go on. Also the longest request, by which the published lifetime of a
    /// key is shorter than the retention.
    max_run_time: Duration,
    /// How long a transaction of the handler may stay open before it is rolled back.
    transaction_limit: Duration,
    /// How long a claim is tried before the store counts as down.
    claim_limit: Duration,
    /// How long a reply is held back while it cannot be stored.
    reply_delay_limit: Duration,
    /// What happens when the store is down.
    store_down: StoreDown,
    /// What happens when the reply could not be stored.
    unstored: Unstored,
    /// How local effects commit.
    local_form: LocalForm,
}

impl OperationBuilder {
    pub(super) fn new(name: impl AsRef<str>) -> Self {
        Self {
            name: OperationName::new(name),
            window: None,
            margin: None,
            begun: None,
            resumable: false,
            settings: Settings {
                // Replaced by `build`, which fails when the name was refused.
                name: OperationName::new("unnamed").expect("a short name"),
                lease: Duration::from_secs(30),
                retention: Retention::at_least(
                    Duration::from_secs(24 * 60 * 60),
                    Duration::from_secs(60 * 60),
                ),
                attempts: 20,
                window: None,
                on_unknown: OnUnknown::Resume,
                begun: Begun::Unmarked,
                compares: true,
                keeps_input: false,
                max_reply_bytes: 1024 * 1024,
                max_run_time: Duration::from_secs(15 * 60),
                transaction_limit: Duration::from_secs(10),
                wait: None,
                claim_limit: Duration::from_secs(5),
                reply_delay_limit: Duration::from_secs(5),
                store_down: StoreDown::Refuse,
                unstored: Unstored::Deliver,
                local_form: LocalForm::ClaimFirst,
            },
        }
    }

    /// A duplicate waits this long for the first to finish, then gets its reply.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.settings.wait = Some(wait);
        self
    }

    /// Requests under the same key are taken for the same: for redelivered events, which may
    /// legally differ.
    pub fn without_comparison(mut self) -> Self {
        self.settings.compares = false;
        self
    }

    /// The input is stored and "begun" is marked, so that a reconciler can resume it without its
    /// client, through the handler that is registered for it.
    pub fn resumable(mut self) -> Self {
        self.resumable = true;
        self.settings.keeps_input = true;
        self
    }

    /// When "begun" is written, where the default does not fit: see [`Begun::ByHandler`].
    pub fn begun(mut self, begun: Begun) -> Self {
        self.begun = Some(begun);
        self
    }

    /// How long the downstream remembers keys, and how much earlier to stop (R27). By default
    /// the retention, less a tenth of it but no more than five minutes.
    pub fn downstream_window(mut self, window: Duration, margin: Duration) -> Self {
        self.window = Some(window);
        self.margin = Some(margin);
        self
    }

    /// Checks the settings against each other.
    ///
    /// # Errors
    /// [`OperationError`] says which two do not go together.
    pub fn build(mut self) -> Result<Operation, OperationError> {
        self.settings.name = self.name.clone()?;
        self.settings.bound_durations();
        self.settings.window = self.usable_window()?;
        self.settings.begun = self.checked_begun()?;
        let settings = &self.settings;
        if settings.attempts == 0 {
            return Err(OperationError::NoAttempts);
        }
        let marked = settings.begun != Begun::Unmarked;
        if settings.store_down == StoreDown::RunWithoutProtection
            && (marked || settings.local_form == LocalForm::OneCommit)
        {
            return Err(OperationError::UnprotectedEffects);
        }
        if settings.local_form == LocalForm::OneCommit && marked {
            return Err(OperationError::OneCommitHasNoRecoveryPoint);
        }
        Ok(Operation { settings: Arc::new(self.settings) })
    }

    fn usable_window(&self) -> Result<Option<Duration>, OperationError> {
        let total = self.settings.retention.total();
        let Some(window) = self.window.or(total) else { return Ok(None) };
        if total.is_some_and(|total| window > total) {
            return Err(OperationError::WindowOutlivesRecord);
        }
        let margin = self.margin.unwrap_or((window / 10).min(Duration::from_secs(300)));
        match window.checked_sub(margin) {
            Some(usable) if !usable.is_zero() => Ok(Some(usable)),
            _ => Err(OperationError::NoWindow),
        }
    }

    fn checked_begun(&self) -> Result<Begun, OperationError> {
        let needed = self.resumable || self.settings.on_unknown == OnUnknown::Hold;
        match self.begun {
            None if needed => Ok(Begun::BeforeHandler),
            None => Ok(Begun::Unmarked),
            Some(Begun::Unmarked) if needed => Err(OperationError::MustMarkBegun),
            Some(begun) => Ok(begun),
        }
    }
}

/// Settings of an operation that do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// Its name was refused.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It may be attempted zero times.
    #[error("an operation needs at least one attempt")]
    NoAttempts,
    /// The downstream window is longer than the record lives (R27).
    #[error("the downstream window is longer than the retention")]
    WindowOutlivesRecord,
    /// The margin leaves nothing of the downstream window.
    #[error("the margin leaves nothing of the downstream window")]
    NoWindow,
    /// It is held or resumable, and would not mark that it began (R26).
    #[error("an operation that is held or resumable must mark that it began")]
    MustMarkBegun,
    /// It would run unprotected with effects that need the record (R18).
    #[error("running without protection cannot be combined with steps, holding or one commit")]
    UnprotectedEffects,
    /// The one-commit form has no recovery points.
    #[error("the one-commit form has no recovery points, so it is neither held nor resumable")]
    OneCommitHasNoRecoveryPoint,
}
