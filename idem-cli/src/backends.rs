//! The one place where backends register their store URLs.
//!
//! A backend is one row of [`BACKENDS`]: its URL scheme, an example, and how it is opened. Every
//! command that takes `--store` comes through [`open`].

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use idem_core::admin::Admin;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::memory::MemoryStore;
use idem_core::preflight::{Finding, Preflight};

use crate::exit::{Exit, Failure};

/// A store behind a URL.
pub struct Opened {
    /// Its records.
    pub store: Arc<dyn Admin>,
    /// Its server's settings.
    pub preflight: Arc<dyn Preflight>,
}

/// How a command means to use a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// To serve from it: it is created and migrated where that is needed.
    Serve,
    /// To bring its schema up to date.
    Migrate,
    /// To look at it or after it: a store that is not there is an error, not an empty store.
    Operate,
}

/// One sort of store.
pub struct Backend {
    /// What its URLs begin with.
    pub scheme: &'static str,
    /// A URL of it, for messages.
    pub example: &'static str,
    open: fn(String, Intent) -> Opening,
}

/// An opening store.
pub type Opening = Pin<Box<dyn Future<Output = Result<Opened, Failure>> + Send>>;

/// Every sort of store that this binary knows.
pub const BACKENDS: &[Backend] =
    &[Backend { scheme: "memory", example: "memory:", open: |_, intent| Box::pin(memory(intent)) }];

/// Opens the store behind a URL.
///
/// # Errors
/// [`Exit::Usage`] for a URL that no backend knows; [`Exit::Setup`] or [`Exit::Unavailable`] when
/// the store cannot be opened. The URL is not part of the message: it may hold a password.
pub async fn open(url: &str, intent: Intent) -> Result<Opened, Failure> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    match BACKENDS.iter().find(|backend| Some(backend.scheme) == scheme) {
        Some(backend) => (backend.open)(url.to_owned(), intent).await,
        None => Err(Failure::new(Exit::Usage, UnknownUrl)),
    }
}

/// A store's failure with the exit code that tells a script what to do about it.
pub fn store_failure(error: StoreError) -> Failure {
    let exit = match error.kind() {
        ErrorKind::InvalidInput => Exit::Usage,
        ErrorKind::NotApplied => Exit::Unavailable,
        ErrorKind::OutcomeUnknown => Exit::Unknown,
        _ => Exit::Setup,
    };
    Failure::new(exit, error)
}

#[derive(Debug)]
struct UnknownUrl;

impl std::fmt::Display for UnknownUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("--store takes one of ")?;
        for (at, backend) in BACKENDS.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{}", backend.example)?;
        }
        Ok(())
    }
}

impl Error for UnknownUrl {}

async fn memory(intent: Intent) -> Result<Opened, Failure> {
    if intent != Intent::Serve {
        let why = "a memory: store lives in the process that serves it; there is nothing to open";
        return Err(Failure::new(Exit::Usage, why));
    }
    let store = MemoryStore::new();
    Ok(Opened { store: Arc::new(store), preflight: Arc::new(MemoryPreflight) })
}

struct MemoryPreflight;

#[idem_core::async_trait]
impl Preflight for MemoryPreflight {
    async fn preflight(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(vec![Finding::problem(
            "durability",
            "records live in this process only",
            "use sqlite:PATH or a server for anything but a trial",
        )])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_that_no_backend_knows_is_wrong_use_and_is_not_repeated() {
        for url in ["", "postgrs://user:hunter2@host/db", "memory", "/tmp/file.db"] {
            let failure = open(url, Intent::Serve).await.err().unwrap();
            assert_eq!(failure.exit(), Exit::Usage, "{url}");
            assert!(failure.message().starts_with("--store takes one of memory:"));
            assert!(!failure.message().contains("hunter2"));
        }
    }

    #[tokio::test]
    async fn a_memory_store_is_only_served_from() {
        assert!(open("memory:", Intent::Serve).await.is_ok());
        for intent in [Intent::Operate, Intent::Migrate] {
            assert_eq!(open("memory:", intent).await.err().unwrap().exit(), Exit::Usage);
        }
    }
}
