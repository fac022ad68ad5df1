//! The suite on Redis servers, each case in a namespace of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::admin::{Admin, Filter};
use idem_core::async_trait;
use idem_core::store::{MAX_PAGE, Store};
use idem_redis::redis::aio::MultiplexedConnection;
use idem_redis::redis::cluster::ClusterClient;
use idem_redis::redis::cluster_async::ClusterConnection;
use idem_redis::redis::{Client, RedisResult, cmd};
use idem_redis::{PARTITIONS, RedisStore};
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::fixture::{Connected, Fixture, SetupError};

use super::{Suite, fresh_name};
use crate::exit::{Exit, Failure};

/// A call that gets no answer is given up while its case still waits for it.
const CALL_LIMIT: Duration = Duration::from_secs(3);

pub(crate) async fn suite(url: String) -> Result<Suite, Failure> {
    let run = fresh_name("idem-conformance-");
    let count = Arc::new(AtomicU64::new(0));
    let (counting, server, prefix) = (count.clone(), url.clone(), run.clone());
    let fresh = move || {
        let number = counting.fetch_add(1, Ordering::Relaxed);
        let fresh = Fresh { url: server.clone(), namespace: format!("{prefix}-{number}") };
        async { Ok(fresh) }
    };
    let conformance = Conformance::new("redis", capabilities(), fresh);
    let clean_up = async move {
        let emptied = empty_all(&url, &run, count.load(Ordering::Relaxed)).await;
        emptied.map_err(|error| Failure::new(Exit::Setup, error))
    };
    Ok(Suite { conformance, clean_up: Box::pin(clean_up) })
}

fn capabilities() -> Capabilities {
    let no_transaction = "Redis has no transaction of the user's own";
    Capabilities::none()
        .with(Capability::Isolated)
        .with(Capability::Admin)
        .with(Capability::Processes)
        .without(Capability::SteppedClock, "the server's own clock judges")
        .without(Capability::Transactions, no_transaction)
        .without(Capability::IndependentRecords, no_transaction)
        .without(Capability::Restart, "the server is not this command's own")
        .without(Capability::NetworkFaults, "the way to the server is not this command's own")
        .without(Capability::Damage, "what is damaged could not be removed by the store's verbs")
}

/// What stands for this store's data in another process.
pub(super) async fn attach(address: &str) -> Result<Connected, SetupError> {
    let (namespace, url) = address.split_once(' ').ok_or("an address of two words")?;
    Ok(Connected::admin(open(url, namespace).await?))
}

async fn open(url: &str, namespace: &str) -> Result<RedisStore, SetupError> {
    let builder = RedisStore::builder().namespace(namespace).call_limit(CALL_LIMIT);
    Ok(builder.connect(url).await?)
}

/// Empties the namespaces of a run, by what the store itself offers, and deletes the two sorts of
/// keys that outlive their records: the note of the layout and the count of lives.
async fn empty_all(url: &str, run: &str, count: u64) -> Result<(), SetupError> {
    let mut plain = Plain::connect(url).await?;
    for number in 0..count {
        let namespace = format!("{run}-{number}");
        remove_records(&open(url, &namespace).await?).await?;
        plain.delete(&format!("{{{namespace}}}layout")).await?;
        for partition in 0..PARTITIONS {
            plain.delete(&format!("{{{namespace}.{partition:02}}}n")).await?;
        }
    }
    Ok(())
}

async fn remove_records(store: &RedisStore) -> Result<(), SetupError> {
    while store.sweep(MAX_PAGE).await?.more {}
    loop {
        let page = store.list(&Filter::all(), None, MAX_PAGE).await?;
        for seen in &page.records {
            store.remove(&seen.record.fence()).await?;
        }
        if page.next.is_none() {
            return Ok(());
        }
    }
}

/// A connection that knows nothing of the store.
enum Plain {
    Server(MultiplexedConnection),
    Cluster(Box<ClusterConnection>),
}

impl Plain {
    async fn connect(url: &str) -> Result<Self, SetupError> {
        let Some(rest) = url.strip_prefix("redis-cluster://") else {
            return Ok(Self::Server(Client::open(url)?.get_multiplexed_async_connection().await?));
        };
        let (login, hosts) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
        let hosts = hosts.trim_end_matches('/').split(',');
        let nodes = hosts.map(|host| format!("redis://{login}{host}"));
        let client = ClusterClient::new(nodes)?;
        Ok(Self::Cluster(Box::new(client.get_async_connection().await?)))
    }

    async fn delete(&mut self, name: &str) -> Result<(), SetupError> {
        let mut command = cmd("DEL");
        command.arg(name);
        let deleted: RedisResult<()> = match self {
            Self::Server(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(&mut **connection).await,
        };
        Ok(deleted?)
    }
}

struct Fresh {
    url: String,
    namespace: String,
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        Ok(Connected::admin(open(&self.url, &self.namespace).await?))
    }

    fn address(&self) -> Option<String> {
        Some(format!("redis {} {}", self.namespace, self.url))
    }
}
