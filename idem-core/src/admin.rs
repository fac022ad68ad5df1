//! What an operator asks of a store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::key::Scope;
use crate::record::{Fence, OperationName};
use crate::store::{Cursor, Page, Store};

/// The operator's verbs, beside those of [`Store`]. None is defaulted.
#[async_trait]
pub trait Admin: Store {
    /// Counts the records by what they are.
    ///
    /// # Errors
    /// Those of the store itself.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// Pages through the records that `filter` lets pass, by scope and key in byte order.
    /// Expired ones are left out.
    ///
    /// # Errors
    /// `InvalidInput` for a cursor that is not this store's; `CorruptRecord`; those of the store.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError>;

    /// Deletes up to `limit` completed records of a scope, and reports what is in progress there:
    /// that stays, since forgetting a live claim would let its work run twice.
    ///
    /// # Errors
    /// Those of the store itself.
    ///
    /// # Cancel safety
    /// Some may be gone.
    async fn forget(&self, scope: &Scope, limit: u32) -> Result<Forgotten, StoreError>;

    /// Deletes one record under its fence, whatever its attempt or state. What ran under it may
    /// run again: that is for the caller to have asked a person.
    ///
    /// # Behavior
    /// Own, in any state: deleted. Absent: Ok. Another's: fence lost.
    ///
    /// # Errors
    /// `FenceLost`, and those of the store itself.
    ///
    /// # Cancel safety
    /// The record may be gone; removing it again is Ok.
    async fn remove(&self, fence: &Fence) -> Result<(), StoreError>;
}

/// How many records there are of each sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// In progress under a lease that runs.
    pub live: u64,
    /// In progress, the lease over, a recovery point written.
    pub lapsed_begun: u64,
    /// In progress, the lease over, no recovery point.
    pub lapsed_not_begun: u64,
    /// Completed and kept.
    pub completed: u64,
    /// Completed, expired, and not yet swept.
    pub expired: u64,
    /// How long ago the lease ran out that has been over the longest.
    pub oldest_lapse: Option<Duration>,
    /// Outbox messages that wait to be sent; `None` where the store has no outbox.
    pub outbox_pending: Option<u64>,
}

/// Which records to list. All conditions hold together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Only this scope.
    pub scope: Option<Scope>,
    /// Only this operation.
    pub operation: Option<OperationName>,
    /// Only this state.
    pub state: Option<StateFilter>,
}

impl Filter {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only this scope.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Only this operation.
    #[must_use]
    pub fn operation(mut self, operation: OperationName) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Only this state.
    #[must_use]
    pub fn state(mut self, state: StateFilter) -> Self {
        self.state = Some(state);
        self
    }
}

/// A state to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateFilter {
    /// In progress under a lease that runs.
    Live,
    /// In progress, the lease over.
    Lapsed,
    /// Completed and kept.
    Completed,
}

/// What forgetting a scope did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// How many completed records went.
    pub deleted: u64,
    /// How many records are in progress in this scope, lapsed or not; they stay.
    pub in_progress: u64,
    /// Whether more completed ones wait.
    pub more: bool,
}

macro_rules! forward_admin {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<S: Admin + ?Sized> Admin for $pointer<S> {
            async fn stats(&self) -> Result<Stats, StoreError> {
                (**self).stats().await
            }
            async fn list(
                &self,
                filter: &Filter,
                after: Option<&Cursor>,
                limit: u32,
            ) -> Result<Page, StoreError> {
                (**self).list(filter, after, limit).await
            }
            async fn forget(&self, scope: &Scope, limit: u32) -> Result<Forgotten, StoreError> {
                (**self).forget(scope, limit).await
            }
            async fn remove(&self, fence: &Fence) -> Result<(), StoreError> {
                (**self).remove(fence).await
            }
        }
    )*};
}

forward_admin!(Arc, Box);

const _: Option<&dyn Admin> = None; // The trait stays usable as `dyn Admin`.
