//! What a failover loses, as docs/redis.md says: a primary is killed before its replica has the
//! write, the replica is promoted, and the key is claimed again.

mod common;

use std::time::{Duration, Instant};

use common::cluster::Cluster;
use common::server::{BINARIES, Server};
use common::{acquire, claim, fresh, key, proxy_to, reply};
use idem_core::claim::Claimed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::record::Owner;
use idem_core::store::{Renewed, Store};
use idem_redis::redis::Value;
use idem_redis::{RedisStore, RedisStoreBuilder};
use idem_testkit::faults::proxy::Proxy;

const LEASE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(2);

/// A primary and its replicas, each behind a relay that can be closed: replication then stops.
struct Group {
    primary: Server,
    replicas: Vec<(Server, Proxy)>,
}

impl Group {
    async fn start(binary: &'static str, replicas: usize) -> Self {
        let primary = Server::start(binary, &["--repl-diskless-sync-delay", "0"]).await;
        let mut group = Self { primary, replicas: Vec::new() };
        for _ in 0..replicas {
            let link = proxy_to(group.primary.port()).await;
            let port = link.address().port().to_string();
            let replica =
                Server::start(binary, &["--replicaof", &format!("127.0.0.1 {port}")]).await;
            group.replicas.push((replica, link));
        }
        // A replica that says it is up may still wait for its first write.
        group.primary.ask(&["SET", "probe", "1"]).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        for (replica, _) in &group.replicas {
            while replica.ask(&["GET", "probe"]).await != Ok(Value::BulkString(b"1".to_vec())) {
                assert!(Instant::now() < deadline, "the replica gets nothing");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        group
    }

    async fn store(&self, config: RedisStoreBuilder) -> RedisStore {
        config.connect(&self.primary.url()).await.unwrap()
    }

    /// Kills the primary, makes a replica the new one, and connects to that.
    async fn fail_over(&mut self, to: usize, config: RedisStoreBuilder) -> RedisStore {
        self.primary.kill();
        let replica = &self.replicas[to].0;
        replica.ask(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        config.connect(&replica.url()).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_wait_a_failover_forgets_a_reply_that_was_acknowledged() {
    for binary in BINARIES {
        let mut group = Group::start(binary, 1).await;
        let config = fresh();
        let store = group.store(config.clone()).await;
        group.replicas[0].1.cut();
        let acquired = acquire(&store, &key("k"), LEASE).await;
        store.complete(&acquired.fence, &reply("charged")).await.unwrap();

        let promoted = group.fail_over(0, config).await;
        let again = acquire(&promoted, &key("k"), LEASE).await;
        assert_eq!(again.fence.attempt, 1, "it runs a second time, and nothing tells");
        assert_ne!(again.fence.incarnation, acquired.fence.incarnation);
        // Whoever held the old life cannot write under the new one.
        let late = promoted.complete(&acquired.fence, &reply("charged")).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::FenceLost);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_wait_nothing_starts_that_the_replica_does_not_have() {
    for binary in BINARIES {
        let mut group = Group::start(binary, 1).await;
        let config = fresh().wait_for_replicas(1, PATIENCE);
        let store = group.store(config.clone()).await;
        let done = acquire(&store, &key("done"), LEASE).await;
        store.complete(&done.fence, &reply("charged")).await.unwrap();
        let open = acquire(&store, &key("open"), LEASE).await;

        group.replicas[0].1.cut();
        let owner = Owner::random();
        let refused = claim(&store, &key("late"), owner, LEASE).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown);
        // The same call again is no way round the wait, and neither is any other verb.
        let refused = claim(&store, &key("late"), owner, LEASE).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown);
        for _ in 0..2 {
            let refused = store.complete(&open.fence, &reply("charged")).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown);
        }
        // It stands here and may be lost, so it is not replayed.
        let refused = claim(&store, &key("open"), Owner::random(), LEASE).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown);

        let promoted = group.fail_over(0, fresh_like(&config)).await;
        let done = claim(&promoted, &key("done"), Owner::random(), LEASE).await.unwrap();
        assert!(matches!(done, Claimed::Completed(replay) if replay.reply == reply("charged")));
        let held = claim(&promoted, &key("open"), Owner::random(), LEASE).await.unwrap();
        assert!(matches!(held, Claimed::InProgress { .. }), "{held:?}");
        let renewed = promoted.renew(&open.fence, LEASE).await.unwrap();
        assert!(matches!(renewed, Renewed::Held(_)), "the holder goes on after the failover");
        promoted.complete(&open.fence, &reply("charged")).await.unwrap();
        acquire(&promoted, &key("late"), LEASE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_does_not_choose_which_replica_is_promoted() {
    for binary in BINARIES {
        let mut group = Group::start(binary, 2).await;
        let config = fresh().wait_for_replicas(1, PATIENCE);
        let store = group.store(config.clone()).await;
        group.replicas[1].1.cut();
        let acquired = acquire(&store, &key("k"), LEASE).await;
        store.complete(&acquired.fence, &reply("charged")).await.unwrap();

        let promoted = group.fail_over(1, fresh_like(&config)).await;
        let again = acquire(&promoted, &key("k"), LEASE).await;
        assert_eq!(again.fence.attempt, 1, "one replica had it, and the other was promoted");
    }
}

/// A server waits only for what the same connection wrote. One that wrote nothing must not take
/// an earlier write of another for safe.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_rests_on_an_earlier_write_waits_for_that_too() {
    for binary in BINARIES {
        let group = Group::start(binary, 1).await;
        let config = fresh().wait_for_replicas(1, PATIENCE);
        let (store, other) = (group.store(config.clone()).await, group.store(config.clone()).await);
        let (done, freed) = (key("done"), key("freed"));
        let acquired = acquire(&store, &done, LEASE).await;
        let rejected = acquire(&store, &freed, LEASE).await;
        group.replicas[0].1.cut();
        // Written here, and nowhere else.
        assert!(store.complete(&acquired.fence, &reply("charged")).await.is_err());
        assert!(store.release(&rejected.fence).await.is_err());

        let unknown = |error: StoreError| assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        unknown(claim(&other, &done, Owner::random(), LEASE).await.unwrap_err());
        unknown(other.complete(&acquired.fence, &reply("charged")).await.unwrap_err());
        unknown(other.renew(&acquired.fence, LEASE).await.unwrap_err());
        unknown(other.release(&rejected.fence).await.unwrap_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_each_write_waits_for_the_replica_of_its_own_primary() {
    for binary in BINARIES {
        let mut cluster = Cluster::start(binary).await;
        cluster.add_replicas(binary).await;
        let config = fresh().wait_for_replicas(1, PATIENCE);
        let store = until_replicated(&cluster, config).await;
        let mut held = Vec::new();
        for number in 0..30 {
            held.push(acquire(&store, &key(format!("k{number}")), LEASE).await);
        }
        store.complete(&held[0].fence, &reply("charged")).await.unwrap();
        cluster.kill_replicas();
        let refused = store.complete(&held[1].fence, &reply("charged")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown, "{binary}");
        let refused = claim(&store, &key("k0"), Owner::random(), LEASE).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown, "{binary}");
    }
}

/// A replica that says it is up may still wait for its first write: opening a store and one claim
/// in many partitions succeed once all of them take part.
async fn until_replicated(cluster: &Cluster, config: RedisStoreBuilder) -> RedisStore {
    let deadline = Instant::now() + Duration::from_secs(60);
    'again: loop {
        assert!(Instant::now() < deadline, "the replicas acknowledge nothing");
        let Ok(store) = config.clone().connect(&cluster.url()).await else { continue };
        for number in 0..30 {
            let probe = key(format!("probe{number}"));
            if claim(&store, &probe, Owner::random(), LEASE).await.is_err() {
                continue 'again;
            }
        }
        return store;
    }
}

/// The same records, without the wait.
fn fresh_like(config: &RedisStoreBuilder) -> RedisStoreBuilder {
    config.clone().wait_for_replicas(0, PATIENCE)
}
