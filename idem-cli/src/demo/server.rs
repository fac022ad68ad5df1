//! A server process that the demo starts, stops, and kills.

use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use crate::exit::{Exit, Failure};

/// How long a server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a server may take to drain.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How long the last words of a server that did not start may take to arrive.
const SAID_LIMIT: Duration = Duration::from_secs(2);
/// How many lines of standard error are kept.
const MAX_LINES: usize = 200;

/// A running `idem serve`. It is killed when this is dropped, and ends by itself when this
/// process does.
pub(super) struct Server {
    child: Child,
    /// Kept open: its end is the server's end.
    _stdin: ChildStdin,
    address: SocketAddr,
    said: watch::Receiver<Vec<String>>,
}

impl Server {
    /// Starts this very program as a server on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// [`Exit::Setup`], with what the server said.
    pub(super) async fn start(store: &str, args: &[&str]) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(setup)?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--end-with-stdin"])
            // The tour shows what a retry does: no reconciler is faster.
            .args(["--reconcile-every", "never"])
            .args(args)
            // Not on its command line: the URL may hold a password.
            .env("IDEM_STORE", store)
            .env("IDEM_LOG", "warn")
            .env_remove("IDEM_FAILPOINT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the demo, which then ends its servers.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(setup)?;
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        let mut said = collect(child.stderr.take().expect("it is piped"));
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(START_LIMIT, lines.next_line()).await;
        let address = first
            .ok()
            .and_then(|line| line.ok().flatten())
            .and_then(|line| line.strip_prefix("listening on http://")?.parse().ok());
        match address {
            Some(address) => Ok(Self { child, _stdin: stdin, address, said }),
            None => {
                // It has ended, or it is of no use; what it said arrives before its pipe closes.
                let _ = child.kill().await;
                let _ = tokio::time::timeout(SAID_LIMIT, said.wait_for(|_| false)).await;
                let said = said.borrow().join("; ");
                Err(setup(format!("a server of the demo did not start: {said}")))
            }
        }
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Sends SIGKILL, and waits for the end.
    pub(super) async fn kill(mut self) -> Result<(), Failure> {
        self.child.kill().await.map_err(setup)
    }

    /// Sends SIGSTOP: from now on none of its threads runs.
    pub(super) fn pause(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)
    }

    /// Sends SIGCONT.
    pub(super) fn go_on(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    /// Sends SIGTERM, and waits for the server to drain. Says whether it ended as it should.
    pub(super) async fn stop(mut self) -> Result<bool, Failure> {
        self.signal(Signal::TERM)?;
        match tokio::time::timeout(STOP_LIMIT, self.child.wait()).await {
            Ok(status) => Ok(status.map_err(setup)?.success()),
            Err(_) => Ok(false),
        }
    }

    /// Waits for a line of its standard error that contains `text`. Says whether there was one.
    pub(super) async fn says(&mut self, text: &str, limit: Duration) -> bool {
        let said = self.said.wait_for(|lines| lines.iter().any(|line| line.contains(text)));
        matches!(tokio::time::timeout(limit, said).await, Ok(Ok(_)))
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or_else(|| setup("a server of the demo has ended by itself"))?;
        kill_process(id, signal).map_err(|error| setup(io::Error::from(error)))
    }
}

fn setup(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::new(Exit::Setup, error)
}

/// Keeps the first lines that the server says on standard error, and reads on after them.
fn collect(stderr: impl AsyncRead + Unpin + Send + 'static) -> watch::Receiver<Vec<String>> {
    let (sender, said) = watch::channel(Vec::new());
    tokio::spawn(async move {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            sender.send_if_modified(|kept| {
                let room = kept.len() < MAX_LINES;
                if room {
                    kept.push(line);
                }
                room
            });
        }
    });
    said
}
