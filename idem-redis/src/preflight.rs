//! What the server's settings mean for what is trusted to it.

use std::collections::HashMap;

use idem_core::async_trait;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::preflight::{Finding, Preflight, Severity};
use redis::Value;

use crate::answer::{bytes, other_layout};
use crate::schema::LAYOUT;
use crate::store::RedisStore;

/// The oldest Redis whose scripts behave as these need.
const LEAST_VERSION: (u32, u32) = (7, 0);

#[async_trait]
impl Preflight for RedisStore {
    async fn preflight(&self) -> Result<Vec<Finding>, StoreError> {
        let mut findings = Vec::new();
        for info in ask_info(self).await? {
            findings.extend([
                info.version(),
                info.eviction(),
                info.role(),
                info.replicas(self.shared.settings.replicas.map(|wait| wait.replicas)),
                info.persistence(),
            ]);
        }
        findings.extend(fsync(self).await);
        findings.push(match self.layout(Verb::Preflight, false).await? {
            None => Finding::warning("layout", "nothing is stored yet", "run the migration"),
            Some(found) if found == LAYOUT.as_bytes() => Finding::ok("layout", LAYOUT),
            Some(_) => {
                Finding::problem("layout", "another layout", "use the release that wrote it")
            }
        });
        findings.dedup();
        Ok(findings)
    }
}

/// Refuses a server on which records may vanish, whose scripts are too old, or that is only a part
/// of a Cluster.
pub(crate) async fn refuse_unsafe(store: &RedisStore) -> Result<(), StoreError> {
    for info in ask_info(store).await? {
        if info.version().severity == Severity::Problem {
            let detail = "the server is older than Redis 7.0 or Valkey 7.2";
            return Err(StoreError::new(ErrorKind::WrongSchema, Verb::Open, detail));
        }
        if !store.shared.link.is_cluster() && info.get("redis_mode") == "cluster" {
            let detail = "this is a node of a Cluster: use redis-cluster://";
            return Err(StoreError::new(ErrorKind::WrongSchema, Verb::Open, detail));
        }
        if info.eviction().severity == Severity::Problem && !store.shared.settings.evicting_accepted
        {
            let detail = "the server may evict records: set maxmemory-policy to noeviction";
            return Err(StoreError::new(ErrorKind::WrongSchema, Verb::Open, detail));
        }
    }
    Ok(())
}

pub(crate) fn check_layout(verb: Verb, found: Option<Vec<u8>>) -> Result<(), StoreError> {
    match found {
        Some(found) if found == LAYOUT.as_bytes() => Ok(()),
        Some(_) => Err(other_layout(verb)),
        None => {
            let detail = "nothing was ever stored here under this namespace";
            Err(StoreError::new(ErrorKind::WrongSchema, verb, detail))
        }
    }
}

async fn ask_info(store: &RedisStore) -> Result<Vec<Info>, StoreError> {
    let answers = store.shared.link.ask_each(Verb::Preflight, &["INFO"]).await?;
    Ok(answers.into_iter().map(Info::of).collect())
}

/// How often the append-only file reaches the disk. Some hosts do not let it be asked.
async fn fsync(store: &RedisStore) -> Option<Finding> {
    let words = ["CONFIG", "GET", "appendfsync"];
    let answers = store.shared.link.ask_each(Verb::Preflight, &words).await.ok()?;
    let settings: Vec<String> = answers.into_iter().filter_map(last_text).collect();
    let worst = settings.iter().find(|setting| *setting != "always").or(settings.first())?.clone();
    Some(match worst.as_str() {
        "always" => Finding::ok("appendfsync", worst),
        _ => Finding::warning(
            "appendfsync",
            worst,
            "a crash of the machine can lose the last second or more of answers that were given; \
             'always' closes that at the price of one disk write for each",
        ),
    })
}

fn last_text(value: Value) -> Option<String> {
    let last = match value {
        Value::Map(pairs) => pairs.into_iter().next_back()?.1,
        Value::Array(values) => values.into_iter().next_back()?,
        other => other,
    };
    String::from_utf8(bytes(last)?).ok()
}

/// What one server says of itself.
struct Info(HashMap<String, String>);

impl Info {
    fn of(value: Value) -> Self {
        let text = match value {
            Value::VerbatimString { text, .. } => text,
            other => bytes(other).and_then(|text| String::from_utf8(text).ok()).unwrap_or_default(),
        };
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn version(&self) -> Finding {
        let version = self.get("redis_version").to_owned();
        let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let shown = match self.get("valkey_version") {
            "" => format!("Redis {version}"),
            valkey => format!("Valkey {valkey}"),
        };
        if found >= LEAST_VERSION {
            return Finding::ok("server-version", shown);
        }
        Finding::problem("server-version", shown, "use Redis 7.0, Valkey 7.2, or later")
    }

    fn eviction(&self) -> Finding {
        match self.get("maxmemory_policy") {
            "noeviction" => Finding::ok("maxmemory-policy", "noeviction"),
            "" => Finding::problem("maxmemory-policy", "unknown", "let this user run INFO"),
            policy => Finding::problem(
                "maxmemory-policy",
                policy.to_owned(),
                "a record that is evicted lets its operation run again; set it to noeviction",
            ),
        }
    }

    fn role(&self) -> Finding {
        match self.get("role") {
            "master" => Finding::ok("role", "primary"),
            role => Finding::problem("role", role.to_owned(), "connect to the primary"),
        }
    }

    fn replicas(&self, waited_for: Option<u32>) -> Finding {
        let connected: u32 = self.get("connected_slaves").parse().unwrap_or(0);
        let found = format!("{connected} connected");
        match waited_for {
            Some(wanted) if connected < wanted => Finding::problem(
                "replicas",
                found,
                "writes wait for more replicas than there are, so each of them will fail",
            ),
            Some(_) => Finding::ok("replicas", found),
            None if connected > 0 => Finding::warning(
                "replicas",
                found,
                "a failover loses what was not yet copied, and such an operation may run again; \
                 the wait for replicas narrows that",
            ),
            None => {
                Finding::warning("replicas", found, "the records are lost with this server's disk")
            }
        }
    }

    fn persistence(&self) -> Finding {
        let healthy = self.get("aof_last_write_status") != "err"
            && self.get("aof_last_bgrewrite_status") != "err";
        match self.get("aof_enabled") {
            "1" if healthy => Finding::ok("appendonly", "yes"),
            "1" => Finding::problem("appendonly", "failing", "look at the server's disk and log"),
            _ => Finding::warning(
                "appendonly",
                "no",
                "a restart loses every record since the last snapshot, or all of them",
            ),
        }
    }
}
