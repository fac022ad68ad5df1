//! A Cluster of the test's own.

use std::time::{Duration, Instant};

use idem_redis::redis;
use idem_testkit::faults::proxy::Proxy;

use super::proxy_to;
use super::server::{Server, free_port};

/// Three primaries, each of which tells clients to come through a relay.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    replicas: Vec<Node>,
}

pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    bus: u16,
}

impl Cluster {
    pub(crate) async fn start(binary: &'static str) -> Self {
        let mut nodes = Vec::new();
        for [first, last] in [["0", "5460"], ["5461", "10922"], ["10923", "16383"]] {
            let node = Node::start(binary).await;
            node.server.ask(&["CLUSTER", "ADDSLOTSRANGE", first, last]).await.unwrap();
            nodes.push(node);
        }
        let cluster = Self { nodes, replicas: Vec::new() };
        for node in &cluster.nodes[1..] {
            node.meet(&cluster.nodes[0]).await;
        }
        cluster.until_ok().await;
        cluster
    }

    /// Gives each primary a replica, and waits until that has what the primary has.
    pub(crate) async fn add_replicas(&mut self, binary: &'static str) {
        for _ in 0..self.nodes.len() {
            let replica = Node::start(binary).await;
            // All of them, since gossip takes its time.
            for other in self.nodes.iter().chain(&self.replicas) {
                replica.meet(other).await;
            }
            self.replicas.push(replica);
        }
        self.until_ok().await;
        for (node, replica) in self.nodes.iter().zip(&self.replicas) {
            let id: String =
                redis::from_redis_value(node.server.ask(&["CLUSTER", "MYID"]).await.unwrap())
                    .unwrap();
            replica.server.ask(&["CLUSTER", "REPLICATE", &id]).await.unwrap();
            replica.server.until_info("master_link_status:up", 1).await;
        }
    }

    pub(crate) fn kill_replicas(&mut self) {
        self.replicas.iter_mut().for_each(|replica| replica.server.kill());
    }

    pub(crate) fn url(&self) -> String {
        let nodes =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.proxy.address().port()));
        format!("redis-cluster://{}", nodes.collect::<Vec<_>>().join(","))
    }

    /// Waits until every node knows all others and serves.
    pub(crate) async fn until_ok(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let known = format!("cluster_known_nodes:{}", self.nodes.len() + self.replicas.len());
        for node in self.nodes.iter().chain(&self.replicas) {
            loop {
                let info = node.server.ask(&["CLUSTER", "INFO"]).await;
                let info: String =
                    info.and_then(|value| Ok(redis::from_redis_value(value)?)).unwrap_or_default();
                if info.contains("cluster_state:ok") && info.contains(&known) {
                    break;
                }
                assert!(Instant::now() < deadline, "the Cluster did not form:\n{info}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

impl Node {
    async fn start(binary: &'static str) -> Self {
        let (port, bus) = (free_port(), free_port());
        let proxy = proxy_to(port).await;
        let (announced, bus_text) = (proxy.address().port().to_string(), bus.to_string());
        let options = [
            ["--cluster-enabled", "yes"],
            ["--cluster-announce-ip", "127.0.0.1"],
            ["--cluster-announce-port", &announced],
            ["--cluster-port", &bus_text],
            ["--cluster-announce-bus-port", &bus_text],
            ["--repl-diskless-sync-delay", "0"],
            ["--appendonly", "yes"],
            ["--appendfsync", "always"],
        ];
        let server = Server::start_on(binary, port, options.as_flattened()).await;
        Self { server, proxy, bus }
    }

    async fn meet(&self, other: &Self) {
        let (port, bus) = (other.server.port().to_string(), other.bus.to_string());
        self.server.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await.unwrap();
    }
}
