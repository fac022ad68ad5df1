//! The suite that every [`Store`](idem_core::store::Store) must pass, and the tools behind it.
//!
//! Whoever writes a store for idem writes one [`Fixture`](fixture::Fixture), which gives a fresh,
//! isolated store, says with [`Capabilities`](capability::Capabilities) what it offers, and hands
//! both to a [`Conformance`](conformance::Conformance). Each case of the suite is then a named
//! test: it can be filtered and run alone, and all run in parallel. A case that the fixture cannot
//! run is shown as ignored with the reason. A failure says the case, the rule, what was expected,
//! what was seen, the seed, and how to run it again.
//!
//! It knows nothing of any backend.

mod ask;
pub mod broken;
pub mod capability;
mod case;
pub mod cases;
mod clean_up;
pub mod conformance;
mod context;
pub mod crashes;
pub mod effects;
mod failure;
pub mod faults;
pub mod fixture;
mod harness;
pub mod history;
mod listing;
pub mod memory;
mod model;
mod owned;
mod peer;
pub mod random;
pub mod relay_kills;
pub mod report;
mod together;
mod trace;
mod worker;

pub use case::Case;
pub use failure::Failure;
pub use worker::WORKER_VARIABLE;
