//! How `idem` ends: one list of exit codes, and the failure that carries one.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

/// What the exit code of `idem` says to a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// 0: done, and everything that was checked held.
    Success,
    /// 1: it ran, and an expectation or a check did not hold.
    CheckFailed,
    /// 2: the command line or an environment variable is wrong; nothing was done.
    Usage,
    /// 3: it could not start: a file, an address, a schema or a setting is not as it must be.
    /// Trying again without a change does not help.
    Setup,
    /// 4: a store or a server could not be reached; nothing was done, and trying again may help.
    Unavailable,
    /// 5: a write may or may not have happened. Read the record back before trying again.
    Unknown,
}

/// The exit codes as `idem help` prints them.
pub const HELP: &str = "Exit codes:
  0  done, and everything that was checked held
  1  an expectation or a check failed
  2  wrong use; nothing was done
  3  could not start: a file, address, schema or setting is not as it must be
  4  a store or server could not be reached; nothing was done
  5  outcome unknown: a write may have happened; read it back";

impl Exit {
    /// The number that the operating system is given.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::CheckFailed => 1,
            Self::Usage => 2,
            Self::Setup => 3,
            Self::Unavailable => 4,
            Self::Unknown => 5,
        }
    }

    /// The same as a word, for scripts that read JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::CheckFailed => "check_failed",
            Self::Usage => "usage",
            Self::Setup => "setup",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command ended early, and the exit code that says so.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    error: Box<dyn Error + Send + Sync>,
    details: Map<String, Value>,
}

impl Failure {
    /// A failure from the error that caused it.
    pub fn new(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, error: error.into(), details: Map::new() }
    }

    /// Adds a member to the JSON document that tells of it: what the command found before it
    /// refused.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The exit code that goes with it.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// One line: the error and, after colons, what caused it.
    pub fn message(&self) -> String {
        let mut message = self.error.to_string();
        let mut cause = self.error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors already end with the text of what caused them.
            if !message.ends_with(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        message
    }

    /// The same for a script: one document with the member `error`.
    pub fn to_json(&self) -> Value {
        let mut document = self.details.clone();
        let error = json!({
            "kind": self.exit.name(),
            "exit_code": self.exit.code(),
            "message": self.message(),
        });
        document.insert("error".into(), error);
        document.into()
    }

    /// Writes the message to standard error. A closed standard error is no reason to panic.
    pub fn report(&self) {
        let _ = writeln!(std::io::stderr().lock(), "idem: {}", self.message());
    }

    /// Writes the document to standard output, which holds nothing else then.
    pub fn report_json(&self) {
        let _ = writeln!(std::io::stdout().lock(), "{:#}", self.to_json());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the file")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_message_names_every_cause() {
        let failure = Failure::new(Exit::Setup, Outer(std::io::Error::other("disk on fire")));
        assert_eq!(failure.message(), "cannot open the file: disk on fire");
        assert_eq!(failure.exit().code(), 3);
    }

    #[test]
    fn a_cause_that_is_already_told_is_not_told_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot start: {0}")]
        struct Telling(#[source] std::io::Error);

        let failure = Failure::new(Exit::Setup, Telling(std::io::Error::other("no luck")));
        assert_eq!(failure.message(), "cannot start: no luck");
    }

    #[test]
    fn the_document_holds_the_error_and_what_was_found_before() {
        let failure = Failure::new(Exit::CheckFailed, "it is running").with("released", false);
        let error = json!({ "kind": "check_failed", "exit_code": 1, "message": "it is running" });
        assert_eq!(failure.to_json(), json!({ "released": false, "error": error }));
    }

    #[test]
    fn the_help_lists_every_code_once() {
        let all = [
            Exit::Success,
            Exit::CheckFailed,
            Exit::Usage,
            Exit::Setup,
            Exit::Unavailable,
            Exit::Unknown,
        ];
        let lines: Vec<_> = HELP.lines().skip(1).collect();
        assert_eq!(lines.len(), all.len());
        for (exit, line) in all.into_iter().zip(lines) {
            assert!(line.starts_with(&format!("  {}  ", exit.code())), "{line}");
        }
    }
}
