//! Races: what only goes wrong when two calls meet.

mod claims;
mod fenced;
mod sweeping;

use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    [claims::cases(), fenced::cases(), sweeping::cases()].concat()
}

/// How often a race is run in a case: few meetings are close enough.
const ROUNDS: usize = 24;
