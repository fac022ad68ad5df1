//! Connections that the user brings, both versions of the protocol, users with fewer rights, and
//! addresses that lead nowhere.

mod common;

use std::time::Duration;

use common::server::{BINARIES, Server};
use common::{SERVERS, acquire, claim, fresh, key, reply, scope, variable};
use idem_core::admin::{Admin, Filter};
use idem_core::claim::Claimed;
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::preflight::{Preflight, Severity};
use idem_core::record::{Owner, Recovery};
use idem_core::store::{Renewed, Store};
use idem_redis::redis::aio::ConnectionManager;
use idem_redis::redis::cluster::ClusterClientBuilder;
use idem_redis::redis::{Client, IntoConnectionInfo, ProtocolVersion};
use idem_redis::{MAX_PAYLOAD_BYTES, RedisStore};

const LEASE: Duration = Duration::from_secs(60);
const PROTOCOLS: [ProtocolVersion; 2] = [ProtocolVersion::RESP2, ProtocolVersion::RESP3];

/// A store on a connection of the test's own.
async fn on_own_connection(url: &str, protocol: ProtocolVersion) -> RedisStore {
    if let Some(nodes) = url.strip_prefix("redis-cluster://") {
        let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
        let client = ClusterClientBuilder::new(nodes).use_protocol(protocol).build().unwrap();
        let connection = client.get_async_connection().await.unwrap();
        return fresh().on_cluster(connection).await.unwrap();
    }
    let info = url.into_connection_info().unwrap();
    let settings = info.redis_settings().clone().set_protocol(protocol);
    let client = Client::open(info.set_redis_settings(settings)).unwrap();
    let manager = ConnectionManager::new(client).await.unwrap();
    fresh().on_connection_manager(manager).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_works_on_the_users_own_connections_in_both_protocols() {
    for server in SERVERS {
        for protocol in PROTOCOLS {
            let store = on_own_connection(&variable(server), protocol).await;
            every_verb(&store).await;
            let findings = store.preflight().await.unwrap();
            for (check, severity) in [
                ("server-version", Severity::Ok),
                ("maxmemory-policy", Severity::Ok),
                ("role", Severity::Ok),
                ("appendonly", Severity::Ok),
                ("appendfsync", Severity::Warning),
                ("layout", Severity::Ok),
            ] {
                let found = findings.iter().find(|finding| finding.check == check);
                let found = found.map(|finding| finding.severity);
                assert_eq!(found, Some(severity), "{server}, {protocol:?}: {check}");
            }
        }
    }
}

async fn every_verb(store: &RedisStore) {
    let done = acquire(store, &key("done"), LEASE).await.fence;
    let point = Recovery { number: 1, payload: Sealed::from_bytes(b"p\0\xff".to_vec()) };
    store.checkpoint(&done, &point, LEASE).await.unwrap();
    assert!(matches!(store.renew(&done, LEASE).await.unwrap(), Renewed::Held(_)));
    let seen = store.get(&scope(), &key("done")).await.unwrap().unwrap();
    assert_eq!(seen.record.recovery(), Some(&point));
    store.complete(&done, &reply("reply")).await.unwrap();
    let again = claim(store, &key("done"), Owner::random(), LEASE).await.unwrap();
    assert!(matches!(again, Claimed::Completed(replay) if replay.reply == reply("reply")));
    assert!(store.get(&scope(), &key("absent")).await.unwrap().is_none());
    let dead = acquire(store, &key("dead"), LEASE).await.fence;
    assert_eq!(store.renew(&dead, Duration::ZERO).await.unwrap(), Renewed::GivenUp);
    assert_eq!(store.lapsed(None, 10).await.unwrap().records.len(), 1);
    assert_eq!(store.list(&Filter::default(), None, 10).await.unwrap().records.len(), 2);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.completed, stats.lapsed_not_begun), (1, 1), "{stats:?}");
    store.release(&dead).await.unwrap();
    store.sweep(10).await.unwrap();
    let forgotten = store.forget(&scope(), 10).await.unwrap();
    assert_eq!((forgotten.deleted, forgotten.in_progress), (1, 0));
    let removed = acquire(store, &key("removed"), LEASE).await.fence;
    store.remove(&removed).await.unwrap();
}

/// What docs/redis.md names as enough.
const RIGHTS: [&str; 8] =
    ["~{test-*", "+@read", "+@write", "+@connection", "+eval", "+evalsha", "+info", "+time"];

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_few_rights_is_enough_and_one_with_fewer_is_refused_at_once() {
    for binary in BINARIES {
        let server = Server::start(binary, &[]).await;
        let url = format!("redis://shop:secret@127.0.0.1:{}", server.port());
        let set = ["ACL", "SETUSER", "shop", "reset", "on", ">secret"];
        server.ask(&[&set[..], &RIGHTS[..]].concat()).await.unwrap();
        every_verb(&fresh().connect(&url).await.unwrap()).await;

        for missing in [
            "-hset",
            "-zrem",
            "-hdel",
            "-incr",
            "-pexpireat",
            "-time",
            "-eval",
            "-evalsha",
            "-info",
        ] {
            server.ask(&["ACL", "SETUSER", "shop", missing]).await.unwrap();
            let error = fresh().connect(&url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WrongSchema, "{missing}: {error}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
            let back = missing.replace('-', "+");
            server.ask(&["ACL", "SETUSER", "shop", &back]).await.unwrap();
        }
        server.ask(&["ACL", "SETUSER", "shop", "resetkeys", "~other*"]).await.unwrap();
        let error = fresh().connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongSchema, "{error}");
    }
}

/// The rights are taken away from a store that runs: nothing is half written.
#[tokio::test(flavor = "multi_thread")]
async fn rights_that_go_away_while_a_store_runs_leave_the_record_held() {
    for binary in BINARIES {
        let server = Server::start(binary, &[]).await;
        let url = format!("redis://shop:secret@127.0.0.1:{}", server.port());
        let set = ["ACL", "SETUSER", "shop", "reset", "on", ">secret"];
        server.ask(&[&set[..], &RIGHTS[..]].concat()).await.unwrap();
        let store = fresh().connect(&url).await.unwrap();
        let fence = acquire(&store, &key("k"), LEASE).await.fence;
        // The first breaks a script off, so nobody knows how far it came; the second keeps it from
        // starting.
        for (missing, kind) in
            [("-hset", ErrorKind::OutcomeUnknown), ("-evalsha", ErrorKind::WrongSchema)]
        {
            server.ask(&["ACL", "SETUSER", "shop", missing]).await.unwrap();
            let told = |error: StoreError| assert_eq!(error.kind(), kind, "{error}");
            told(store.complete(&fence, &reply("reply")).await.unwrap_err());
            told(store.renew(&fence, LEASE).await.unwrap_err());
            told(claim(&store, &key("new"), Owner::random(), LEASE).await.unwrap_err());
            server.ask(&["ACL", "SETUSER", "shop", &missing.replace('-', "+")]).await.unwrap();
            let seen = store.get(&scope(), &key("k")).await.unwrap().unwrap();
            assert_eq!(seen.record.fence(), fence);
            assert!(store.get(&scope(), &key("new")).await.unwrap().is_none());
            let stats = store.stats().await.unwrap();
            assert!(stats.live >= 1, "the reconciler still knows of it: {stats:?}");
        }
        store.complete(&fence, &reply("reply")).await.unwrap();
    }
}

/// The write is made and the wait behind it is not: that is no refusal.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_wait_for_replicas_is_refused_or_told_of_an_unknown_outcome() {
    for binary in BINARIES {
        let server = Server::start(binary, &[]).await;
        let replica = format!("127.0.0.1 {}", server.port());
        let options = ["--replicaof", &replica, "--repl-diskless-sync-delay", "0"];
        let _replica = Server::start(binary, &options).await;
        server.until_info("state=online", 1).await;
        let url = format!("redis://shop:secret@127.0.0.1:{}", server.port());
        let set = ["ACL", "SETUSER", "shop", "reset", "on", ">secret"];
        server.ask(&[&set[..], &RIGHTS[..], &["-wait"]].concat()).await.unwrap();
        let config = fresh().wait_for_replicas(1, Duration::from_secs(2));
        let error = config.clone().connect(&url).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongSchema | ErrorKind::OutcomeUnknown));
        server.ask(&["ACL", "SETUSER", "shop", "+wait"]).await.unwrap();
        let store = loop {
            // A replica that says it is up may still wait for its first write.
            match config.clone().connect(&url).await {
                Ok(store) => break store,
                Err(error) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}"),
            }
        };
        server.ask(&["ACL", "SETUSER", "shop", "-wait"]).await.unwrap();
        let error = claim(&store, &key("k"), Owner::random(), LEASE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        assert!(store.get(&scope(), &key("k")).await.unwrap().is_some(), "it was written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_is_refused_before_it_is_sent() {
    // A slow machine may take its time for the longest.
    let config = fresh().call_limit(Duration::from_secs(120));
    let store = config.connect(&variable("IDEM_REDIS_URL")).await.unwrap();
    let fence = acquire(&store, &key("k"), LEASE).await.fence;
    let long = Sealed::from_bytes(vec![0; MAX_PAYLOAD_BYTES + 1]);
    let point = Recovery { number: 1, payload: long.clone() };
    let refused = store.checkpoint(&fence, &point, LEASE).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let refused = store.complete(&fence, &long).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let longest = Sealed::from_bytes(vec![7; MAX_PAYLOAD_BYTES]);
    store.complete(&fence, &longest).await.unwrap();
    let again = claim(&store, &key("k"), Owner::random(), LEASE).await.unwrap();
    assert!(matches!(again, Claimed::Completed(replay) if replay.reply == longest));
    store.remove(&fence).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_lead_nowhere_are_told_apart() {
    // Somebody listens, and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap();
    let here = variable("IDEM_REDIS_URL");
    for (url, kind) in [
        ("redis://", ErrorKind::InvalidInput),
        ("redis://h:99999", ErrorKind::InvalidInput),
        ("redis://x:hunter2@h:p", ErrorKind::InvalidInput),
        ("redis://h/not-a-number", ErrorKind::InvalidInput),
        ("rediss://h", ErrorKind::InvalidInput),
        ("redis-sentinel://h:1/m", ErrorKind::InvalidInput),
        ("postgres://h", ErrorKind::InvalidInput),
        ("redis-cluster://", ErrorKind::InvalidInput),
        ("redis-cluster://h:99999", ErrorKind::InvalidInput),
        ("redis-cluster://a:1,,b:2", ErrorKind::InvalidInput),
        ("", ErrorKind::InvalidInput),
        (&format!("{here}/999"), ErrorKind::WrongSchema),
        (&here.replace("redis://", "redis-cluster://"), ErrorKind::WrongSchema),
        (&format!("redis://x:hunter2@{silent}"), ErrorKind::NotApplied),
        ("redis://x:hunter2@no-such-host.invalid", ErrorKind::NotApplied),
        ("redis-cluster://x:hunter2@127.0.0.1:1", ErrorKind::NotApplied),
    ] {
        let config = fresh().call_limit(Duration::from_secs(1));
        let error = config.connect(url).await.expect_err(url);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        assert_eq!(error.kind(), kind, "{url}: {error}");
    }
}
