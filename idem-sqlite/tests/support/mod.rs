//! What the tests share: requests, a place for files, seeds.

#![allow(dead_code)] // Each test binary uses a part of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use idem_core::claim::{Acquired, Claim, Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{OperationName, Owner, Recovery, Retention};
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_sqlite::{SqliteStore, SqliteStoreBuilder};
use tempfile::TempDir;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const RETENTION: Duration = Duration::from_secs(3_600);

/// A claim that owns what a [`Claim`] borrows.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) scope: Scope,
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    pub(crate) operation: OperationName,
    pub(crate) fingerprints: Fingerprints,
    pub(crate) input: Option<Sealed>,
    pub(crate) marks_begun: bool,
    pub(crate) lease: Duration,
    pub(crate) retention: Retention,
    pub(crate) takeover: Takeover,
}

impl Request {
    /// A request under `key` that takes over freely, by an owner of its own.
    pub(crate) fn new(key: &str) -> Self {
        Self::opaque("scope-1", key.as_bytes())
    }

    pub(crate) fn opaque(scope: &str, key: &[u8]) -> Self {
        Self {
            scope: Scope::new(scope).unwrap(),
            key: Key::opaque(key).unwrap(),
            owner: Owner::random(),
            operation: OperationName::new("charge").unwrap(),
            fingerprints: print(1).into(),
            input: Some(Sealed::from_bytes("input")),
            marks_begun: false,
            lease: LEASE,
            retention: Retention::of(RETENTION),
            takeover: Takeover::Below { attempts: u32::MAX, younger_than: Duration::MAX },
        }
    }

    /// The same request by another caller.
    pub(crate) fn again(&self) -> Self {
        Self { owner: Owner::random(), ..self.clone() }
    }

    pub(crate) fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut request = self.again();
        change(&mut request);
        request
    }

    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim::new(
            &self.scope,
            &self.key,
            self.owner,
            &self.operation,
            &self.fingerprints,
            self.lease,
            self.retention,
            self.takeover,
        )
        .with_input(self.input.as_ref())
        .marking_begun(self.marks_begun)
    }

    pub(crate) async fn send(&self, store: &impl Store) -> Claimed {
        store.claim(&self.claim()).await.expect("the claim is answered")
    }

    pub(crate) async fn acquire(&self, store: &impl Store) -> Acquired {
        match self.send(store).await {
            Claimed::Acquired(acquired) => acquired,
            other => panic!("expected to acquire, seen {other:?}"),
        }
    }
}

pub(crate) fn print(byte: u8) -> Fingerprint {
    Fingerprint::from_parts(Scheme::V1, [byte; 32])
}

pub(crate) fn sealed(bytes: impl AsRef<[u8]>) -> Sealed {
    Sealed::from_bytes(bytes.as_ref().to_vec())
}

pub(crate) fn point(number: u32) -> Recovery {
    Recovery { number, payload: sealed(format!("point {number}")) }
}

pub(crate) fn kind_of<T: std::fmt::Debug>(result: Result<T, StoreError>) -> ErrorKind {
    result.expect_err("expected an error").kind()
}

/// A file in a directory of its own, which goes with it.
pub(crate) struct Place {
    _directory: TempDir,
    pub(crate) path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let path = directory.path().join("store.db");
        Self { _directory: directory, path }
    }

    pub(crate) async fn open(&self) -> SqliteStore {
        self.open_with(SqliteStore::builder()).await
    }

    pub(crate) async fn open_with(&self, builder: SqliteStoreBuilder) -> SqliteStore {
        builder.open(&self.path).await.expect("the store opens")
    }

    pub(crate) async fn open_at(&self, clock: &Arc<ManualClock>) -> SqliteStore {
        self.open_with(SqliteStore::builder().clock(Arc::clone(clock))).await
    }

    /// A connection that knows nothing of the store.
    pub(crate) async fn sql(&self) -> idem_sqlite::sqlx::SqliteConnection {
        use idem_sqlite::sqlx::Connection;
        let options = idem_sqlite::sqlx::sqlite::SqliteConnectOptions::new();
        let options = options.filename(&self.path).create_if_missing(true);
        idem_sqlite::sqlx::SqliteConnection::connect_with(&options).await.expect("the file opens")
    }
}
