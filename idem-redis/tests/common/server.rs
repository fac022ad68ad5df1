//! A server of the test's own, to be killed and started again.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use idem_redis::redis::{self, Client, Value, cmd};

use super::cutter::Cutter;
use super::variable;

/// Where the environment says which servers there are.
pub(crate) const BINARIES: [&str; 3] =
    ["IDEM_REDIS_SERVER", "IDEM_REDIS8_SERVER", "IDEM_VALKEY_SERVER"];

pub(crate) struct Server {
    binary: &'static str,
    port: u16,
    options: Vec<String>,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Server {
    /// Starts one on a free port of loopback, and waits until it answers.
    pub(crate) async fn start(binary: &'static str, options: &[&str]) -> Self {
        Self::start_on(binary, free_port(), options).await
    }

    async fn start_on(binary: &'static str, port: u16, options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { binary, port, options, folder, child: None };
        server.restart().await;
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts it again with the data that it wrote, and waits until it answers.
    pub(crate) async fn restart(&mut self) {
        let log =
            File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let child = Command::new(variable(self.binary))
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""])
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .expect("the server can be started");
        self.child = Some(child);
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Err(error) = self.ask(&["PING"]).await
            && error.code() != Some("NOAUTH")
        {
            assert!(Instant::now() < deadline, "the server did not start:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends it at once, as a crash of the process would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// One command over a connection of its own.
    pub(crate) async fn ask(&self, words: &[&str]) -> redis::RedisResult<Value> {
        let client = Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await
    }

    /// Waits until so many lines of INFO hold a text.
    pub(crate) async fn until_info(&self, text: &str, lines: usize) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let info: String = match self.ask(&["INFO"]).await {
                Ok(value) => redis::from_redis_value(value).unwrap(),
                Err(_) => String::new(),
            };
            if info.lines().filter(|line| line.contains(text)).count() == lines {
                return;
            }
            assert!(Instant::now() < deadline, "INFO never said {text}:\n{info}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn log(&self) -> String {
        read(&self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Three masters, each of which tells clients to come through a relay.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<(Server, Cutter)>,
}

impl Cluster {
    pub(crate) async fn start(binary: &'static str) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let port = free_port();
            let cutter = Cutter::to(port).await;
            let (announced, bus) = (cutter.port().to_string(), free_port().to_string());
            let options = [
                ["--cluster-enabled", "yes"],
                ["--cluster-announce-ip", "127.0.0.1"],
                ["--cluster-announce-port", &announced],
                ["--cluster-port", &bus],
                ["--cluster-announce-bus-port", &bus],
                ["--appendonly", "yes"],
                ["--appendfsync", "always"],
            ];
            let server = Server::start_on(binary, port, options.as_flattened()).await;
            nodes.push((server, cutter));
        }
        let cluster = Self { nodes };
        let slots = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];
        for ((node, _), [first, last]) in cluster.nodes.iter().zip(slots) {
            node.ask(&["CLUSTER", "ADDSLOTSRANGE", first, last]).await.unwrap();
        }
        let (first, _) = &cluster.nodes[0];
        for (node, _) in &cluster.nodes[1..] {
            let (port, bus) = (first.port.to_string(), first.options[7].clone());
            node.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await.unwrap();
        }
        cluster.until_ok().await;
        cluster
    }

    pub(crate) fn url(&self) -> String {
        let nodes = self.nodes.iter().map(|(_, cutter)| format!("127.0.0.1:{}", cutter.port()));
        format!("redis-cluster://{}", nodes.collect::<Vec<_>>().join(","))
    }

    /// Waits until every node knows all others and serves.
    pub(crate) async fn until_ok(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        for (node, _) in &self.nodes {
            loop {
                let info = node.ask(&["CLUSTER", "INFO"]).await;
                let info: String =
                    info.and_then(|value| Ok(redis::from_redis_value(value)?)).unwrap_or_default();
                if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3") {
                    break;
                }
                assert!(Instant::now() < deadline, "the Cluster did not form:\n{info}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
