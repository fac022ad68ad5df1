//! idem's store in a MySQL or MariaDB database, on [`mysql_async`].
//!
//! A claim of a new key is one statement in one round trip; every other verb reads the record and
//! then changes exactly what it has read, or starts again. Leases are judged by the server's clock
//! alone, whatever the time zone of server or session.
//!
//! ```
//! use idem_core::admin::Admin;
//! use idem_mysql::MysqlStore;
//!
//! # fn url() -> String { std::env::var("IDEM_MYSQL_URL").expect("IDEM_MYSQL_URL names a server") }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let store = MysqlStore::connect(&url()).await?;
//! println!("{} replies are kept", store.stats().await?.completed);
//! # Ok::<_, idem_core::error::StoreError>(()) }).unwrap();
//! ```
//!
//! # What the server must be
//! MariaDB 10.6 or newer, or MySQL 8.0.16 or newer, with InnoDB. Tested on MariaDB 10.11; no
//! statement is used that only one of the two accepts. [`Preflight`](idem_core::preflight::Preflight)
//! looks at the server's settings and says what to change.
//!
//! # TLS
//! This crate brings none. To connect with TLS, turn on the feature `rustls-tls` or
//! `native-tls-tls` of `mysql_async` in your own manifest and put `?require_ssl=true` into the
//! URL, or hand over a [`mysql_async::Pool`] of your own.
//!
//! # What a failover can lose
//! A commit that the primary acknowledged and no replica has is lost when a replica takes over:
//! then a claim that was won, or a reply that was stored, is not there any more, and a retry runs
//! again. Semi-synchronous replication and Galera narrow that; see `docs/mysql.md`.

mod admin;
#[cfg(test)]
mod anew;
mod claim;
#[cfg(test)]
mod conditions;
mod config;
#[cfg(test)]
mod contended;
mod failure;
mod outbox;
#[cfg(test)]
mod plans;
mod preflight;
mod row;
mod schema;
mod session;
mod sql;
mod store;
mod sweep;
mod tx;
mod url;
mod verbs;
mod via;
mod write;

pub use config::{DEFAULT_TABLE_PREFIX, Isolation, MAX_VALUE_BYTES, MAX_WAIT, MysqlStoreBuilder};
pub use mysql_async;
pub use schema::SCHEMA_VERSION;
pub use store::{MAX_PAGE_BYTES, MysqlStore};
pub use tx::MysqlTransaction;
