//! A card network and payments servers on one store, and a client that shows every byte.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use idem_cli::network::{CardNetwork, ControlState, LedgerView};
use idem_cli::serve::Caller;
use idem_cli::wire::{Answer, Request, WireError};
use idem_sqlite::sqlx::sqlite::SqliteConnectOptions;
use idem_sqlite::sqlx::{Connection as _, Executor as _, SqliteConnection};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::process::{PATIENCE, Process, Server};

/// The token of tests that have one caller.
pub(crate) const TOKEN: &str = "sk_test_1";

/// Where requests are sent from.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// A folder with a store and a ledger, a card network on the ledger, and the servers that are
/// started on both.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) network: Server,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_network(&[])
    }

    /// With a card network that misbehaves from the start.
    pub(crate) fn with_network(args: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let ledger = folder.path().join("ledger.jsonl");
        let fixed = ["network", "--ledger", ledger.to_str().unwrap()];
        let network = Server::listening(Process::idem(fixed.iter().chain(args)));
        Self { folder, network }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> String {
        format!("sqlite:{}", self.path("idem.db").display())
    }

    /// Starts a server on this store and this network.
    pub(crate) fn serve(&self, more: &[&str]) -> Server {
        Server::listening(self.spawn(more))
    }

    /// Starts a server that may not come up.
    pub(crate) fn spawn(&self, more: &[&str]) -> Process {
        let (store, network) = (self.store(), self.network.url());
        // Nothing is resumed behind a test's back, unless it asks for that.
        let fixed =
            ["serve", "--store", &store, "--network", &network, "--reconcile-every", "never"];
        Process::idem(fixed.iter().chain(more))
    }

    /// What the ledger holds for a caller.
    pub(crate) fn ledger_of(&self, token: &str) -> LedgerView {
        let network = CardNetwork::new(&self.network.url(), PATIENCE).unwrap();
        let caller = Caller::with_token(token.as_bytes()).unwrap();
        RUNTIME.block_on(network.ledger(Some(caller.name()), 0)).unwrap()
    }

    /// Calls and effects of the one caller.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let ledger = self.ledger_of(TOKEN);
        (ledger.calls, ledger.effects)
    }

    /// The downstream key of every call that arrived, in order.
    pub(crate) fn downstream_keys(&self) -> Vec<String> {
        let calls = answer(self.network.address, &Request::get("/ledger/calls")).json();
        let calls = calls["data"].as_array().unwrap().iter();
        calls.map(|call| call["key"].as_str().unwrap().to_owned()).collect()
    }

    /// Stops a server with SIGSTOP between two writes of its own: one that is frozen while it holds
    /// SQLite's write lock, as in a heartbeat, keeps every other one out.
    pub(crate) fn pause_between_writes(&self, server: &Server) {
        wait_until("it is stopped between two writes", || {
            server.process.signal("STOP");
            wait_until("it is stopped", || server.process.is_stopped());
            let is_between = RUNTIME.block_on(takes_writes(&self.store()));
            if !is_between {
                server.process.signal("CONT");
            }
            is_between
        });
    }

    /// The list of the one caller's charges.
    pub(crate) fn listing() -> Request {
        Request::get("/v1/charges").header("authorization", format!("Bearer {TOKEN}"))
    }

    /// Tells the card network how to behave.
    pub(crate) fn control(&self, change: Value) {
        let request = Request::post("/control", "application/json", change.to_string());
        assert_eq!(answer(self.network.address, &request).status, 200);
    }

    /// Waits until the card network holds so many answers back.
    pub(crate) fn wait_for_held(&self, count: u64) {
        wait_until("the card network holds an answer", || {
            let state = answer(self.network.address, &Request::get("/control"));
            serde_json::from_slice::<ControlState>(&state.body).unwrap().held == count
        });
    }

    /// What `idem inspect --json` says about a key of the one caller; `None` without a record.
    pub(crate) fn inspect(&self, key: &str) -> Option<Value> {
        let caller = Caller::with_token(TOKEN.as_bytes()).unwrap();
        let (store, scope) = (self.store(), caller.name());
        let args = ["inspect", "--json", "--store", &store, "--scope", scope, "--key", key];
        let mut inspect = Process::idem(args);
        let mut said = String::new();
        while let Some(line) = inspect.line() {
            said += &line;
        }
        match inspect.wait().code() {
            Some(0) => Some(serde_json::from_str(&said).unwrap()),
            Some(1) => None,
            _ => panic!("{}", inspect.stderr()),
        }
    }

    /// The attempt of a completed record; panics on any other.
    pub(crate) fn completed_attempt(&self, key: &str) -> u64 {
        let record = self.inspect(key).expect("a record");
        assert_eq!(record["state"], "completed", "{record}");
        record["attempt"].as_u64().unwrap()
    }
}

/// A charge of the one caller, in JSON.
pub(crate) fn charge(key: &str, amount: i64) -> Request {
    charge_of(TOKEN, key, amount)
}

/// A charge of this caller, in JSON.
pub(crate) fn charge_of(token: &str, key: &str, amount: i64) -> Request {
    let body = json!({ "amount": amount, "currency": "eur", "description": "Thé" }).to_string();
    Request::post("/v1/charges", "application/json", body)
        .header("Authorization", format!("Bearer {token}"))
        .header("Idempotency-Key", key)
}

/// Sends a request to a server that must answer.
pub(crate) fn answer(to: SocketAddr, request: &Request) -> Answer {
    send(to, request).unwrap_or_else(|error| panic!("{} has no answer: {error}", request.line()))
}

/// Sends a request to a server that may be gone.
pub(crate) fn send(to: SocketAddr, request: &Request) -> Result<Answer, WireError> {
    RUNTIME.block_on(request.send(to, PATIENCE))
}

/// A request that is under way.
pub(crate) struct Sending(tokio::task::JoinHandle<Result<Answer, WireError>>);

/// Sends a request in the background.
pub(crate) fn start(to: SocketAddr, request: &Request) -> Sending {
    let request = request.clone();
    Sending(RUNTIME.spawn(async move { request.send(to, PATIENCE).await }))
}

impl Sending {
    pub(crate) fn wait(self) -> Result<Answer, WireError> {
        RUNTIME.block_on(self.0).unwrap()
    }
}

/// Sends a request until its answer is no 409 that says when to come back.
pub(crate) fn retried(to: SocketAddr, request: &Request) -> Answer {
    let started = Instant::now();
    loop {
        let answer = answer(to, request);
        if answer.status != 409 || answer.text("retry-after").is_none() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "it is always a 409");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The `type` of a problem, without its base.
pub(crate) fn problem(answer: &Answer) -> String {
    assert_eq!(answer.text("content-type").as_deref(), Some("application/problem+json"));
    let document = answer.json();
    assert_eq!(document["status"], answer.status);
    assert!(document["error"]["type"].is_string(), "an SDK would take it for success");
    let kind = document["type"].as_str().unwrap();
    kind.rsplit(':').next().unwrap().to_owned()
}

pub(crate) fn is_replay(answer: &Answer) -> bool {
    answer.text("idempotent-replayed").as_deref() == Some("true")
}

/// Panics unless both are the same answer: status, header fields in their order, body.
#[track_caller]
pub(crate) fn assert_same(first: &Answer, replay: &Answer) {
    const MAY_DIFFER: [&str; 3] = ["date", "idempotent-replayed", "idempotency-key-lifetime"];
    assert_eq!(first.status, replay.status);
    assert_eq!(first.headers_without(&MAY_DIFFER), replay.headers_without(&MAY_DIFFER));
    assert_eq!(first.body, replay.body);
}

/// Looks again and again until it is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "it never was so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

async fn takes_writes(store: &str) -> bool {
    let options: SqliteConnectOptions = store.parse().unwrap();
    let options = options.busy_timeout(Duration::from_millis(300));
    let mut database = SqliteConnection::connect_with(&options).await.unwrap();
    let begun = database.execute("BEGIN IMMEDIATE").await.is_ok();
    if begun {
        database.execute("ROLLBACK").await.unwrap();
    }
    database.close().await.unwrap();
    begun
}
