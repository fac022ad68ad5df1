//! The cases, by section.

use crate::case::Case;

mod admin;
mod boundary;
mod data;
mod instant;
mod keys;
mod model;
mod paging;
mod races;
mod sweep;
mod table;
mod verbs;

/// Every case of the suite, in its order: races first.
pub fn all() -> Vec<Case> {
    let sections = [
        races::cases,
        table::cases,
        verbs::cases,
        boundary::cases,
        instant::cases,
        keys::cases,
        data::cases,
        paging::cases,
        sweep::cases,
        admin::cases,
        model::cases,
    ];
    sections.iter().flat_map(|section| section()).collect()
}
