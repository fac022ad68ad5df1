//! The carrier's API and the receiver of events, as far as this example needs them.

use std::io::{Error, Write as _};
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use idem_core::async_trait;
use idem_core::outbox::OutboxMessage;
use idem_core::relay::{Sink, SinkError};

/// Does each thing once for its key, as a line of a file: what a service does that takes an
/// idempotency key.
#[derive(Clone)]
pub(crate) struct Carrier {
    path: PathBuf,
    takes: Duration,
}

impl Carrier {
    /// `takes` passes between what it does and its answer: the time to kill the caller in.
    pub(crate) fn new(path: impl Into<PathBuf>, takes: Duration) -> Self {
        Self { path: path.into(), takes }
    }

    /// Does one thing. An error says nothing of whether it was done.
    pub(crate) async fn call(&self, key: &str, what: &str, of: &str) -> Result<String, Error> {
        let done = format!("{what}-{of}");
        if !self.done()?.iter().any(|line| line.starts_with(key)) {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
            file.write_all(format!("{key} {done}\n").as_bytes())?;
        }
        tokio::time::sleep(self.takes).await;
        Ok(done)
    }

    /// What was done, a line each.
    pub(crate) fn done(&self) -> Result<Vec<String>, Error> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Prints events. A service would have `idem_relay::HttpSink` here.
pub(crate) struct Print;

#[async_trait]
impl Sink for Print {
    async fn deliver(&self, message: &OutboxMessage, attempt: u32) -> Result<(), SinkError> {
        println!("{} {} (attempt {attempt})", message.topic(), message.id());
        Ok(())
    }
}
