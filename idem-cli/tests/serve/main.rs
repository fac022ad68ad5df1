//! `idem serve`, driven as a process over real sockets. What is counted is what the card
//! network's ledger holds, not only what was answered.

mod api;
mod bad_input;
mod described;
mod drain;
mod drain_under_load;
mod failpoints;
mod hang_up;
mod http_table;
mod loops;
mod metrics;
mod network_faults;
mod own_network;
mod store_faults;
mod store_files;
#[allow(dead_code)] // Each test binary uses a part of it.
#[path = "../support/mod.rs"]
mod support;
