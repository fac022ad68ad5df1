//! The cases, by section.

use crate::case::Case;

mod admin;
mod boundary;
mod damage;
mod data;
mod drops;
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

/// Every case of the suite, in its order: races first.
pub fn all() -> Vec<Case> {
    let sections = [
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
