//! The rules as pure functions: each row of the claim table, each verb in each state, the
//! boundaries, the known counterexamples, a lossy network, and an exhaustive search.

mod boundaries;
mod claim_table;
mod counterexamples;
mod fenced_verbs;
mod judge;
mod lossy_network;
mod search;
mod world;
