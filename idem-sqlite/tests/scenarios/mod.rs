//! Scenarios of the contract, generic over the store and stepped by a manual clock.

pub mod claims;
pub mod housekeeping;
pub mod keys;
pub mod traces;
pub mod verbs;
