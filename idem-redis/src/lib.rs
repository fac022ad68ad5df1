//! idem's store on Redis and Valkey: one server, or a Cluster.
//!
//! Every verb is one Lua script on one record and the indexes of its partition, all in one hash
//! slot, on the server's own clock. The claim has the meaning of `SET NX`: of any number that
//! arrive at once, one inserts.
//!
//! # What it can do
//!
//! | | |
//! |---|---|
//! | servers | Redis from 7.0, Valkey from 7.2; alone, or as a Cluster |
//! | verbs of `Store` and `Admin` | all |
//! | local effects (`TransactionalStore`) | no: handlers keep their rows elsewhere |
//! | outbox | no: it needs the transaction of the effect |
//! | expiry | by the server for completed records; none in progress ever expires |
//! | one reply, input or recovery point | up to [`MAX_PAYLOAD_BYTES`] |
//!
//! # What it cannot promise
//!
//! One winner for each claim is certain as long as one primary keeps its memory. A failover to a replica that
//! lacks a write, or a restart without `appendonly yes` and `appendfsync always`, can lose a claim
//! or a reply that was acknowledged; the operation may then run again.
//! [`RedisStoreBuilder::wait_for_replicas`] narrows the first, and docs/redis.md says what each setup
//! can lose. Effects that may never happen twice belong in a database that commits them together
//! with the record.

mod admin;
mod answer;
mod ask;
mod config;
mod fault;
mod link;
mod listing;
mod pool;
mod preflight;
mod row;
#[cfg(test)]
mod rules_tests;
mod schema;
mod script;
mod store;
mod url;

pub use config::{
    DEFAULT_CALL_LIMIT, DEFAULT_NAMESPACE, MAX_CONNECTIONS, MAX_LIMIT, MAX_NAMESPACE_BYTES,
    MAX_PAYLOAD_BYTES, RedisStoreBuilder,
};
pub use listing::MAX_PAGE_BYTES;
pub use redis;
pub use schema::{LAYOUT, PARTITIONS};
pub use store::RedisStore;
