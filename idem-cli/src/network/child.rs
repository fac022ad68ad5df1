//! A card network started as a child, which ends with its parent.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// How long a started network may take to listen: longer than it waits for its ledger.
pub const START_LIMIT: Duration = Duration::from_secs(15);

/// The most bytes of the line in which a network says where it listens.
const MAX_FIRST_LINE_BYTES: usize = 256;
/// How long a child that failed may take to end, and what it said to arrive.
const END_LIMIT: Duration = Duration::from_secs(2);
/// How much of what the child said on standard error is kept for an error.
const MAX_SAID_BYTES: usize = 4 * 1024;

/// A running `idem network`, tied to this process: its standard input is a pipe from here, and it
/// ends when the pipe does, which is when this process ends, by SIGKILL too.
///
/// Dropping it kills the child. [`stop`](Self::stop) lets it finish its calls first.
#[derive(Debug)]
pub struct NetworkProcess {
    child: Child,
    stdin: ChildStdin,
    /// Kept open, so that the child can write whatever it likes.
    _stdout: ChildStdout,
    url: String,
}

/// Why a card network could not be started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// The program cannot be run.
    #[error("cannot run {} as the card network", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It ended before it listened.
    #[error("the card network did not start ({status}): {said}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The end of what it said on standard error.
        said: String,
    },
    /// It neither listened nor ended in time, and was killed.
    #[error("the card network did not listen within {waited:?}: {said}")]
    Silent {
        /// How long it was given.
        waited: Duration,
        /// The end of what it said on standard error.
        said: String,
    },
    /// Its first line does not say where it listens; it was killed.
    #[error("the card network's first line is not its address: {said}")]
    FirstLine {
        /// The end of what it said on standard error.
        said: String,
    },
    /// The operating system failed to wait for it or to read from it.
    #[error("lost the card network's process")]
    Lost(#[source] io::Error),
}

impl NetworkProcess {
    /// Starts this very program as a card network on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// [`ChildError`], with what the child said.
    ///
    /// # Cancel safety
    /// Dropping it kills the child.
    pub async fn start(ledger: &Path) -> Result<Self, ChildError> {
        let program = std::env::current_exe().map_err(ChildError::Lost)?;
        Self::start_program(&program, ledger, START_LIMIT).await
    }

    /// Starts another `idem` binary as a card network, and gives it `limit` to listen.
    ///
    /// # Errors
    /// [`ChildError`], with what the child said.
    ///
    /// # Cancel safety
    /// Dropping it kills the child.
    pub async fn start_program(
        program: &Path,
        ledger: &Path,
        limit: Duration,
    ) -> Result<Self, ChildError> {
        let mut child = Command::new(program)
            .args(["network", "--listen", "127.0.0.1:0", "--end-with-stdin", "--ledger"])
            .arg(ledger)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in a terminal is for the parent, which still needs its network to drain.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| ChildError::Spawn { program: program.into(), source })?;
        let stdin = child.stdin.take().expect("it is piped");
        let mut stdout = child.stdout.take().expect("it is piped");
        let stderr = Stderr::forward(child.stderr.take().expect("it is piped"));

        let line = match tokio::time::timeout(limit, first_line(&mut stdout)).await {
            Ok(line) => line.map_err(ChildError::Lost)?,
            Err(_) => {
                let _ = child.kill().await;
                return Err(ChildError::Silent { waited: limit, said: stderr.into_text().await });
            }
        };
        match url(&line) {
            Some(url) => Ok(Self { child, stdin, _stdout: stdout, url }),
            None => Err(failed_start(child, &line, stderr).await),
        }
    }

    /// Where it listens, as `http://ADDR`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Lets it finish its calls and end; after `limit` it is killed.
    ///
    /// # Errors
    /// [`ChildError::Lost`].
    ///
    /// # Cancel safety
    /// Dropping it kills the child.
    pub async fn stop(self, limit: Duration) -> Result<ExitStatus, ChildError> {
        let Self { mut child, stdin, .. } = self;
        drop(stdin);
        if let Ok(status) = tokio::time::timeout(limit, child.wait()).await {
            return status.map_err(ChildError::Lost);
        }
        child.kill().await.map_err(ChildError::Lost)?;
        child.wait().await.map_err(ChildError::Lost)
    }
}

async fn failed_start(mut child: Child, line: &[u8], stderr: Stderr) -> ChildError {
    let silent = line.is_empty();
    // A silent one closed its standard output, which it does by ending.
    let ended =
        if silent { tokio::time::timeout(END_LIMIT, child.wait()).await.ok() } else { None };
    let status = match ended {
        Some(status) => status,
        None => match child.kill().await {
            Ok(()) => child.wait().await,
            Err(error) => Err(error),
        },
    };
    let said = stderr.into_text().await;
    match status {
        Ok(status) if silent => ChildError::Ended { status, said },
        Ok(_) => ChildError::FirstLine { said },
        Err(error) => ChildError::Lost(error),
    }
}

/// Reads up to the first line feed, the end, or the limit.
async fn first_line(stdout: &mut ChildStdout) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while line.len() < MAX_FIRST_LINE_BYTES && line.last() != Some(&b'\n') {
        let mut byte = [0];
        if stdout.read(&mut byte).await? == 0 {
            break;
        }
        line.extend(byte);
    }
    Ok(line)
}

fn url(line: &[u8]) -> Option<String> {
    let url = str::from_utf8(line).ok()?.strip_suffix('\n')?.strip_prefix("listening on ")?;
    url.starts_with("http://").then(|| url.to_owned())
}

/// Passes the child's standard error on to our own, and keeps the end of it.
struct Stderr {
    said: Arc<Mutex<Vec<u8>>>,
    forwarding: JoinHandle<()>,
}

impl Stderr {
    fn forward(from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let said = Arc::new(Mutex::new(Vec::new()));
        let forwarding = tokio::spawn(forward(from, said.clone()));
        Self { said, forwarding }
    }

    /// What the child said last, when it has ended. Its own children may still hold the pipe.
    async fn into_text(self) -> String {
        let _ = tokio::time::timeout(END_LIMIT, self.forwarding).await;
        let said = self.said.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        String::from_utf8_lossy(&said).trim().to_owned()
    }
}

async fn forward(mut from: impl AsyncRead + Unpin, said: Arc<Mutex<Vec<u8>>>) {
    let mut stderr = tokio::io::stderr();
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        let chunk = &chunk[..read];
        {
            let mut said = said.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            said.extend_from_slice(chunk);
            let surplus = said.len().saturating_sub(MAX_SAID_BYTES);
            said.drain(..surplus);
        }
        let _ = stderr.write_all(chunk).await;
    }
    let _ = stderr.flush().await;
}

#[cfg(test)]
#[path = "child_tests.rs"]
mod tests;
