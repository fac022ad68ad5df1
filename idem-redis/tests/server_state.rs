//! A server that is full, evicts, is a replica, or is a node of a Cluster.

mod common;

use std::time::{Duration, Instant};

use common::server::{BINARIES, Server};
use common::{SERVERS, acquire, claim, fresh, key, reply, scope, variable};
use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::preflight::{Preflight, Severity};
use idem_core::record::{Owner, State};
use idem_core::store::{Renewed, Store};
use idem_redis::RedisStore;

const LEASE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_says_so_and_keeps_what_it_holds() {
    for binary in BINARIES {
        let server = Server::start(binary, &["--maxmemory-policy", "noeviction"]).await;
        let store = fresh().connect(&server.url()).await.unwrap();
        let done = acquire(&store, &key("done"), LEASE).await;
        store.complete(&done.fence, &reply("first")).await.unwrap();
        let open = acquire(&store, &key("open"), LEASE).await;
        let rejected = acquire(&store, &key("rejected"), LEASE).await;
        server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();

        let full = claim(&store, &key("new"), Owner::random(), LEASE).await.unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StoreFull);
        let full = store.complete(&open.fence, &reply("second")).await.unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StoreFull);
        let seen = store.get(&scope(), &key("open")).await.unwrap().unwrap();
        assert!(matches!(seen.record.state, State::InProgress { .. }), "the record stays held");
        assert_eq!(seen.record.fence(), open.fence);
        let renewed = store.renew(&open.fence, LEASE * 2).await.unwrap();
        assert!(matches!(renewed, Renewed::Held(lease) if lease.remaining > LEASE));
        let again = claim(&store, &key("done"), Owner::random(), LEASE).await.unwrap();
        assert!(matches!(again, Claimed::Completed(replay) if replay.reply == reply("first")));
        store.complete(&done.fence, &reply("first")).await.unwrap();
        store.release(&rejected.fence).await.unwrap();
        assert!(store.get(&scope(), &key("new")).await.unwrap().is_none(), "nothing was written");
        store.sweep(10).await.unwrap();

        server.ask(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
        store.complete(&open.fence, &reply("second")).await.unwrap();
    }
}

/// A disk of a test's own takes a mount, which not every machine allows.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_disk_is_full_refuses_writes_and_keeps_what_it_holds() {
    for binary in BINARIES {
        let options = ["--appendonly", "yes", "--appendfsync", "everysec"];
        let Some(server) = Server::start_on_small_disk(binary, "2m", &options).await else {
            // Only whoever runs the tests decides that this goes unproven on their machine.
            let given_up = std::env::var_os("IDEM_NO_SMALL_DISK").is_some();
            assert!(given_up, "a small disk cannot be mounted; IDEM_NO_SMALL_DISK=1 goes without");
            return;
        };
        let store = fresh().connect(&server.url()).await.unwrap();
        let done = acquire(&store, &key("done"), LEASE).await;
        store.complete(&done.fence, &reply("first")).await.unwrap();
        let open = acquire(&store, &key("open"), LEASE).await;
        let filler = "x".repeat(256 * 1024);
        for number in 0..64 {
            let _ = server.ask(&["SET", &format!("filler{number}"), &filler]).await;
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            // The log is written behind the answers: the server finds out a little later.
            match store.renew(&open.fence, LEASE).await {
                Ok(renewed) => assert!(matches!(renewed, Renewed::Held(_)), "{renewed:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");
                    assert!(error.to_string().contains("disk"), "{error}");
                    break;
                }
            }
            assert!(Instant::now() < deadline, "the server never finds its disk full");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let refused = claim(&store, &key("new"), Owner::random(), LEASE).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotApplied, "{refused}");
        let refused = store.complete(&open.fence, &reply("second")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotApplied, "{refused}");
        let again = claim(&store, &key("done"), Owner::random(), LEASE).await.unwrap();
        assert!(matches!(again, Claimed::Completed(replay) if replay.reply == reply("first")));
        let seen = store.get(&scope(), &key("open")).await.unwrap().unwrap();
        assert_eq!(seen.record.fence(), open.fence, "the record stays held");
        assert!(store.get(&scope(), &key("new")).await.unwrap().is_none());
        assert_eq!(finding(&store, "appendonly").await.0, Severity::Problem);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicting_server_is_refused_unless_lost_records_are_accepted() {
    for binary in BINARIES {
        for policy in ["allkeys-lru", "volatile-ttl", "volatile-random"] {
            let server = Server::start(binary, &["--maxmemory-policy", policy]).await;
            let refused = fresh().connect(&server.url()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::WrongSchema, "{policy}");
            let accepted = fresh().accept_lost_records_on_an_evicting_server();
            let store = accepted.connect(&server.url()).await.unwrap();
            let finding = finding(&store, "maxmemory-policy").await;
            assert_eq!((finding.0, finding.1.as_str()), (Severity::Problem, policy));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preflight_tells_of_persistence_and_replicas() {
    for binary in BINARIES {
        let server = Server::start(binary, &["--appendonly", "no"]).await;
        let store = fresh().connect(&server.url()).await.unwrap();
        assert_eq!(finding(&store, "appendonly").await.0, Severity::Warning);
        assert_eq!(finding(&store, "replicas").await.0, Severity::Warning);
        let waiting = fresh().wait_for_replicas(1, Duration::from_millis(50));
        let unreachable = waiting.connect(&server.url()).await.unwrap_err();
        assert_eq!(unreachable.kind(), ErrorKind::OutcomeUnknown, "no replica can have the layout");

        let server =
            Server::start(binary, &["--appendonly", "yes", "--appendfsync", "always"]).await;
        let store = fresh().connect(&server.url()).await.unwrap();
        assert_eq!(finding(&store, "appendonly").await.0, Severity::Ok);
        assert_eq!(finding(&store, "appendfsync").await.0, Severity::Ok);
        assert_eq!(finding(&store, "layout").await.0, Severity::Ok);

        for server in SERVERS {
            let store = fresh().connect(&variable(server)).await.unwrap();
            let version = finding(&store, "server-version").await;
            assert_eq!(version.0, Severity::Ok, "{server}");
            assert_eq!(version.1.starts_with("Valkey"), server == "IDEM_VALKEY_URL", "{version:?}");
            assert_eq!(finding(&store, "appendfsync").await.1, "everysec", "{server}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_and_a_single_node_of_a_cluster_are_told_apart_from_a_primary() {
    for binary in BINARIES {
        let primary = Server::start(binary, &[]).await;
        let replica =
            Server::start(binary, &["--replicaof", &format!("127.0.0.1 {}", primary.port())]).await;
        replica.until_info("master_link_status:up", 1).await;
        let error = fresh().connect(&replica.url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");

        let nodes = variable("IDEM_REDIS_CLUSTER_URL");
        let node = nodes.trim_start_matches("redis-cluster://").split(',').next().unwrap();
        let error = fresh().connect(&format!("redis://{node}")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongSchema, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_known_not_to_have_applied_anything() {
    for binary in BINARIES {
        let mut server = Server::start(binary, &[]).await;
        let config = fresh().call_limit(Duration::from_secs(2));
        let store = config.clone().connect(&server.url()).await.unwrap();
        server.kill();
        let gone = config.connect(&server.url()).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotApplied);
        // The first call may meet the connection that broke; the driver then connects in vain.
        let mut kinds = Vec::new();
        for _ in 0..3 {
            let error = claim(&store, &key("k"), Owner::random(), LEASE).await.unwrap_err();
            kinds.push(error.kind());
        }
        assert_eq!(kinds[2], ErrorKind::NotApplied, "{kinds:?}");
        server.restart().await;
        let owner = Owner::random();
        let claimed = loop {
            match claim(&store, &key("k"), owner, LEASE).await {
                Ok(claimed) => break claimed,
                Err(error) => assert!(error.kind().is_transient(), "{error}"),
            }
        };
        assert!(matches!(claimed, Claimed::Acquired(_)), "the same store goes on by itself");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_fails_is_named_and_shown_nowhere() {
    for binary in BINARIES {
        let server = Server::start(binary, &["--requirepass", "right"]).await;
        let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", server.port());
        let error = fresh().connect(&url("hunter2")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongSchema, "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        let store = fresh().connect(&url("right")).await.unwrap();
        assert!(!format!("{store:?}").contains("right"), "{store:?}");
    }
}

async fn finding(store: &RedisStore, check: &str) -> (Severity, String) {
    let findings = store.preflight().await.unwrap();
    let found = findings.into_iter().find(|finding| finding.check == check);
    let found = found.unwrap_or_else(|| panic!("no finding on {check}"));
    (found.severity, found.found.into_owned())
}
