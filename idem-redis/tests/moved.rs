//! Connections that are of no more use, and answers that say less than they seem to: a failover
//! behind an address that stays, a connection that fell silent, a Cluster whose driver resends.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use common::cluster::Cluster;
use common::server::{BINARIES, Server};
use common::{acquire, claim, key};
use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::record::Owner;
use idem_core::store::Store;
use idem_redis::{RedisStore, RedisStoreBuilder};
use idem_testkit::faults::proxy::{Effect, Fault};
use tokio::net::{TcpListener, TcpStream};

const LEASE: Duration = Duration::from_secs(60);

/// An address that leads to whichever port is set; what is open stays as it is.
async fn address(leads_to: Arc<AtomicU16>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let port = leads_to.load(Ordering::SeqCst);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    url
}

/// A replica that is there may not acknowledge yet.
async fn open(builder: &RedisStoreBuilder, url: &str) -> RedisStore {
    for _ in 0..100 {
        match builder.clone().connect(url).await {
            Ok(store) => return store,
            Err(error) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}"),
        }
    }
    panic!("the replica acknowledges nothing")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_follows_its_address_to_the_new_primary() {
    for binary in BINARIES {
        for waits in [false, true] {
            let old = Server::start(binary, &["--repl-diskless-sync-delay", "0"]).await;
            let new = Server::start(binary, &["--repl-diskless-sync-delay", "0"]).await;
            let leads_to = Arc::new(AtomicU16::new(old.port()));
            let mut builder = RedisStore::builder();
            if waits {
                builder = builder.wait_for_replicas(1, Duration::from_secs(1));
            }
            let of = |server: &Server| server.port().to_string();
            new.ask(&["REPLICAOF", "127.0.0.1", &of(&old)]).await.unwrap();
            old.until_info("state=online", 1).await;
            let store = open(&builder, &address(leads_to.clone()).await).await;
            let held = acquire(&store, &key("before"), LEASE).await.fence;

            new.ask(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
            old.ask(&["REPLICAOF", "127.0.0.1", &of(&new)]).await.unwrap();
            new.until_info("state=online", 1).await;
            leads_to.store(new.port(), Ordering::SeqCst);
            // Each connection is told once that it leads to a replica. The new one's own replica
            // may not acknowledge at once.
            let mut refused = 0;
            while let Err(error) = claim(&store, &key("after"), Owner::random(), LEASE).await {
                match error.kind() {
                    ErrorKind::OutcomeUnknown if waits => {}
                    kind => assert_eq!(kind, ErrorKind::NotApplied, "{binary} {waits}: {error}"),
                }
                refused += usize::from(error.kind() == ErrorKind::NotApplied);
                assert!(refused <= 8, "{binary} {waits}: it stays where it is");
            }
            assert!(refused > 0, "{binary} {waits}: nobody was told");
            // Acknowledged by the replica, so it is there: connections that were not told yet fail,
            // and the others do not.
            let mut completed = store.complete(&held, &common::reply("reply")).await;
            for _ in 0..16 {
                if waits && completed.is_err() {
                    completed = store.complete(&held, &common::reply("reply")).await;
                }
            }
            assert!(completed.is_ok() || !waits, "{binary}: {completed:?}");
        }
    }
}

/// The driver keeps a connection that is open at this end only.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_fell_silent_is_replaced() {
    let server = Server::start(BINARIES[0], &[]).await;
    let proxy = common::proxy_to(server.port()).await;
    let builder = common::fresh().call_limit(Duration::from_millis(500));
    let store = builder.connect(&format!("redis://{}", proxy.address())).await.unwrap();
    proxy.arm(Fault::lose_request().with(Effect::Silence));
    let told = claim(&store, &key("k"), Owner::random(), LEASE).await;
    assert_eq!(told.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let told = claim(&store, &key("k"), Owner::random(), LEASE).await.unwrap();
    assert!(matches!(told, Claimed::Acquired(_)), "{told:?}");
}

/// The Cluster's driver sends again what got no answer, so what the last copy is told says nothing
/// of the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_a_cluster_leaves_the_outcome_unknown() {
    let cluster = Cluster::start(BINARIES[0]).await;
    let store = common::fresh().connect(&cluster.url()).await.unwrap();
    let held = acquire(&store, &key("before"), LEASE).await.fence;
    for node in &cluster.nodes {
        node.server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    }
    let told = claim(&store, &key("after"), Owner::random(), LEASE).await;
    assert_eq!(told.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let told = store.complete(&held, &common::reply("reply")).await;
    assert_eq!(told.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    // What only reads says what it is told, and what adds nothing goes on.
    assert!(store.get(&held.scope, &held.key).await.unwrap().is_some());
    store.renew(&held, LEASE).await.unwrap();
}
