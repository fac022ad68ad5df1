//! What a backend found when it looked at its server's settings, before any work is trusted to it.

use std::borrow::Cow;

use async_trait::async_trait;
use serde::Serialize;

use crate::error::StoreError;

/// A backend that can look at its server's settings.
#[async_trait]
pub trait Preflight: Send + Sync {
    /// Looks, and changes nothing.
    ///
    /// # Errors
    /// When the server cannot be asked. A setting that is wrong is a finding, not an error.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn preflight(&self) -> Result<Vec<Finding>, StoreError>;
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at, as a stable lower-case name: `synchronous`, `schema`, `server-version`.
    pub check: Cow<'static, str>,
    /// What was found. It holds no password.
    pub found: Cow<'static, str>,
    /// What to do about it; empty when nothing is to do.
    pub advice: Cow<'static, str>,
}

impl Finding {
    /// As it should be.
    pub fn ok(check: impl Into<Cow<'static, str>>, found: impl Into<Cow<'static, str>>) -> Self {
        Self { severity: Severity::Ok, check: check.into(), found: found.into(), advice: "".into() }
    }

    /// It works, and may lose something or surprise somebody.
    pub fn warning(
        check: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
        advice: impl Into<Cow<'static, str>>,
    ) -> Self {
        let severity = Severity::Warning;
        Self { severity, check: check.into(), found: found.into(), advice: advice.into() }
    }

    /// Operations are not safe on this server as it is.
    pub fn problem(
        check: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
        advice: impl Into<Cow<'static, str>>,
    ) -> Self {
        let severity = Severity::Problem;
        Self { severity, check: check.into(), found: found.into(), advice: advice.into() }
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// It works, and may lose something or surprise somebody.
    Warning,
    /// Operations are not safe on this server as it is.
    Problem,
}
