//! The backends, each in a place of its own that is removed afterwards.

pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod sqlite;

use crate::measure::BoxError;

/// The URL of a server.
fn url(variable: &str) -> Result<String, BoxError> {
    std::env::var(variable)
        .map_err(|_| format!("{variable} is not set; `scripts/bench` starts a server").into())
}

/// A name that no other run has.
fn place() -> String {
    format!("idem_bench_{}", std::process::id())
}
