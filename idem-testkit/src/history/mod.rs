//! Histories of concurrent calls, and whether the rules explain them.
//!
//! A [`Recorder`] wraps a store and writes down when each call was made, when it was answered,
//! and what it was told. [`check`] then looks for an order of the calls that respects real time
//! and in which every answer is the one that the pure rules give: the history is *linearizable*.
//! A call whose outcome is unknown, or whose future was dropped, may have taken effect at any
//! time after it was made, or never.
//!
//! Each (scope, key) is checked by itself, since no verb but a sweep touches two. Time counts
//! too: a lease that was set for an hour has not run out a second later. That takes a store whose
//! clock runs as fast as this machine's; on a clock that is stepped, only histories whose leases
//! end by being given up can be checked.
//!
//! ```
//! use std::time::Duration;
//! use idem_core::claim::{Claim, Claimed, Takeover};
//! use idem_core::codec::Sealed;
//! use idem_core::fingerprint::Fingerprints;
//! use idem_core::key::{Key, Scope};
//! use idem_core::memory::MemoryStore;
//! use idem_core::record::{OperationName, Owner, Retention};
//! use idem_core::store::Store;
//! use idem_testkit::history::{Recorder, check};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let recorder = Recorder::new();
//! let store = recorder.wrap(1, MemoryStore::new());
//! let (scope, key) = (Scope::new("s")?, Key::new("k")?);
//! let (operation, prints) = (OperationName::new("charge")?, Fingerprints::not_compared());
//! let (lease, kept) = (Duration::from_secs(60), Retention::Forever);
//! let owner = Owner::random();
//! let claim = Claim::new(&scope, &key, owner, &operation, &prints, lease, kept, Takeover::Never);
//! if let Claimed::Acquired(held) = store.claim(&claim).await? {
//!     store.complete(&held.fence, &Sealed::from_bytes("done")).await?;
//! }
//! let checked = check(&recorder.history())?;
//! assert_eq!(checked.operations, 2);
//! # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod explains;
mod hunt;
mod operation;
mod recorder;
mod search;
mod shrink;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use idem_core::key::{Key, Scope};

pub use hunt::Hunt;
pub use operation::{Answer, Call, ClaimCall, Operation};
pub use recorder::{Recorded, Recorder};
pub use shrink::Violation;

use search::{Explored, explore};

/// Operations on any number of keys, in the order in which they were made.
#[derive(Debug, Clone, Default)]
pub struct History {
    operations: Vec<Operation>,
}

impl History {
    /// A history of these operations, which may come in any order.
    pub fn new(operations: impl IntoIterator<Item = Operation>) -> Self {
        let mut operations: Vec<Operation> = operations.into_iter().collect();
        operations.sort_by_key(|operation| operation.invoked);
        Self { operations }
    }

    /// Its operations, by when they were made.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }
}

/// What was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checked {
    /// How many keys.
    pub keys: usize,
    /// How many operations on them.
    pub operations: usize,
    /// How many keys had too many operations open at once to be decided.
    pub undecided: usize,
}

/// Checks a history against the rules, each key by itself.
///
/// # Errors
/// The [`Violation`] of the first key whose answers no order explains.
pub fn check(history: &History) -> Result<Checked, Violation> {
    let mut keys: BTreeMap<(&Scope, &Key), Vec<&Operation>> = BTreeMap::new();
    let is_swept = history.operations.iter().any(|operation| operation.call == Call::Sweep);
    for operation in &history.operations {
        // What is known not to have happened explains itself.
        if let (Some(identity), false) = (operation.call.identity(), operation.is_without_effect())
        {
            keys.entry(identity).or_default().push(operation);
        }
    }
    let mut checked = Checked::default();
    for operations in keys.into_values() {
        checked.keys += 1;
        checked.operations += operations.len();
        match explore(&operations, is_swept) {
            Explored::Explained => {}
            Explored::TooLarge => checked.undecided += 1,
            Explored::Unexplained(found) => {
                return Err(shrink::smallest(found, is_swept));
            }
        }
    }
    Ok(checked)
}
