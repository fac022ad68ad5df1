//! This binary as a process of its own: one that takes the job on, or one that reconciles.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use idem_cli::network::CardNetwork;
use idem_core::engine::Call;
use idem_core::fingerprint::Fingerprint;
use idem_core::housekeeping::Reconciler;
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::record::{Observed, State};
use idem_core::store::Store;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Postgres, Sqlite};
use crate::failing::Failing;
use crate::mysql::Mysql;
use crate::support::process::PATIENCE;
use crate::{job, points};

/// Tells a process what it is.
const VARIABLE: &str = "IDEM_RECOVERY_CHILD";

/// What a process is to do.
#[derive(Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) role: Role,
    pub(crate) backend: String,
    pub(crate) url: String,
    pub(crate) network: String,
    pub(crate) job: String,
    /// The point at which it dies, counted from 0.
    pub(crate) die_at: Option<usize>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Takes the job on, as for a client who asks once and never again.
    Client,
    /// Resumes what is lapsed until the job is no longer in progress.
    Reconciler,
}

impl Orders {
    /// Starts a process that does it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child_process", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, serde_json::to_string(self).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// What a process says at its end, if it comes to one.
pub(crate) const PASSED: &str = "passed: ";

/// Does what the variable says, where it is set.
pub(crate) fn run() {
    let Ok(orders) = std::env::var(VARIABLE) else { return };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match orders.backend.as_str() {
        Sqlite::NAME => runtime.block_on(act::<Sqlite>(orders)),
        Postgres::NAME => runtime.block_on(act::<Postgres>(orders)),
        Mysql::NAME => runtime.block_on(act::<Mysql>(orders)),
        other => panic!("no backend {other}"),
    }
}

async fn act<B: Backend>(orders: Orders) {
    let store = B::open(&orders.url).await;
    let network = CardNetwork::new(&orders.network, PATIENCE).unwrap();
    let engine = job::engine::<B>(Failing(store.clone()), network);
    points::die_at(orders.die_at);
    match orders.role {
        Role::Client => {
            let call = Call::new(scope(), key(&orders.job), Fingerprint::of_bytes(&orders.job))
                .with_input(Input::new(orders.job.clone()));
            let outcome = engine.run_registered(&job::operation(), call).await.unwrap();
            points::reach("after the answer");
            assert!(outcome.stored);
        }
        Role::Reconciler => {
            let reconciler = Reconciler::new(engine).longest_wait(Duration::from_millis(100));
            let started = Instant::now();
            while is_under_way(&store, &orders.job).await {
                reconciler.once().await.unwrap();
                assert!(started.elapsed() < PATIENCE, "it is never finished");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    println!("{PASSED}{}", serde_json::to_string(&points::passed()).unwrap());
}

/// Whether there is something to resume, or somebody at it.
async fn is_under_way(store: &dyn Store, job: &str) -> bool {
    let Some(found) = store.get(&scope(), &key(job)).await.unwrap() else { return false };
    let in_progress = matches!(found.record.state, State::InProgress { .. });
    in_progress && !(found.record.recovery().is_none() && found.lapsed_for().is_some())
}

/// What the store holds of a job.
pub(crate) async fn record<B: Backend>(url: &str, job: &str) -> Option<Observed> {
    B::open(url).await.get(&scope(), &key(job)).await.unwrap()
}

fn scope() -> Scope {
    Scope::new("recovery").unwrap()
}

fn key(job: &str) -> Key {
    Key::new(job).unwrap()
}
