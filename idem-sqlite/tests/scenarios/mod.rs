//! Scenarios of the contract, generic over the store and stepped by a manual clock.

pub(crate) mod claims;
pub(crate) mod housekeeping;
pub(crate) mod keys;
pub(crate) mod traces;
pub(crate) mod verbs;
