//! What the chapters play on: one store, one card network that outlives the servers, and a caller
//! of its own for each chapter.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_core::admin::Admin;
use idem_core::key::Key;
use idem_core::record::{Fence, Incarnation, Observed, Owner, State};
use tempfile::TempDir;

use super::server::Server;
use crate::backends::{self, Intent};
use crate::exit::{Exit, Failure};
use crate::network::{CardNetwork, Change, ControlState, LedgerView, NetworkProcess};
use crate::serve::Caller;
use crate::wire::{Answer, Request, WireError};

/// How long anything may take. Nothing is expected to take so long.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The lease of the demo's servers: short, so that nobody waits long for a takeover.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// Between two looks at something that another process does.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long a write takes that nothing stands in the way of.
const AT_ONCE: Duration = Duration::from_millis(500);
/// How long the card network may take to finish its calls at the end.
const NETWORK_STOP_LIMIT: Duration = Duration::from_secs(5);

/// The stage of the whole tour.
pub(super) struct Stage {
    store_url: String,
    store: Arc<dyn Admin>,
    network: NetworkProcess,
    network_address: SocketAddr,
    client: CardNetwork,
    folder: TempDir,
    run: String,
}

/// A caller with a key.
pub(super) struct Account {
    token: String,
    caller: Caller,
    key: String,
}

impl Stage {
    /// Sets the stage: on the store behind `url`, or on SQLite in a folder that is deleted at the
    /// end.
    pub(super) async fn set(url: Option<&str>) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("idem-demo-").tempdir().map_err(setup)?;
        let own = || format!("sqlite:{}", folder.path().join("idem.db").display());
        let store_url = url.map_or_else(own, str::to_owned);
        let store = backends::open(&store_url, Intent::Serve).await?.store;
        let network =
            NetworkProcess::start(&folder.path().join("ledger.jsonl")).await.map_err(setup)?;
        let network_address = network
            .url()
            .strip_prefix("http://")
            .and_then(|address| address.parse().ok())
            .ok_or_else(|| setup("the card network's address cannot be read"))?;
        let client = CardNetwork::new(network.url(), PATIENCE).map_err(setup)?;
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(setup)?;
        let run = format!("{:08x}", u32::from_be_bytes(random));
        Ok(Self { store_url, store, network, network_address, client, folder, run })
    }

    /// Starts a server on this store and this network.
    pub(super) async fn server(&self, more: &[&str]) -> Result<Server, Failure> {
        let lease = format!("{}ms", LEASE.as_millis());
        let mut args = vec!["--network", self.network.url(), "--lease", &lease];
        args.extend(more);
        Server::start(&self.store_url, &args).await
    }

    /// A caller with a key, both new in this run.
    pub(super) fn account(&self, name: &str) -> Account {
        let token = format!("sk_demo_{}_{name}", self.run);
        let caller = Caller::with_token(token.as_bytes()).expect("it is not empty");
        Account { token, caller, key: format!("{name}-{}", self.run) }
    }

    /// A path in the demo's folder where nothing is yet.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the card network's ledger holds for this caller.
    pub(super) async fn ledger(&self, account: &Account) -> Result<LedgerView, Failure> {
        self.client.ledger(Some(account.caller.name()), 0).await.map_err(setup)
    }

    /// The record of this caller's key, as it stands in the store.
    pub(super) async fn record(&self, account: &Account) -> Result<Seen, Failure> {
        let key = Key::new(&account.key).map_err(setup)?;
        let found = self.store.get(&account.caller.scope(), &key).await;
        found.map(Seen).map_err(backends::store_failure)
    }

    /// Stops a server with SIGSTOP between two writes of its own. SQLite has one lock for writing:
    /// a server that is frozen while it holds the lock keeps every other one out, and the tour
    /// would show that instead of a takeover.
    pub(super) async fn pause(&self, server: &Server, account: &Account) -> Result<(), Failure> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            server.pause()?;
            if self.takes_writes(account).await {
                return Ok(());
            }
            server.go_on()?;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Err(setup("the server never was between two writes"))
    }

    /// Whether the store takes a write at once: here, the release of a claim that nobody made.
    async fn takes_writes(&self, account: &Account) -> bool {
        let Ok(key) = Key::new("nobody") else { return false };
        let fence = Fence {
            scope: account.caller.scope(),
            key,
            incarnation: Incarnation::random(),
            attempt: 1,
            owner: Owner::random(),
        };
        let released = tokio::time::timeout(AT_ONCE, self.store.release(&fence)).await;
        matches!(released, Ok(Ok(())))
    }

    /// Tells the card network how to behave.
    pub(super) async fn control(&self, change: Change) -> Result<(), Failure> {
        let body = serde_json::to_vec(&change).map_err(setup)?;
        let request = Request::post("/control", "application/json", body);
        let answer = request.send(self.network_address, PATIENCE).await.map_err(setup)?;
        match answer.status {
            200 => Ok(()),
            status => Err(setup(format!("the card network's control answered {status}"))),
        }
    }

    /// Waits until the card network holds an answer back.
    pub(super) async fn held_answer(&self) -> Result<(), Failure> {
        let request = Request::get("/control");
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let answer = request.send(self.network_address, PATIENCE).await.map_err(setup)?;
            let state: ControlState = serde_json::from_slice(&answer.body).map_err(setup)?;
            if state.held > 0 {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Err(setup("the card network never had an answer to hold back"))
    }

    /// Ends the network. The folder goes with the stage.
    pub(super) async fn clear(self) -> Result<(), Failure> {
        self.network.stop(NETWORK_STOP_LIMIT).await.map_err(setup)?;
        self.folder.close().map_err(setup)
    }
}

impl Account {
    /// A charge of this caller, under its key.
    pub(super) fn charge(&self, amount: u64) -> Request {
        self.keyless_charge(amount).header("Idempotency-Key", &self.key)
    }

    /// A charge of this caller, without a key.
    pub(super) fn keyless_charge(&self, amount: u64) -> Request {
        let body = format!(r#"{{"amount":{amount},"currency":"eur","description":"Thé vert"}}"#);
        Request::post("/v1/charges", "application/json", body)
            .header("Authorization", format!("Bearer {}", self.token))
    }
}

/// A record as it stands, in words.
pub(super) struct Seen(Option<Observed>);

impl Seen {
    /// Whether it is completed, at this attempt.
    pub(super) fn is_completed_at(&self, attempt: u32) -> bool {
        self.0.as_ref().is_some_and(|observed| {
            let completed = matches!(observed.record.state, State::Completed { .. });
            completed && observed.record.attempt == attempt
        })
    }

    /// Whether it is the very same record: state, attempt, owner, reply.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let record = |seen: &Self| seen.0.as_ref().map(|observed| observed.record.clone());
        record(self) == record(other)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(observed) = &self.0 else { return f.write_str("no record") };
        let state = match observed.record.state {
            State::Completed { .. } => "completed",
            State::InProgress { .. } => "in progress",
        };
        write!(f, "{state}, attempt {}", observed.record.attempt)
    }
}

/// Sends a request again and again as the API says: after a 409 when its `Retry-After` is over,
/// after a lost connection at once. Returns the last answer and what came before it.
pub(super) async fn retried(
    request: &Request,
    to: SocketAddr,
) -> (Result<Answer, WireError>, Vec<u16>) {
    let started = Instant::now();
    let mut before = Vec::new();
    loop {
        let answer = request.send(to, PATIENCE).await;
        let Ok(found) = &answer else { return (answer, before) };
        let pause = found.text("retry-after").and_then(|seconds| seconds.parse().ok());
        match pause.map(Duration::from_secs) {
            Some(pause) if found.status == 409 && started.elapsed() + pause < PATIENCE => {
                before.push(found.status);
                tokio::time::sleep(pause).await;
            }
            _ => return (answer, before),
        }
    }
}

/// Waits until a failpoint has made its file.
pub(super) async fn reached(file: &std::path::Path) -> Result<(), Failure> {
    let started = Instant::now();
    while !file.exists() {
        if started.elapsed() > PATIENCE {
            return Err(setup("a server of the demo never came to its failpoint"));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// The failure of a tour that cannot go on.
pub(super) fn setup(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::new(Exit::Setup, error)
}
