//! The mail service, as far as this example needs one.

use std::io::{Error, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Appends each mail as a line to a file, unless one of this key is in it: what a service does that
/// takes an idempotency key.
#[derive(Clone)]
pub(crate) struct Mailer {
    path: PathBuf,
}

impl Mailer {
    pub(crate) fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned() }
    }

    /// Sends one mail. The error says nothing of whether it went out.
    pub(crate) async fn send(&self, key: &str, to: &str, text: &str) -> Result<(), Error> {
        if self.sent()?.iter().any(|line| line.starts_with(key)) {
            return Ok(());
        }
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(format!("{key} {to} {text}\n").as_bytes())?;
        file.sync_all()
    }

    /// What went out, a line each.
    pub(crate) fn sent(&self) -> Result<Vec<String>, Error> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
