//! A server of the test's own, to be killed and started again.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use idem_redis::redis::{self, Client, Value, cmd};

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
    /// What the server's command follows, and must become it.
    around: Vec<String>,
}

impl Server {
    /// Starts one on a free port of loopback, and waits until it answers.
    pub(crate) async fn start(binary: &'static str, options: &[&str]) -> Self {
        Self::start_on(binary, free_port(), options).await
    }

    pub(crate) async fn start_on(binary: &'static str, port: u16, options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { binary, port, options, folder, child: None, around: Vec::new() };
        server.restart().await;
        server
    }

    /// Starts one whose folder is a disk of `size`, which no other process sees. `None` where such
    /// a disk cannot be mounted.
    pub(crate) async fn start_on_small_disk(
        binary: &'static str,
        size: &str,
        options: &[&str],
    ) -> Option<Self> {
        let mut probe = Command::new("unshare");
        probe.args(["-r", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).stderr(Stdio::null());
        if !probe.status().is_ok_and(|status| status.success()) {
            return None;
        }
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mount = "mount -t tmpfs -o size=$0 tmpfs \"$1\" && shift && exec \"$@\"";
        let folder_name = folder.path().display().to_string();
        let around = ["unshare", "-r", "-m", "sh", "-c", mount, size, &folder_name];
        let around = around.map(str::to_owned).to_vec();
        let mut server = Self { binary, port: free_port(), options, folder, child: None, around };
        server.restart().await;
        Some(server)
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
        let mut command = self.around.clone();
        command.push(variable(self.binary));
        let child = Command::new(&command[0])
            .args(&command[1..])
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

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
