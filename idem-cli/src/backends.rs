//! The one place where backends register their store URLs.
//!
//! A backend is one row of [`BACKENDS`]: its URL scheme, an example, how it is opened, and how the
//! conformance suite gets a fresh one. Every command that takes `--store` comes through [`open`].

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use idem_core::admin::Admin;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::memory::MemoryStore;
use idem_core::outbox::Outbox;
use idem_core::preflight::Finding;
use idem_mysql::MysqlStore;
use idem_postgres::PostgresStore;
use idem_redis::RedisStore;
use idem_sqlite::SqliteStore;

use crate::conformance::{self, Suite};
use crate::exit::{Exit, Failure};

/// A store behind a URL.
pub struct Opened {
    /// Its records.
    pub store: Arc<dyn Admin>,
    /// Its outbox, where it has one.
    pub outbox: Option<Arc<dyn Outbox>>,
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
    open: fn(String, Intent) -> Pending<Opened>,
    preflight: fn(String) -> Pending<Vec<Finding>>,
    suite: fn(String) -> Pending<Suite>,
}

/// What a backend is about to answer.
pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Every sort of store that this binary knows.
pub const BACKENDS: &[Backend] = &[
    Backend {
        scheme: "memory",
        example: "memory:",
        open: |_, intent| Box::pin(open_memory(intent)),
        preflight: |_| Box::pin(preflight_memory()),
        suite: |url| Box::pin(conformance::memory(url)),
    },
    Backend {
        scheme: "sqlite",
        example: "sqlite:PATH",
        open: |url, intent| Box::pin(open_sqlite(url, intent)),
        preflight: |url| Box::pin(preflight_sqlite(url)),
        suite: |url| Box::pin(conformance::sqlite(url)),
    },
    POSTGRES,
    // The driver takes both names, and other tools print the longer one.
    Backend { scheme: "postgresql", ..POSTGRES },
    Backend {
        scheme: "mysql",
        example: "mysql://USER@HOST/DATABASE",
        open: |url, intent| Box::pin(open_mysql(url, intent)),
        preflight: |url| Box::pin(preflight_mysql(url)),
        suite: |url| Box::pin(conformance::mysql(url)),
    },
    REDIS,
    Backend { scheme: "redis-cluster", example: "redis-cluster://HOST:PORT,...", ..REDIS },
];

const POSTGRES: Backend = Backend {
    scheme: "postgres",
    example: "postgres://USER@HOST/DATABASE",
    open: |url, intent| Box::pin(open_postgres(url, intent)),
    preflight: |url| Box::pin(preflight_postgres(url)),
    suite: |url| Box::pin(conformance::postgres(url)),
};

const REDIS: Backend = Backend {
    scheme: "redis",
    example: "redis://HOST:PORT",
    open: |url, intent| Box::pin(open_redis(url, intent)),
    preflight: |url| Box::pin(preflight_redis(url)),
    suite: |url| Box::pin(conformance::redis(url)),
};

/// Opens the store behind a URL.
///
/// # Errors
/// [`Exit::Usage`] for a URL that no backend knows; [`Exit::Setup`] or [`Exit::Unavailable`] when
/// the store cannot be opened. The URL is not part of the message: it may hold a password.
pub async fn open(url: &str, intent: Intent) -> Result<Opened, Failure> {
    (backend(url)?.open)(url.to_owned(), intent).await
}

/// Looks at the server behind a URL, also where a store could not be opened on it.
///
/// # Errors
/// As [`open`].
pub async fn preflight(url: &str) -> Result<Vec<Finding>, Failure> {
    (backend(url)?.preflight)(url.to_owned()).await
}

/// The conformance suite on the store behind a URL.
///
/// # Errors
/// As [`open`].
pub(crate) async fn suite(url: &str) -> Result<Suite, Failure> {
    (backend(url)?.suite)(url.to_owned()).await
}

fn backend(url: &str) -> Result<&'static Backend, Failure> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    let found = BACKENDS.iter().find(|backend| Some(backend.scheme) == scheme);
    found.ok_or_else(|| Failure::new(Exit::Usage, UnknownUrl))
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
        let mut told: Vec<&str> = BACKENDS.iter().map(|backend| backend.example).collect();
        // Two schemes of one backend have one example.
        told.dedup();
        f.write_str(&told.join(", "))?;
        Ok(())
    }
}

impl Error for UnknownUrl {}

async fn open_memory(intent: Intent) -> Result<Opened, Failure> {
    if intent != Intent::Serve {
        let why = "a memory: store lives in the process that serves it; there is nothing to open";
        return Err(Failure::new(Exit::Usage, why));
    }
    Ok(Opened { store: Arc::new(MemoryStore::new()), outbox: None })
}

async fn preflight_memory() -> Result<Vec<Finding>, Failure> {
    Ok(vec![Finding::problem(
        "durability",
        "records live in this process only",
        "use sqlite:PATH or a server for anything but a trial",
    )])
}

async fn open_sqlite(url: String, intent: Intent) -> Result<Opened, Failure> {
    let creates = intent != Intent::Operate;
    let store = SqliteStore::builder().migrates(creates).connect(&url).await;
    let store = store.map_err(store_failure)?;
    Ok(Opened { outbox: Some(store.outbox()), store: Arc::new(store) })
}

async fn preflight_sqlite(url: String) -> Result<Vec<Finding>, Failure> {
    SqliteStore::builder().preflight(&url).await.map_err(store_failure)
}

async fn open_postgres(url: String, intent: Intent) -> Result<Opened, Failure> {
    let creates = intent != Intent::Operate;
    let store = PostgresStore::builder().migrates(creates).connect(&url).await;
    let store = store.map_err(store_failure)?;
    Ok(Opened { outbox: Some(store.outbox()), store: Arc::new(store) })
}

async fn preflight_postgres(url: String) -> Result<Vec<Finding>, Failure> {
    PostgresStore::builder().preflight(&url).await.map_err(store_failure)
}

async fn open_mysql(url: String, intent: Intent) -> Result<Opened, Failure> {
    let creates = intent != Intent::Operate;
    let store = MysqlStore::builder().migrates(creates).connect(&url).await;
    let store = store.map_err(store_failure)?;
    Ok(Opened { outbox: Some(store.outbox()), store: Arc::new(store) })
}

async fn preflight_mysql(url: String) -> Result<Vec<Finding>, Failure> {
    MysqlStore::builder().preflight(&url).await.map_err(store_failure)
}

async fn open_redis(url: String, intent: Intent) -> Result<Opened, Failure> {
    let creates = intent != Intent::Operate;
    let store = RedisStore::builder().migrates(creates).connect(&url).await;
    Ok(Opened { store: Arc::new(store.map_err(store_failure)?), outbox: None })
}

async fn preflight_redis(url: String) -> Result<Vec<Finding>, Failure> {
    RedisStore::builder().preflight(&url).await.map_err(store_failure)
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
