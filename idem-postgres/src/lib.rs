//! idem's store in a Postgres database, on [`sqlx`].
//!
//! Every verb is one statement. A claim that nothing races is one round trip, whatever it finds;
//! a duplicate that is told "in progress", or gets the stored reply, writes and locks nothing.
//! Leases are judged by the server's clock alone.
//!
//! ```
//! use idem_core::admin::Admin;
//! use idem_postgres::PostgresStore;
//!
//! # fn url() -> String { std::env::var("IDEM_POSTGRES_URL").expect("IDEM_POSTGRES_URL names a server") }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let store = PostgresStore::connect(&url()).await?;
//! println!("{} replies are kept", store.stats().await?.completed);
//! # Ok::<_, idem_core::error::StoreError>(()) }).unwrap();
//! ```
//!
//! # What the server must be
//! Postgres 14 or newer; tested on 15 and 18. The tables lie in a schema and under a prefix of the
//! user's choice ([`PostgresStoreBuilder`]); opening a store makes them where it may, and the same text lies in
//! `migrations/` for those who migrate by hand. [`Preflight`](idem_core::preflight::Preflight)
//! looks at the server's settings and says what to change.
//!
//! # Directly, or behind a proxy
//! By default the connection goes to one server. Behind a proxy that lends a server for one
//! transaction at a time (PgBouncer with `pool_mode = transaction`), set
//! [`PostgresStoreBuilder::behind_transaction_pooler`]; no session state is used in either mode.
//!
//! # What a failover can lose
//! A commit that the primary acknowledged and no standby has is lost when a standby takes over:
//! with `synchronous_commit = on` and no `synchronous_standby_names`, that is every commit of the
//! last moments. Then a claim that was won, or a reply that was stored, is not there any more, and
//! a retry runs again. [`Preflight`](idem_core::preflight::Preflight) says how the server is set.

mod admin;
mod arguments;
mod claim;
#[cfg(test)]
mod conditions;
mod config;
mod failure;
#[cfg(test)]
mod names;
mod outbox;
#[cfg(test)]
mod plans;
mod preflight;
mod row;
mod schema;
mod session;
mod sql;
mod store;
mod tx;
mod url;
mod verbs;

pub use config::{
    DEFAULT_SCHEMA, DEFAULT_TABLE_PREFIX, Isolation, MAX_PAYLOAD_BYTES, MAX_WAIT,
    PostgresStoreBuilder,
};
pub use schema::SCHEMA_VERSION;
pub use session::guarded;
pub use sqlx;
pub use store::{MAX_PAGE_BYTES, PostgresStore};
pub use tx::PostgresTransaction;
