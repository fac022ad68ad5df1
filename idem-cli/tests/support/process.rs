//! Processes under test. Each one is killed when its guard is dropped.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long anything may take before the test fails. Nothing is ever expected to take this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The binary under test.
pub(crate) const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// A running process.
pub(crate) struct Process {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

/// A running server of `idem`.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

struct Lines {
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    /// Starts a command; standard input is a pipe that stays open.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .env_remove("IDEM_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Starts `idem` with these arguments.
    pub(crate) fn idem<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        Self::start(Command::new(IDEM).args(args))
    }

    /// The next line of standard output; `None` at its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.stdout.next()
    }

    /// Waits for a line of standard error that contains `text`.
    pub(crate) fn wait_for_stderr(&mut self, text: &str) {
        while let Some(line) = self.stderr.next() {
            if line.contains(text) {
                return;
            }
        }
        panic!("{text:?} is not on standard error: {:?}", self.stderr.seen);
    }

    /// Waits for standard error to end, and returns all of it.
    pub(crate) fn stderr(&mut self) -> String {
        while self.stderr.next().is_some() {}
        self.stderr.seen.join("\n")
    }

    /// Waits for its standard output to end, and then for it.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        while self.line().is_some() {}
        self.child.wait().unwrap()
    }

    /// Sends a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Whether SIGSTOP has taken hold of it.
    pub(crate) fn is_stopped(&self) -> bool {
        let id = self.child.id().to_string();
        let state = Command::new("ps").args(["-o", "state=", "-p", &id]).output().unwrap();
        state.stdout.starts_with(b"T")
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the pipe to its standard input.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Waits for the line in which a started server says where it listens.
    pub(crate) fn listening(mut process: Process) -> Self {
        let line = process.line();
        let address = line
            .as_deref()
            .and_then(|line| line.strip_prefix("listening on http://"))
            .and_then(|address| address.parse().ok());
        match address {
            Some(address) => Self { process, address },
            None => panic!("it does not listen: {line:?}, {}", process.stderr()),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Lines {
    fn of(from: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines, seen: Vec::new() }
    }

    fn next(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing more was said: {:?}", self.seen),
        }
    }
}

/// Sends a signal to a process that the test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(status.success(), "cannot send SIG{name} to {pid}");
}
