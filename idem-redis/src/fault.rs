//! What the driver and the server say, as kinds that callers act on (R9).

use idem_core::error::{ErrorKind, StoreError, Verb};
use redis::{ErrorKind as Driver, RedisError, ServerErrorKind};

/// What is known of a call that failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    /// Whether it may have written.
    pub(crate) writes: bool,
    /// Whether the driver may have sent it more than once: an error then says something of the
    /// last copy only.
    pub(crate) resent: bool,
}

impl Call {
    /// The error of a call that was given up.
    pub(crate) fn timed_out(self) -> StoreError {
        self.unanswered("the server did not answer in time")
    }

    /// Nobody knows whether it was applied; what only reads was not.
    pub(crate) fn unanswered(self, detail: &'static str) -> StoreError {
        let kind = if self.writes { ErrorKind::OutcomeUnknown } else { ErrorKind::NotApplied };
        StoreError::new(kind, self.verb, detail)
    }

    /// Nothing was done, as far as the last copy goes.
    fn turned_away(self, detail: &'static str) -> StoreError {
        if self.resent {
            return self.unanswered(detail);
        }
        StoreError::new(ErrorKind::NotApplied, self.verb, detail)
    }

    /// The driver's error. A server's text may repeat what it was sent, so none of it is kept
    /// (R24).
    pub(crate) fn failed(self, error: RedisError) -> StoreError {
        // Every kind but the unknown outcome says that nothing was written.
        let kept = |kind, detail: &'static str| match self.resent && self.writes {
            true => self.unanswered(detail),
            false => StoreError::new(kind, self.verb, detail),
        };
        match (error.kind(), error.code()) {
            (_, Some("OOM")) => kept(ErrorKind::StoreFull, "the server is out of memory"),
            (_, Some("WRONGTYPE")) => {
                kept(ErrorKind::CorruptRecord, "a key of the store holds something else")
            }
            (Driver::Server(ServerErrorKind::NoPerm), _) | (_, Some("NOAUTH" | "WRONGPASS")) => {
                kept(ErrorKind::WrongSchema, "the server's access rules forbid a command")
            }
            (Driver::AuthenticationFailed, _) => {
                kept(ErrorKind::WrongSchema, "the server refused the login")
            }
            (Driver::InvalidClientConfig | Driver::EmptySentinelList, _) => {
                kept(ErrorKind::InvalidInput, "the connection's settings cannot be used")
            }
            (Driver::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot), _)
                if !self.resent =>
            {
                kept(ErrorKind::WrongSchema, "this is a node of a Cluster: use redis-cluster://")
            }
            (_, Some("ERR")) if self.verb == Verb::Open && !self.writes => {
                kept(ErrorKind::WrongSchema, "the server refused the URL's database or login")
            }
            (_, Some(code)) => match turned_away(code) {
                Some(detail) => self.turned_away(detail),
                None => self.unanswered("the server reported an error"),
            },
            _ if error.is_connection_refusal() => {
                self.turned_away("no connection to the server").with_source(error)
            }
            (Driver::Io, _) if self.verb == Verb::Open && !self.writes => {
                self.unanswered("no connection to the server").with_source(error)
            }
            (Driver::Io, _) => self.unanswered("the connection broke").with_source(error),
            _ => self.unanswered("the driver reported an error"),
        }
    }
}

/// Codes of a server that refused to run the command or its first write.
fn turned_away(code: &str) -> Option<&'static str> {
    Some(match code {
        "READONLY" => "this server is a replica",
        "LOADING" => "the server is loading its data",
        "MISCONF" => "the server cannot write to its disk, and refuses writes",
        "NOREPLICAS" => "the server has too few replicas, and refuses writes",
        "BUSY" => "the server runs a script that takes long",
        "NOSCRIPT" => "the server lost a script",
        "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "ASK" | "MOVED" => {
            "the server cannot serve this key at the moment"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: &str, call: Call) -> ErrorKind {
        let error = redis::make_extension_error(code.to_owned(), Some("secret".to_owned()));
        let error = call.failed(error);
        assert!(!format!("{error} {error:?}").contains("secret"));
        error.kind()
    }

    #[test]
    fn a_call_that_was_resent_is_never_known_not_to_be_applied() {
        let once = Call { verb: Verb::Claim, writes: true, resent: false };
        let again = Call { resent: true, ..once };
        let read = Call { writes: false, ..again };
        for (code, kind) in [
            ("MISCONF", ErrorKind::NotApplied),
            ("NOREPLICAS", ErrorKind::NotApplied),
            ("BUSY", ErrorKind::NotApplied),
            ("OOM", ErrorKind::StoreFull),
            ("WRONGTYPE", ErrorKind::CorruptRecord),
            ("NOAUTH", ErrorKind::WrongSchema),
        ] {
            assert_eq!(answered(code, once), kind, "{code}");
            assert_eq!(answered(code, again), ErrorKind::OutcomeUnknown, "{code}");
            assert_eq!(answered(code, read), kind, "{code}");
        }
        assert_eq!(answered("ERR", once), ErrorKind::OutcomeUnknown);
    }

    #[test]
    fn only_a_refused_connection_is_known_not_to_be_applied() {
        use std::io;
        let call = Call { verb: Verb::Claim, writes: true, resent: false };
        let of = |kind| call.failed(RedisError::from(io::Error::from(kind))).kind();
        assert_eq!(of(io::ErrorKind::ConnectionRefused), ErrorKind::NotApplied);
        assert_eq!(of(io::ErrorKind::ConnectionReset), ErrorKind::OutcomeUnknown);
        assert_eq!(of(io::ErrorKind::TimedOut), ErrorKind::OutcomeUnknown);
        // A name that nobody has, say: there was no connection that could break.
        let opening = Call { verb: Verb::Open, writes: false, resent: false };
        let error = opening.failed(RedisError::from(io::Error::other("no such host")));
        assert_eq!(error.to_string(), "open: no connection to the server (not-applied)");
    }
}
