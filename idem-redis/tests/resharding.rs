//! Slots of a Cluster move from node to node while their records are worked on.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::cluster::Cluster;
use common::fresh_namespace;
use common::load::{Ledger, check, start, until_progress};
use common::server::{BINARIES, Server};
use idem_redis::RedisStore;
use idem_redis::redis::{self, Client, FromRedisValue, RedisResult, cmd};

/// How many slots are moved.
const MOVES: usize = 24;

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_move_under_load_double_nothing_and_lose_nothing() {
    for binary in BINARIES {
        let cluster = Cluster::start(binary).await;
        let namespace = fresh_namespace();
        let config = RedisStore::builder().namespace(&namespace).call_limit(Duration::from_secs(4));
        let ledger = Arc::new(Ledger::default());
        let mut stores = Vec::new();
        for _ in 0..2 {
            stores.push(config.clone().connect(&cluster.url()).await.unwrap());
        }
        let workers = start(&stores, 4, &ledger);
        let mut moved = 0;
        for number in 0..MOVES {
            until_progress(&ledger).await;
            // Each of twelve partitions goes one node further, and later once more.
            let tag = format!("{{{namespace}.{:02}}}", number % 12);
            moved += move_slot(&cluster, &tag).await;
        }
        until_progress(&ledger).await;
        ledger.finish(workers).await;
        let store = config.connect(&cluster.url()).await.unwrap();
        let keys = check(&store, &ledger).await;
        println!("{binary}: {MOVES} slots and {moved} keys moved, {}", ledger.summary(keys));
        assert!(moved > MOVES, "hardly anything was in those slots");
    }
}

/// Moves the slot of a tag to the node after the one that has it, as an operator does: marked at
/// both ends, key by key, and then told to all. Gives how many keys went.
async fn move_slot(cluster: &Cluster, tag: &str) -> usize {
    let servers: Vec<&Server> = cluster.nodes.iter().map(|node| &node.server).collect();
    let slot: u32 = ask(servers[0], &[b"CLUSTER", b"KEYSLOT", tag.as_bytes()]).await.unwrap();
    let slot = slot.to_string();
    let mut from = None;
    for (place, server) in servers.iter().enumerate() {
        // A node that has not the slot refuses even a key that is not there.
        let asked: RedisResult<Option<String>> = ask(server, &[b"GET", tag.as_bytes()]).await;
        if asked.is_ok() {
            from = Some(place);
        }
    }
    let from = from.expect("a node has the slot");
    let (source, target) = (servers[from], servers[(from + 1) % servers.len()]);
    let (source_id, target_id): (String, String) = (
        ask(source, &[b"CLUSTER", b"MYID"]).await.unwrap(),
        ask(target, &[b"CLUSTER", b"MYID"]).await.unwrap(),
    );
    set_slot(target, &slot, &["IMPORTING", &source_id]).await;
    set_slot(source, &slot, &["MIGRATING", &target_id]).await;
    let (port, mut moved) = (target.port().to_string(), 0);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline, "the slot is never empty");
        let list = [b"CLUSTER".as_slice(), b"GETKEYSINSLOT", slot.as_bytes(), b"5"];
        let keys: Vec<Vec<u8>> = ask(source, &list).await.unwrap();
        if keys.is_empty() {
            break;
        }
        let mut words = vec![b"MIGRATE".as_slice(), b"127.0.0.1", port.as_bytes(), b"", b"0"];
        words.extend([b"5000".as_slice(), b"KEYS"]);
        words.extend(keys.iter().map(Vec::as_slice));
        let _: String = ask(source, &words).await.unwrap();
        moved += keys.len();
        // Calls meet a slot of which a part is at either end.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    set_slot(target, &slot, &["NODE", &target_id]).await;
    for server in servers {
        set_slot(server, &slot, &["NODE", &target_id]).await;
    }
    moved
}

async fn set_slot(server: &Server, slot: &str, rest: &[&str]) {
    let mut words = vec![b"CLUSTER".as_slice(), b"SETSLOT", slot.as_bytes()];
    words.extend(rest.iter().map(|word| word.as_bytes()));
    let _: String = ask(server, &words).await.unwrap();
}

async fn ask<T: FromRedisValue>(server: &Server, words: &[&[u8]]) -> redis::RedisResult<T> {
    let client = Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut command = cmd(std::str::from_utf8(words[0]).unwrap());
    command.arg(&words[1..]).query_async(&mut connection).await
}
