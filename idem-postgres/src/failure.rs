//! The driver's errors, sorted by what the caller may do about them (R9).

use std::fmt;

use idem_core::error::{ErrorKind, StoreError, Verb};
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// Where a call stood when it failed: it decides what an unanswered call may have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing was sent.
    Connecting,
    /// Sent, and it writes nothing.
    Reading,
    /// Sent, inside an open transaction: not committed.
    Inside,
    /// Sent, and it commits by itself; or the commit itself.
    Committing,
}

/// Why a statement failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A concurrent transaction was in the way, and the server rolled this one back.
    Conflict(StoreError),
    /// A lock was not to be had within the bound, and the server rolled the statement back.
    Locked(StoreError),
    /// Anything else.
    Other(StoreError),
}

impl Fault {
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Conflict(error) | Self::Locked(error) | Self::Other(error) => error,
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

/// Sorts an error of the driver.
pub(crate) fn fault(verb: Verb, stage: Stage, error: sqlx::Error) -> Fault {
    let Some(code) = code(&error) else {
        return Fault::Other(broken(verb, stage, error));
    };
    let failed = |kind, detail: &'static str| {
        StoreError::new(kind, verb, detail).with_source(SqlState(code.clone()))
    };
    match code.as_str() {
        "40001" | "40P01" => {
            let detail = "a concurrent transaction was in the way; nothing was written";
            Fault::Conflict(failed(ErrorKind::NotApplied, detail))
        }
        "55P03" => {
            let detail = "a lock was not to be had in time; nothing was written";
            Fault::Locked(failed(ErrorKind::NotApplied, detail))
        }
        code => {
            let (kind, detail) = meaning(code, stage, ends_session(&error));
            Fault::Other(failed(kind, detail))
        }
    }
}

/// An error that nothing is retried about.
pub(crate) fn error(verb: Verb, stage: Stage, error: sqlx::Error) -> StoreError {
    fault(verb, stage, error).into_error()
}

/// `ends_session` is whether the server ended the session with this error: then nobody says
/// whether a commit that was under way had reached the log.
fn meaning(code: &str, stage: Stage, ends_session: bool) -> (ErrorKind, &'static str) {
    let unanswered = match stage {
        Stage::Committing => ErrorKind::OutcomeUnknown,
        _ => ErrorKind::NotApplied,
    };
    match code {
        "53100" if ends_session => (unanswered, "the server's disk is full, and it stopped"),
        "53100" => (ErrorKind::StoreFull, "the server's disk is full"),
        "42P01" | "42703" | "3F000" | "42883" | "42804" => {
            (ErrorKind::WrongSchema, "the tables are not those of this build: migrate the database")
        }
        "42501" => (ErrorKind::WrongSchema, "the role may not use the tables"),
        "3D000" => (ErrorKind::WrongSchema, "the database does not exist"),
        "28000" | "28P01" => (ErrorKind::WrongSchema, "the server refused the user or password"),
        "25006" => (ErrorKind::NotApplied, "the server is read only: a standby, or so set"),
        "25P02" => (ErrorKind::NotApplied, "an earlier statement of the transaction failed"),
        // Both are sent to a session that waits for its client: a statement that came later was
        // not run.
        "25P03" => (ErrorKind::NotApplied, "the transaction was idle for too long"),
        "57P05" => (ErrorKind::NotApplied, "the session was idle for too long"),
        "26000" | "42P05" | "08P01" if stage != Stage::Committing => (
            ErrorKind::NotApplied,
            "the server lost the prepared statement: behind a transaction-pooling proxy set \
                 `behind_transaction_pooler`, or `pgbouncer=true` in the URL",
        ),
        // The statement was not run: it is not there on this server.
        "26000" | "42P05" => (
            ErrorKind::NotApplied,
            "the server does not know the prepared statement: behind a transaction-pooling proxy \
             set `behind_transaction_pooler`, or `pgbouncer=true` in the URL",
        ),
        // The answer never came, though the commit may have been made.
        "57P01" | "57P02" | "40003" => (unanswered, "the server was stopped"),
        "57P03" => (ErrorKind::NotApplied, "the server is starting or stopping"),
        "57014" => (ErrorKind::NotApplied, "the server cancelled the statement: it took too long"),
        "53300" => (ErrorKind::NotApplied, "the server has no connection left"),
        code if code.starts_with("08") => (unanswered, "the connection to the server broke"),
        _ if ends_session => (unanswered, "the server ended the session"),
        _ => (ErrorKind::NotApplied, "the server refused the statement"),
    }
}

/// An error that is not the server's answer.
fn broken(verb: Verb, stage: Stage, error: sqlx::Error) -> StoreError {
    let kind = match (stage, &error) {
        (_, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed) => ErrorKind::NotApplied,
        (Stage::Connecting, sqlx::Error::Tls(_)) => ErrorKind::WrongSchema,
        (Stage::Connecting, sqlx::Error::Configuration(_)) => ErrorKind::InvalidInput,
        (Stage::Committing, _) => ErrorKind::OutcomeUnknown,
        _ => ErrorKind::NotApplied,
    };
    let detail = match (&error, stage) {
        (sqlx::Error::PoolTimedOut, _) => "no connection was to be had in time",
        (sqlx::Error::Tls(_), Stage::Connecting) => {
            "TLS is asked for and failed: a feature of sqlx has to be turned on for it, or the \
             server has none"
        }
        (sqlx::Error::Configuration(_), Stage::Connecting) => {
            "the connection's settings cannot be used"
        }
        (sqlx::Error::PoolClosed, _) => "the pool is closed",
        (_, Stage::Connecting) => "the server could not be reached",
        _ => "the connection to the server broke",
    };
    let failed = StoreError::new(kind, verb, detail);
    // Other errors of the driver may show what was sent.
    match error {
        sqlx::Error::Io(source) => failed.with_source(source),
        _ => failed,
    }
}

/// Whether a connection is of no use after this error, although it is open: at its other end is a
/// server that takes no writes (what was the primary, after a failover that moved its name), or one
/// that does not know what the driver takes for prepared.
pub(crate) fn leaves_stale(error: &sqlx::Error) -> bool {
    matches!(code(error).as_deref(), Some("25006" | "26000" | "42P05" | "0A000"))
}

fn ends_session(error: &sqlx::Error) -> bool {
    let answer = error.as_database_error().and_then(|it| it.try_downcast_ref::<PgDatabaseError>());
    answer.is_some_and(|it| matches!(it.severity(), PgSeverity::Fatal | PgSeverity::Panic))
}

fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

/// The server's code for what went wrong. Its message can show keys, so it is not kept (R24).
#[derive(Debug)]
struct SqlState(String);

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SQLSTATE {}", self.0)
    }
}

impl std::error::Error for SqlState {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_answered_is_unknown_only_where_it_may_have_been_committed() {
        let broken = || sqlx::Error::Io(std::io::Error::other("reset"));
        for (stage, kind) in [
            (Stage::Connecting, ErrorKind::NotApplied),
            (Stage::Reading, ErrorKind::NotApplied),
            (Stage::Inside, ErrorKind::NotApplied),
            (Stage::Committing, ErrorKind::OutcomeUnknown),
        ] {
            assert_eq!(error(Verb::Claim, stage, broken()).kind(), kind, "{stage:?}");
            for (code, ends_session) in [
                ("57P01", true),
                ("08006", false),
                ("53100", true),
                ("XX000", true),
                ("25P04", true),
            ] {
                assert_eq!(meaning(code, stage, ends_session).0, kind, "{code} {stage:?}");
            }
            for code in ["25P03", "57P05", "57014", "XX000"] {
                let ends_session = code.ends_with('3') || code.ends_with('5');
                let (kind, _) = meaning(code, stage, ends_session);
                assert_eq!(kind, ErrorKind::NotApplied, "{code} {stage:?}");
            }
        }
        assert_eq!(meaning("53100", Stage::Committing, false).0, ErrorKind::StoreFull);
    }
}
