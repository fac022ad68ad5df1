//! The cases, by section.

use crate::case::Case;

mod model;
mod races;
mod table;
mod verbs;

/// Every case of the suite, in its order: races first.
pub fn all() -> Vec<Case> {
    let sections = [races::cases, table::cases, verbs::cases, model::cases];
    sections.iter().flat_map(|section| section()).collect()
}
