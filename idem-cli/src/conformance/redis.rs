//! The suite on Redis servers, each case in a namespace of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::admin::{Admin, Filter};
use idem_core::async_trait;
use idem_core::store::{MAX_PAGE, Store};
use idem_redis::RedisStore;
use idem_redis::redis::cluster::ClusterClient;
use idem_redis::redis::{Client, Cmd, cmd};
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
        for number in 0..count.load(Ordering::Relaxed) {
            let emptied = empty(&url, &format!("{run}-{number}")).await;
            emptied.map_err(|error| Failure::new(Exit::Setup, error))?;
        }
        Ok(())
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

/// Removes every record of a namespace, with them their indexes, and the note of its layout.
async fn empty(url: &str, namespace: &str) -> Result<(), SetupError> {
    let store = open(url, namespace).await?;
    while store.sweep(MAX_PAGE).await?.more {}
    loop {
        let page = store.list(&Filter::all(), None, MAX_PAGE).await?;
        for seen in &page.records {
            store.remove(&seen.record.fence()).await?;
        }
        if page.next.is_none() {
            break;
        }
    }
    let mut command = cmd("DEL");
    ask(url, command.arg(format!("{{{namespace}}}layout"))).await
}

async fn ask(url: &str, command: &Cmd) -> Result<(), SetupError> {
    let Some(nodes) = url.strip_prefix("redis-cluster://") else {
        let mut connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        return Ok(command.query_async(&mut connection).await?);
    };
    let (login, hosts) = nodes.rsplit_once('@').map_or(("", nodes), |(user, at)| (user, at));
    let at = if login.is_empty() { "" } else { "@" };
    let hosts = hosts.trim_end_matches('/').split(',');
    let client = ClusterClient::new(hosts.map(|host| format!("redis://{login}{at}{host}")))?;
    Ok(command.query_async(&mut client.get_async_connection().await?).await?)
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
