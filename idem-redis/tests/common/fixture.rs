//! A fresh store for each case of the testkit's suite.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::key::{Key, Scope};
use idem_core::time::ManualClock;
use idem_redis::redis::cluster::ClusterClient;
use idem_redis::redis::{Client, cmd};
use idem_redis::{RedisStore, RedisStoreBuilder};
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::faults::proxy::Proxy;
use idem_testkit::fixture::{Connected, Fixture, SetupError, SteppedClock};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::server::Server;
use super::{fresh_namespace, variable};

/// Where a fixture's records are.
pub(crate) enum Home {
    /// A server of its own, of the binary that a variable names.
    Own(&'static str),
    /// A namespace on the servers that a variable names.
    Shared(&'static str),
}

/// Whose time judges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judge {
    /// The server's, as in production.
    Server,
    /// A clock of the test's, the same scripts otherwise.
    Test,
}

/// Runs the suite.
pub(crate) fn suite(name: &str, home: Home, judge: Judge) -> ExitCode {
    let capabilities = capabilities(&home, judge);
    let home = Arc::new(home);
    Conformance::new(name, capabilities, move || open(home.clone(), judge))
        .attaching(|address| async move {
            let (url, namespace) = address.split_once(' ').ok_or("an address of two words")?;
            let store = RedisStore::builder().namespace(namespace).connect(url).await?;
            Ok(Connected::admin(store))
        })
        .main()
}

fn capabilities(home: &Home, judge: Judge) -> Capabilities {
    let no_transaction = "Redis has no transaction of the user's own";
    let offered = Capabilities::none()
        .with(Capability::Isolated)
        .with(Capability::Admin)
        .with(Capability::Damage)
        .without(Capability::Transactions, no_transaction)
        .without(Capability::IndependentRecords, no_transaction);
    let offered = match judge {
        Judge::Test => offered
            .with(Capability::SteppedClock)
            .without(Capability::Processes, "another process has another clock"),
        Judge::Server => offered
            .without(Capability::SteppedClock, "the server's own clock judges")
            .with(Capability::Processes),
    };
    match home {
        Home::Own(_) => offered.with(Capability::Restart).with(Capability::NetworkFaults),
        Home::Shared(_) => offered
            .without(Capability::Restart, "other cases use the same servers")
            .without(Capability::NetworkFaults, "a Cluster names its nodes by itself"),
    }
}

async fn open(home: Arc<Home>, judge: Judge) -> Result<Fresh, SetupError> {
    let (url, server) = match *home {
        Home::Own(binary) => {
            let options = ["--appendonly", "yes", "--appendfsync", "always"];
            let server = Server::start(binary, &options).await;
            (server.url(), Some(Mutex::new(server)))
        }
        Home::Shared(name) => (variable(name), None),
    };
    let namespace = fresh_namespace();
    let builder = RedisStore::builder().namespace(&namespace);
    let clock = (judge == Judge::Test).then(|| Arc::new(ManualClock::new()));
    let builder = match &clock {
        None => builder,
        #[cfg(feature = "test-clock")]
        Some(clock) => builder.clock(clock.clone()),
        #[cfg(not(feature = "test-clock"))]
        Some(_) => return Err("the suite on a test's clock needs the feature test-clock".into()),
    };
    Ok(Fresh { url, namespace, builder, clock, server })
}

struct Fresh {
    url: String,
    namespace: String,
    builder: RedisStoreBuilder,
    clock: Option<Arc<ManualClock>>,
    server: Option<Mutex<Server>>,
}

impl Fresh {
    async fn connect_to(&self, url: &str) -> Result<Connected, SetupError> {
        Ok(Connected::admin(self.builder.clone().connect(url).await?))
    }
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        self.connect_to(&self.url).await
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        self.clock.clone().map(|clock| clock as Arc<dyn SteppedClock>)
    }

    async fn restart(&self) -> Result<(), SetupError> {
        let server = self.server.as_ref().ok_or("the server is not this fixture's own")?;
        let mut server = server.lock().await;
        server.kill();
        server.restart().await;
        Ok(())
    }

    async fn connect_through_proxy(&self) -> Result<(Connected, Proxy), SetupError> {
        let server = self.server.as_ref().ok_or("the server is not this fixture's own")?;
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, server.lock().await.port()));
        let proxy = Proxy::to(target).await?;
        // A call that gets no answer is given up while the case still waits for it.
        let builder = self.builder.clone().call_limit(Duration::from_secs(2));
        let store = builder.connect(&format!("redis://{}", proxy.address())).await?;
        Ok((Connected::admin(store), proxy))
    }

    /// Its owner is lost.
    async fn damage(&self, scope: &Scope, key: &Key) -> Result<(), SetupError> {
        let mut command = cmd("HDEL");
        command.arg(record_name(&self.namespace, scope, key)).arg("ow");
        let lost: i64 = match self.url.strip_prefix("redis-cluster://") {
            None => {
                let client = Client::open(self.url.as_str())?;
                let mut connection = client.get_multiplexed_async_connection().await?;
                command.query_async(&mut connection).await?
            }
            Some(nodes) => {
                let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
                let client = ClusterClient::new(nodes)?;
                command.query_async(&mut client.get_async_connection().await?).await?
            }
        };
        if lost == 1 { Ok(()) } else { Err("there is no such record".into()) }
    }

    fn address(&self) -> Option<String> {
        Some(format!("{} {}", self.url, self.namespace))
    }
}

/// What the layout calls a record, written down a second time.
fn record_name(namespace: &str, scope: &Scope, key: &Key) -> Vec<u8> {
    let mut identity = Vec::new();
    for &byte in scope.as_bytes() {
        identity.push(byte);
        if byte == 0 {
            identity.push(0xff);
        }
    }
    identity.extend_from_slice(&[0, 0]);
    identity.extend_from_slice(key.as_bytes());
    let partition = Sha256::digest(&identity)[0] % 64;
    let mut name = format!("{{{namespace}.{partition:02}}}r").into_bytes();
    name.extend_from_slice(&identity);
    name
}
