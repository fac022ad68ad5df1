//! Under load: servers are killed and restarted, connections are cut, scripts are flushed.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::cluster::Cluster;
use common::load::{Ledger, check, flush_scripts, start, until_progress};
use common::server::{BINARIES, Server};
use common::{fresh, proxy_to};

const KILLS: usize = 20;
const CUTS: usize = 500;

#[tokio::test(flavor = "multi_thread")]
async fn kills_cuts_and_flushes_double_nothing_and_lose_nothing() {
    for binary in BINARIES {
        torment_one_server(binary).await;
    }
}

async fn torment_one_server(binary: &'static str) {
    let mut server =
        Server::start(binary, &["--appendonly", "yes", "--appendfsync", "always"]).await;
    let proxy = proxy_to(server.port()).await;
    let url = format!("redis://{}", proxy.address());
    let config = fresh().call_limit(Duration::from_secs(2));
    let ledger = Arc::new(Ledger::default());
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(config.clone().connect(&url).await.unwrap());
    }
    let workers = start(&stores, 3, &ledger);
    let flushing = tokio::spawn(flush_scripts(server.url(), ledger.clone()));
    let started = Instant::now();
    let (mut cuts, mut kills) = (0, 0);
    while cuts < CUTS || kills < KILLS {
        assert!(started.elapsed() < Duration::from_secs(300), "{kills} kills, {cuts} cuts");
        until_progress(&ledger).await;
        // Only a cut that met a connection counts.
        cuts += proxy.sever().min(1);
        if kills < KILLS && cuts >= kills * CUTS / KILLS {
            until_progress(&ledger).await;
            server.kill();
            server.restart().await;
            kills += 1;
        }
    }
    ledger.finish(workers).await;
    flushing.abort();
    assert!(ledger.flushes() > KILLS, "scripts were flushed only {} times", ledger.flushes());
    let store = config.connect(&server.url()).await.unwrap();
    let keys = check(&store, &ledger).await;
    println!("{binary}: {kills} kills, {cuts} cuts, {}", ledger.summary(keys));
}

/// The Cluster's driver sends again by itself what got no answer; that wins nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_driver_resends_doubles_nothing_and_loses_nothing() {
    for binary in BINARIES {
        torment_a_cluster(binary).await;
    }
}

async fn torment_a_cluster(binary: &'static str) {
    // The same everywhere took a minute for each.
    let (most_kills, most_cuts) = if binary == BINARIES[0] { (KILLS, CUTS) } else { (6, 150) };
    let mut cluster = Cluster::start(binary).await;
    let config = fresh().call_limit(Duration::from_secs(4));
    let ledger = Arc::new(Ledger::default());
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(config.clone().connect(&cluster.url()).await.unwrap());
    }
    let workers = start(&stores, 4, &ledger);
    let flushing: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| tokio::spawn(flush_scripts(node.server.url(), ledger.clone())))
        .collect();
    let started = Instant::now();
    let (mut cuts, mut kills) = (0, 0);
    while cuts < most_cuts || kills < most_kills {
        assert!(started.elapsed() < Duration::from_secs(300), "{kills} kills, {cuts} cuts");
        until_progress(&ledger).await;
        cuts += cluster.nodes.iter().map(|node| node.proxy.sever()).max().unwrap().min(1);
        if kills < most_kills && cuts >= kills * most_cuts / most_kills {
            let node = &mut cluster.nodes[kills % 3].server;
            node.kill();
            node.restart().await;
            cluster.until_ok().await;
            kills += 1;
        }
    }
    ledger.finish(workers).await;
    flushing.iter().for_each(|flushing| flushing.abort());
    assert!(ledger.flushes() > most_kills, "scripts were flushed only {} times", ledger.flushes());
    let store = config.connect(&cluster.url()).await.unwrap();
    let keys = check(&store, &ledger).await;
    println!("{binary}, a Cluster: {kills} kills, {cuts} cuts, {}", ledger.summary(keys));
}
