//! How a store is set up, and what a URL says.

use std::fmt;
use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError, Verb};

/// The most bytes of one reply, input or recovery point. A server refuses a value of more than
/// 512 MiB by closing the connection, which would look like an unknown outcome.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024 * 1024;

/// The most bytes of a namespace.
pub const MAX_NAMESPACE_BYTES: usize = 64;

/// Settings of a [`RedisStore`](crate::RedisStore).
///
/// ```
/// use std::time::Duration;
/// use idem_redis::RedisConfig;
///
/// let config = RedisConfig::new()
///     .namespace("payments")?
///     .wait_for_replicas(1, Duration::from_millis(500));
/// # Ok::<(), idem_redis::idem_core::error::StoreError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RedisConfig {
    pub(crate) namespace: String,
    pub(crate) operation_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) replicas: Option<ReplicaWait>,
    pub(crate) evicting_allowed: bool,
    #[cfg(feature = "test-clock")]
    pub(crate) clock: Option<std::sync::Arc<dyn idem_core::time::Clock>>,
}

/// How many replicas must have a write before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaWait {
    /// At least this many.
    pub replicas: u32,
    /// Waited for no longer than this; then the outcome of the write is unknown.
    pub timeout: Duration,
}

impl RedisConfig {
    /// Namespace `idem`, calls of at most 5 seconds, connecting within 2, one connection, no wait
    /// for replicas, no evicting server.
    pub fn new() -> Self {
        Self {
            namespace: "idem".to_owned(),
            operation_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            connections: 1,
            replicas: None,
            evicting_allowed: false,
            #[cfg(feature = "test-clock")]
            clock: None,
        }
    }

    /// Keeps the records of this store apart from others on the same server. Every key of the
    /// store starts with `{NAMESPACE.PARTITION}`.
    ///
    /// # Errors
    /// `InvalidInput` unless it is 1 to 64 ASCII letters, digits, `-` or `_`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Result<Self, StoreError> {
        let namespace = namespace.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !(1..=MAX_NAMESPACE_BYTES).contains(&namespace.len()) || !namespace.bytes().all(allowed)
        {
            return Err(refused("a namespace is 1 to 64 ASCII letters, digits, '-' or '_'"));
        }
        self.namespace = namespace;
        Ok(self)
    }

    /// The longest that one call to the server may take, waiting for a connection included. After
    /// that a read is *not applied*, a write is *outcome unknown*. From 1 ms.
    #[must_use]
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// The longest that one attempt to connect may take.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// How many connections are opened to one server, from 1. Calls share them; more than one
    /// helps where replicas are waited for, since a wait holds up what comes behind it on its
    /// connection. A Cluster has one connection to each node.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, 64);
        self
    }

    /// Waits after each write until so many replicas have it, and fails closed: a write that too
    /// few have acknowledged in time is *outcome unknown*. This narrows what a failover can lose
    /// and does not rule it out; docs/redis.md says what is left.
    ///
    /// Opens 8 connections unless told otherwise later.
    #[must_use]
    pub fn wait_for_replicas(mut self, replicas: u32, timeout: Duration) -> Self {
        let timeout = timeout.max(Duration::from_millis(1));
        self.replicas = (replicas > 0).then_some(ReplicaWait { replicas, timeout });
        self.connections = self.connections.max(8);
        self
    }

    /// **For tests only.** Lets a clock of the test judge leases and expiry in place of the
    /// server's, and leaves out the server's own expiry. Two callers with clocks that differ would
    /// both win a claim.
    #[cfg(feature = "test-clock")]
    #[must_use]
    pub fn judged_by_the_clock_of_a_test(mut self, clock: impl idem_core::time::Clock) -> Self {
        self.clock = Some(std::sync::Arc::new(clock));
        self
    }

    /// Works on a server that may evict records too. A lost record lets its operation run again:
    /// only for what may be done twice.
    #[must_use]
    pub fn accept_lost_records_on_an_evicting_server(mut self) -> Self {
        self.evicting_allowed = true;
        self
    }
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the server is. `Debug` shows no password.
#[derive(Clone)]
pub(crate) enum Target {
    /// One server, or what stands in front of it.
    Single(String),
    /// Some nodes of a Cluster.
    Cluster(Vec<String>),
}

impl Target {
    /// Reads `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `unix:` paths as the driver takes
    /// them, or `redis-cluster://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]`.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        if url.starts_with("redis://") || url.starts_with("redis+unix://") {
            return Ok(Self::Single(url.to_owned()));
        }
        if url.starts_with("rediss://") || url.starts_with("rediss-cluster://") {
            return Err(refused("TLS is not built in: pass a connection of your own"));
        }
        let Some(rest) = url.strip_prefix("redis-cluster://") else {
            return Err(refused("the URL starts with neither redis:// nor redis-cluster://"));
        };
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), rest),
        };
        let nodes: Vec<String> = hosts
            .trim_end_matches('/')
            .split(',')
            .map(|host| format!("redis://{login}{host}"))
            .collect();
        if nodes.iter().any(|node| node.ends_with('@') || node.ends_with("//")) {
            return Err(refused("the URL names no node"));
        }
        Ok(Self::Cluster(nodes))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(_) => f.write_str("Single"),
            Self::Cluster(nodes) => write!(f, "Cluster({} nodes)", nodes.len()),
        }
    }
}

/// A URL and settings that cannot be used, found before anything is sent.
fn refused(detail: &'static str) -> StoreError {
    StoreError::new(ErrorKind::InvalidInput, Verb::Open, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_cannot_steer_the_slot() {
        for bad in ["", "a}b", "{a", "a b", "a.b", &"n".repeat(65)] {
            let error = RedisConfig::new().namespace(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
        }
        assert_eq!(RedisConfig::new().namespace("a-B_9").unwrap().namespace, "a-B_9");
    }

    #[test]
    fn a_cluster_url_names_its_nodes_and_shares_its_login() {
        let Target::Cluster(nodes) = Target::parse("redis-cluster://u:p@a:1,b:2").unwrap() else {
            panic!("not a Cluster");
        };
        assert_eq!(nodes, ["redis://u:p@a:1", "redis://u:p@b:2"]);
        for bad in ["redis-cluster://", "redis-cluster://u:p@", "rediss://a", "http://a", ""] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_shows_no_password() {
        let shown = format!("{:?}", Target::parse("redis://u:secret@a").unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
