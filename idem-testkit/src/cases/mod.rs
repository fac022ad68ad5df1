//! The cases, by section.

use crate::case::Case;

mod races;
mod table;

/// Every case of the suite, in its order: races first.
pub fn all() -> Vec<Case> {
    let sections = [races::cases, table::cases];
    sections.iter().flat_map(|section| section()).collect()
}
