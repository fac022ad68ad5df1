//! When a server command is asked to end: a signal, or the end of its standard input.

use std::io::{self, ErrorKind, Read as _};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Waits for SIGTERM, SIGINT or, when asked to, the end of standard input.
///
/// Signals are caught from the moment this exists, so make it before announcing the server.
#[derive(Debug)]
pub struct Shutdown {
    terminate: Signal,
    interrupt: Signal,
    stdin_end: Option<oneshot::Receiver<()>>,
}

/// What asked for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// SIGTERM or SIGINT.
    Signal,
    /// Standard input ended: the process at its other end is gone, or closed it.
    StdinEnd,
}

impl Shutdown {
    /// Begins to listen for SIGTERM and SIGINT. Needs a tokio runtime.
    ///
    /// # Errors
    /// The operating system's, when a signal handler cannot be set.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            stdin_end: None,
        })
    }

    /// Listens for the end of standard input as well. The pipe's other end is closed by the
    /// operating system however its process ends, so a child that listens never outlives its
    /// parent, SIGKILL included.
    ///
    /// # Errors
    /// The operating system's, when a thread cannot be started.
    pub fn with_stdin_end(mut self) -> io::Result<Self> {
        let (ended, stdin_end) = oneshot::channel();
        // A thread of its own: a blocking read on the runtime would keep the runtime from ending.
        std::thread::Builder::new().name("stdin-end".into()).spawn(move || {
            read_to_the_end();
            let _ = ended.send(());
        })?;
        self.stdin_end = Some(stdin_end);
        Ok(self)
    }

    /// Resolves when the end is asked for.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing: a later call sees what a dropped one waited for.
    pub async fn requested(&mut self) -> Cause {
        tokio::select! {
            _ = self.terminate.recv() => Cause::Signal,
            _ = self.interrupt.recv() => Cause::Signal,
            () = ended(&mut self.stdin_end) => Cause::StdinEnd,
        }
    }
}

async fn ended(stdin_end: &mut Option<oneshot::Receiver<()>>) {
    match stdin_end {
        Some(receiver) => {
            let _ = receiver.await;
            // A receiver must not be polled again once it is done.
            *stdin_end = None;
        }
        None => std::future::pending().await,
    }
}

fn read_to_the_end() {
    let mut ignored = [0; 1024];
    let mut stdin = io::stdin().lock();
    loop {
        match stdin.read(&mut ignored) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
