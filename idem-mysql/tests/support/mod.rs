//! What the tests share: a database of their own, requests, seeds.

#![allow(dead_code)] // Each test binary uses a part of it.

use std::time::Duration;

use idem_core::claim::{Acquired, Claim, Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{OperationName, Owner, Recovery, Retention};
use idem_core::store::Store;

pub(crate) mod fixture;
pub(crate) mod own_server;
pub(crate) mod place;
pub(crate) mod wire;

#[allow(unused_imports)]
pub(crate) use place::{Collation, Manner, Place, number, run};

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
    pub(crate) fn new(key: impl AsRef<[u8]>) -> Self {
        Self {
            scope: Scope::new("scope-1").unwrap(),
            key: Key::opaque(key).unwrap(),
            owner: Owner::random(),
            operation: OperationName::new("charge").unwrap(),
            fingerprints: Fingerprint::from_parts(Scheme::V1, [1; 32]).into(),
            input: Some(sealed("input")),
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

    pub(crate) fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
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

pub(crate) fn sealed(bytes: impl AsRef<[u8]>) -> Sealed {
    Sealed::from_bytes(bytes.as_ref().to_vec())
}

pub(crate) fn point(number: u32) -> Recovery {
    Recovery { number, payload: sealed(format!("point {number}")) }
}

pub(crate) fn kind_of<T: std::fmt::Debug>(result: Result<T, StoreError>) -> ErrorKind {
    result.expect_err("expected an error").kind()
}

/// Waits until so many transactions on the database of `connection` wait for a lock.
pub(crate) async fn until_waiting(connection: &mut idem_mysql::mysql_async::Conn, wanted: i64) {
    let waiting = "SELECT COUNT(*) FROM information_schema.INNODB_TRX t \
         JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id \
         WHERE t.trx_state = 'LOCK WAIT' AND p.DB = DATABASE()";
    while number(connection, waiting).await < wanted {
        // The server makes this list anew only where it was not read for 100 ms.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}
