//! The operator's commands, run as a person would, on records that real servers left behind.

mod command;
mod files;
mod hashes;
mod json;
mod listing;
mod outbox;
mod page;
mod postgres;
mod releasing;
mod replies;
mod scopes;
mod settling;
#[allow(dead_code)] // Each test binary uses a part of it.
#[path = "../support/mod.rs"]
mod support;
