//! The driver's errors, sorted by what the caller may do about them (R9).

use std::fmt;

use idem_core::error::{ErrorKind, StoreError, Verb};
use mysql_async::{DriverError, Error};

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
    /// A concurrent transaction was in the way, and the server rolled this one back, whole.
    Conflict(StoreError),
    /// A lock was not to be had within the bound; the server took back the statement alone.
    Locked(StoreError),
    /// The row is there already.
    Duplicate(StoreError),
    /// The savepoint is not there: the transaction is not the one that was begun.
    NoSavepoint(StoreError),
    /// Anything else.
    Other(StoreError),
}

impl Fault {
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Conflict(error)
            | Self::Locked(error)
            | Self::Duplicate(error)
            | Self::NoSavepoint(error)
            | Self::Other(error) => error,
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

/// Sorts an error of the driver.
pub(crate) fn fault(verb: Verb, stage: Stage, error: Error) -> Fault {
    let Error::Server(server) = &error else {
        return Fault::Other(broken(verb, stage, error));
    };
    let failed = |kind, detail: &'static str| {
        StoreError::new(kind, verb, detail).with_source(ServerCode(server.code))
    };
    match server.code {
        // A deadlock; a row changed since the snapshot.
        1213 | 1020 => {
            let detail = "a concurrent transaction was in the way; nothing was written";
            Fault::Conflict(failed(ErrorKind::NotApplied, detail))
        }
        1205 | 3572 => {
            let detail = "a lock was not to be had in time; nothing was written";
            Fault::Locked(failed(ErrorKind::NotApplied, detail))
        }
        1062 => Fault::Duplicate(failed(ErrorKind::NotApplied, "the row is there already")),
        1305 => Fault::NoSavepoint(failed(ErrorKind::NotApplied, "there is no such savepoint")),
        // The storage engine passes on what the operating system said; 28 is "no space left".
        1030 | 1026 if is_disk_full(&server.message) => {
            Fault::Other(failed(ErrorKind::StoreFull, "the server's disk is full"))
        }
        code => {
            let (kind, detail) = meaning(code, stage);
            Fault::Other(failed(kind, detail))
        }
    }
}

/// An error that nothing is retried about.
pub(crate) fn error(verb: Verb, stage: Stage, error: Error) -> StoreError {
    fault(verb, stage, error).into_error()
}

fn meaning(code: u16, stage: Stage) -> (ErrorKind, &'static str) {
    let unanswered = match stage {
        Stage::Committing => ErrorKind::OutcomeUnknown,
        _ => ErrorKind::NotApplied,
    };
    match code {
        1021 | 1114 => (ErrorKind::StoreFull, "the server's disk or table space is full"),
        1146 | 1054 | 1364 | 1136 | 3819 | 4025 => {
            (ErrorKind::WrongSchema, "the tables are not those of this build: migrate the database")
        }
        1049 | 1046 => (ErrorKind::WrongSchema, "the database does not exist, or none is named"),
        1044 | 1142 | 1143 | 1227 => (ErrorKind::WrongSchema, "the user may not use the tables"),
        1045 | 1698 => (ErrorKind::WrongSchema, "the server refused the user or password"),
        1665 => (
            ErrorKind::WrongSchema,
            "the server's binlog_format is STATEMENT, which takes no write under READ COMMITTED: \
             set it to ROW",
        ),
        1153 | 1301 | 1406 | 1118 => {
            (ErrorKind::InvalidInput, "a value is larger than the server takes")
        }
        1290 | 1792 | 1836 => {
            (ErrorKind::NotApplied, "the server is read only: a replica, or so set")
        }
        1040 | 1203 | 1226 => (ErrorKind::NotApplied, "the server has no connection left"),
        1047 => (ErrorKind::NotApplied, "the node is not part of its cluster's majority"),
        // The statement was not run: it cannot be parsed, or a value or a constraint forbids it.
        1048 | 1064 | 1264 | 1292 | 1366 | 1451 | 1452 | 3100 | 3101 => {
            (ErrorKind::NotApplied, "the server refused the statement")
        }
        // The answer may have been lost between the write and its acknowledgement.
        1053 | 1077 | 1079 | 1152 | 1180 | 1184 | 1317 | 1927 | 1969 | 3024 => {
            (unanswered, "the server ended the statement or the connection")
        }
        // Proxies tell a lost server with numbers of their own (2006, 2013, 9001 and others), and
        // a write error can come after the write.
        _ => (unanswered, "the server, or a proxy before it, reported an error"),
    }
}

fn is_disk_full(message: &str) -> bool {
    ["error 28 ", "errno: 28 "].iter().any(|text| message.contains(text))
}

/// An error that is not the server's answer.
fn broken(verb: Verb, stage: Stage, error: Error) -> StoreError {
    let kind = match (stage, &error) {
        (_, Error::Driver(DriverError::PoolDisconnected)) => ErrorKind::NotApplied,
        // The driver refused it before anything was sent.
        (_, Error::Driver(DriverError::PacketTooLarge)) => ErrorKind::InvalidInput,
        (Stage::Committing, _) => ErrorKind::OutcomeUnknown,
        _ => ErrorKind::NotApplied,
    };
    let detail = match (&error, stage) {
        (Error::Driver(DriverError::PoolDisconnected), _) => "the pool is closed",
        (Error::Driver(DriverError::PacketTooLarge), _) => {
            "a value is larger than the server takes"
        }
        (_, Stage::Connecting) => "the server could not be reached",
        _ => "the connection to the server broke",
    };
    let failed = StoreError::new(kind, verb, detail);
    // Other errors of the driver may show what was sent.
    match error {
        Error::Io(source) => failed.with_source(source),
        _ => failed,
    }
}

/// The server's number for what went wrong. Its message can show keys, so it is not kept (R24).
#[derive(Debug)]
struct ServerCode(u16);

impl fmt::Display for ServerCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server error {}", self.0)
    }
}

impl std::error::Error for ServerCode {}

#[cfg(test)]
mod tests {
    use mysql_async::{IoError, ServerError};

    use super::*;

    fn server(code: u16, message: &str) -> Error {
        Error::Server(ServerError { code, message: message.to_owned(), state: "HY000".to_owned() })
    }

    #[test]
    fn what_was_not_answered_is_unknown_only_where_it_may_have_been_committed() {
        let broken = || Error::Io(IoError::Io(std::io::Error::other("reset")));
        for (stage, kind) in [
            (Stage::Connecting, ErrorKind::NotApplied),
            (Stage::Reading, ErrorKind::NotApplied),
            (Stage::Inside, ErrorKind::NotApplied),
            (Stage::Committing, ErrorKind::OutcomeUnknown),
        ] {
            assert_eq!(error(Verb::Claim, stage, broken()).kind(), kind, "{stage:?}");
            assert_eq!(error(Verb::Claim, stage, server(1317, "")).kind(), kind, "{stage:?}");
        }
    }

    #[test]
    fn each_sort_of_failure_is_told_as_what_it_is() {
        let of = |code, message| fault(Verb::Claim, Stage::Committing, server(code, message));
        assert!(matches!(of(1213, ""), Fault::Conflict(_)));
        assert!(matches!(of(1020, ""), Fault::Conflict(_)));
        assert!(matches!(of(1205, ""), Fault::Locked(_)));
        assert!(matches!(of(1062, ""), Fault::Duplicate(_)));
        assert!(matches!(of(1305, ""), Fault::NoSavepoint(_)));
        let kind = |code, message| of(code, message).into_error().kind();
        assert_eq!(kind(1030, "Got error 28 from storage engine"), ErrorKind::StoreFull);
        assert_eq!(kind(1026, "Error writing file 'x' (errno: 28 \"full\")"), ErrorKind::StoreFull);
        assert_eq!(kind(1026, "Error writing file 'x' (errno: 128)"), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(2013, "Lost connection to MySQL server"), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(1064, ""), ErrorKind::NotApplied);
        assert_eq!(kind(1114, ""), ErrorKind::StoreFull);
        assert_eq!(kind(1146, ""), ErrorKind::WrongSchema);
        assert_eq!(kind(1290, ""), ErrorKind::NotApplied);
    }

    #[test]
    fn a_message_of_the_server_is_not_repeated() {
        let failed = error(Verb::Claim, Stage::Inside, server(1062, "Duplicate entry 'hunter2'"));
        let source = std::error::Error::source(&failed).unwrap();
        assert!(!format!("{failed} {failed:?} {source} {source:?}").contains("hunter2"));
    }
}
