//! The cases, by section.

use crate::case::Case;

mod admin;
mod boundary;
mod damage;
mod data;
mod drops;
pub(crate) mod fixture;
mod history;
mod instant;
mod keys;
mod model;
mod network;
mod outbox;
mod paging;
mod processes;
mod races;
mod restart;
mod secrets;
mod sweep;
mod table;
mod transactions;
mod verbs;

/// Every case of the suite, in its order: the fixture itself, then races.
pub fn all() -> Vec<Case> {
    let sections = [
        fixture::cases,
        races::cases,
        processes::cases,
        table::cases,
        verbs::cases,
        boundary::cases,
        instant::cases,
        keys::cases,
        data::cases,
        paging::cases,
        sweep::cases,
        admin::cases,
        transactions::cases,
        outbox::cases,
        drops::cases,
        network::cases,
        restart::cases,
        damage::cases,
        secrets::cases,
        model::cases,
        history::cases,
    ];
    sections.iter().flat_map(|section| section()).collect()
}
