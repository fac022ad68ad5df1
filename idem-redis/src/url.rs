//! Where the server is, by URL.

use std::fmt;

use idem_core::error::StoreError;

use crate::config::invalid;

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
            return Err(invalid("TLS is not built in: pass a connection of your own"));
        }
        let Some(rest) = url.strip_prefix("redis-cluster://") else {
            return Err(invalid("the URL starts with neither redis:// nor redis-cluster://"));
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
            return Err(invalid("the URL names no node"));
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

#[cfg(test)]
mod tests {
    use super::*;

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
