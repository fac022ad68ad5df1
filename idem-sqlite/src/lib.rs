//! idem's embedded store: an SQLite file, durable, shared by several processes of one machine.
//!
//! ```
//! use std::time::Duration;
//! use idem_core::claim::{Claim, Claimed, Takeover};
//! use idem_core::codec::Sealed;
//! use idem_core::fingerprint::Fingerprints;
//! use idem_core::key::{Key, Scope};
//! use idem_core::record::{OperationName, Owner, Retention};
//! use idem_core::store::Store;
//! use idem_sqlite::SqliteStore;
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("idem.db");
//! let store = SqliteStore::open(path).await?;
//!
//! let (scope, key) = (Scope::new("account-1")?, Key::new("order-7")?);
//! let (operation, prints) = (OperationName::new("charge")?, Fingerprints::not_compared());
//! let lease = Duration::from_secs(30);
//! let claim = |owner| {
//!     let retention = Retention::of(Duration::from_secs(24 * 60 * 60));
//!     Claim::new(&scope, &key, owner, &operation, &prints, lease, retention, Takeover::Never)
//! };
//! let Claimed::Acquired(first) = store.claim(&claim(Owner::random())).await? else {
//!     panic!("nobody else is here");
//! };
//! store.complete(&first.fence, &Sealed::from_bytes("done")).await?;
//!
//! let Claimed::Completed(replay) = store.claim(&claim(Owner::random())).await? else {
//!     panic!("it was completed");
//! };
//! assert_eq!(replay.reply.as_bytes(), b"done");
//! # store.close().await;
//! # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # What it keeps
//! Every verb is one transaction under SQLite's write lock: the row is read, the pure rule of
//! [`idem_core::transition`] decides with the time read inside the lock, and what it says is
//! written and committed. The file is in WAL mode with `synchronous = FULL`, so that a commit that
//! was acknowledged survives a power cut. Both settings, and the version of SQLite, are checked
//! when the store is opened; [`Preflight`](idem_core::preflight::Preflight) shows them.
//!
//! # Waiting
//! SQLite has one writer at a time. A process has one connection that writes; its calls wait for
//! it in the order they came, and then for the file's lock against other processes, each no
//! longer than the [busy timeout](SqliteStoreBuilder::busy_timeout). While a handler's transaction
//! is open every other write waits, heartbeats included, so keep such transactions short. Reading
//! (`get`, `lapsed`, `list`, `stats`) never waits for a writer.
//!
//! # Time
//! The machine's clock judges, read after the lock was got. The file has to be on a disk of this
//! machine, as WAL needs it, so that all processes on it read the same clock (R6).
//!
//! # Tables
//! `idem_records`, `idem_outbox` and `idem_schema`, under a
//! [prefix](SqliteStoreBuilder::table_prefix) of your choice, beside your own tables in your own
//! file. That is what lets a handler's rows commit with the record: see
//! [`TransactionalStore`](idem_core::transactional::TransactionalStore) and
//! [`SqliteTransaction`]. Times are whole microseconds since 1970, UTC.
//!
//! # Limits
//! A reply, an input and a recovery point have at most what SQLite takes for one value, 1 GB
//! unless it was built otherwise; a larger one is an error of kind `InvalidInput`.

mod admin;
#[cfg(test)]
mod conditions;
mod config;
mod error;
mod gate;
mod outbox;
mod pool;
mod preflight;
mod row;
mod schema;
mod sql;
mod store;
mod tx;

pub use config::{
    DEFAULT_BUSY_TIMEOUT, DEFAULT_READERS, DEFAULT_TABLE_PREFIX, MAX_BUSY_TIMEOUT, MAX_READERS,
    SqliteStoreBuilder,
};
pub use schema::SCHEMA_VERSION;
pub use sqlx;
pub use store::{MAX_PAGE_BYTES, SqliteStore};
pub use tx::SqliteTransaction;
