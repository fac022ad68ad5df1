//! What the tests of this crate share: servers of their own, and calls with few words.

#![allow(dead_code)] // Each test file uses a part of it.

pub(crate) mod cluster;
pub(crate) mod fixture;
pub(crate) mod load;
pub(crate) mod server;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use idem_core::claim::{Acquired, Claim, Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::StoreError;
use idem_core::fingerprint::Fingerprints;
use idem_core::key::{Key, Scope};
use idem_core::record::{OperationName, Owner, Retention};
use idem_core::store::Store;
use idem_redis::{RedisStore, RedisStoreBuilder};
use idem_testkit::faults::proxy::Proxy;

/// The servers that the start script starts.
pub(crate) const SERVERS: [&str; 4] =
    ["IDEM_REDIS_URL", "IDEM_REDIS8_URL", "IDEM_VALKEY_URL", "IDEM_REDIS_CLUSTER_URL"];

/// What the environment says; without it the test fails.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: start the servers of this crate (scripts/servers.d/redis.sh)")
    })
}

/// A proxy to a server on loopback, whose connections a test cuts.
pub(crate) async fn proxy_to(port: u16) -> Proxy {
    Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.unwrap()
}

/// Settings with a namespace that no other test uses.
pub(crate) fn fresh() -> RedisStoreBuilder {
    RedisStore::builder().namespace(fresh_namespace())
}

pub(crate) fn fresh_namespace() -> String {
    let id: String = Owner::random().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("test-{id}")
}

pub(crate) fn scope() -> Scope {
    Scope::new("acct_1").unwrap()
}

pub(crate) fn key(name: impl AsRef<[u8]>) -> Key {
    Key::opaque(name).unwrap()
}

pub(crate) fn reply(text: impl AsRef<[u8]>) -> Sealed {
    Sealed::from_bytes(text.as_ref().to_vec())
}

/// A claim of the operation `charge`, kept for an hour, taken over at any time.
pub(crate) async fn claim(
    store: &RedisStore,
    key: &Key,
    owner: Owner,
    lease: Duration,
) -> Result<Claimed, StoreError> {
    let operation = OperationName::new("charge").unwrap();
    let prints = Fingerprints::not_compared();
    let retention = Retention::of(Duration::from_secs(3_600));
    let takeover = Takeover::Below { attempts: u32::MAX, younger_than: Duration::MAX };
    let scope = scope();
    store
        .claim(&Claim::new(&scope, key, owner, &operation, &prints, lease, retention, takeover))
        .await
}

/// A claim that must win.
pub(crate) async fn acquire(store: &RedisStore, key: &Key, lease: Duration) -> Acquired {
    match claim(store, key, Owner::random(), lease).await.unwrap() {
        Claimed::Acquired(acquired) => acquired,
        other => panic!("not acquired: {other:?}"),
    }
}
