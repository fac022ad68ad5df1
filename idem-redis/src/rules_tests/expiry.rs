//! What the server expires by itself.

use std::time::{Duration, Instant};

use idem_core::admin::{Admin, Stats};
use idem_core::claim::{Acquired, Claim, Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::fingerprint::Fingerprints;
use idem_core::key::{Key, Scope};
use idem_core::record::{OperationName, Owner, Retention};
use idem_core::store::Store;
use redis::{Value, cmd};

use super::stores;
use crate::schema::{identity, partition};
use crate::store::RedisStore;

const SHORT: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread")]
async fn the_server_expires_replies_and_never_what_is_unresolved() {
    for (server, store) in stores().await {
        let scope = Scope::new("s").unwrap();
        let (done, open) = (Key::new("done").unwrap(), Key::new("open").unwrap());
        let first = acquire(&store, &scope, &done).await;
        acquire(&store, &scope, &open).await;
        store.complete(&first.fence, &Sealed::from_bytes(b"reply".to_vec())).await.unwrap();
        until_gone(&store, &scope, &done).await;

        // Its lease and its retention are long over, and it stands.
        assert_eq!(time_to_live(&store, &scope, &open).await, -1, "{server}");
        let left = Stats { lapsed_not_begun: 1, expired: 1, ..Stats::default() };
        let stats = store.stats().await.unwrap();
        assert_eq!(Stats { oldest_lapse: None, ..stats }, left, "{server}");
        // The index entries are the sweeper's.
        assert_eq!(store.sweep(9).await.unwrap().deleted, 1, "{server}");
        assert_eq!(store.stats().await.unwrap().expired, 0, "{server}");
        let again = acquire(&store, &scope, &done).await;
        assert_eq!(again.fence.attempt, 1, "{server}");
        assert_ne!(again.fence.incarnation, first.fence.incarnation, "{server}");
    }
}

/// Claimed for a millisecond, kept for a millisecond.
async fn acquire(store: &RedisStore, scope: &Scope, key: &Key) -> Acquired {
    let operation = OperationName::new("charge").unwrap();
    let prints = Fingerprints::not_compared();
    let (owner, retention) = (Owner::random(), Retention::of(SHORT));
    let claim =
        Claim::new(scope, key, owner, &operation, &prints, SHORT, retention, Takeover::Never);
    match store.claim(&claim).await.unwrap() {
        Claimed::Acquired(acquired) => acquired,
        other => panic!("not acquired: {other:?}"),
    }
}

async fn until_gone(store: &RedisStore, scope: &Scope, key: &Key) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while time_to_live(store, scope, key).await != -2 {
        assert!(Instant::now() < deadline, "the server does not expire it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// In milliseconds; -1 is for ever, -2 is gone.
async fn time_to_live(store: &RedisStore, scope: &Scope, key: &Key) -> i64 {
    let id = identity(scope, key);
    let name = store.shared.names.record(partition(&id), &id);
    match store.shared.link.run_plain(cmd("PTTL").arg(name)).await.unwrap() {
        Value::Int(left) => left,
        other => panic!("not a time: {other:?}"),
    }
}
