//! `idem serve`: a payments API whose charges are safe to retry.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/charges` with `Idempotency-Key`, in JSON or as a form | 201 with the charge; 402 declined; 400 and 415 refused, and 503 for a card network that cannot be reached, which cost no key; every row of the table of `idem-http` |
//! | `GET /v1/charges?limit=&starting_after=` | what the ledger holds for this caller |
//! | `GET /v1/charges/{id}` | one charge of this caller |
//! | `GET /openapi.json` | all of this, with how each operation bears being sent twice |
//! | `GET /metrics` | what happens, in the text format of Prometheus; its names are in docs/observability.md |
//! | `GET /healthz` | 200 with how the loops are, or 503 when the store cannot be read |
//!
//! A charge is an external effect (R20): the claim is committed, the card network is called under
//! a key that is the same on every attempt, its answer is stored as a recovery point, and then
//! the reply. The operation is registered, and a reconciler resumes what a dead server left behind
//! (R26). A charge has no follow-on message, so nothing is pushed to the store's outbox and no relay
//! runs here.

mod api;
mod args;
mod caller;
mod charge;
pub mod currency;
mod failing_store;
pub mod failpoint;
mod fields;
mod form;
mod health;
mod listing;
mod loops;
mod metrics;
mod new_charge;
mod openapi;
mod problem;
mod reply;

use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use idem_core::engine::Engine;
use idem_core::log_hash::KeyHasher;
use idem_core::operation::Operation;
use idem_core::store::Store;

pub use self::args::{Args, Every};
pub use self::caller::Caller;
pub use self::charge::NAME as CHARGE_OPERATION;
pub use self::new_charge::NewCharge;
pub use self::problem::Problem;

use self::charge::Charging;
use self::failing_store::FailingStore;
use self::failpoint::Failpoints;
use self::metrics::Metrics;
use crate::backends::{self, Intent};
use crate::exit::{Exit, Failure};
use crate::listen::Server;
use crate::network::{CardNetwork, NetworkProcess};
use crate::shutdown::Shutdown;

/// Keeps the downstream keys of this API apart from those of any other.
const NAMESPACE: &str = "idem-payments";

/// The shortest interval of a loop.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// How long a card network of our own may take to finish its calls.
const NETWORK_STOP_LIMIT: Duration = Duration::from_secs(5);

/// Serves until it is asked to end.
///
/// # Errors
/// [`Failure`] with [`Exit::Usage`] for a setting that is wrong; with [`Exit::Setup`] or
/// [`Exit::Unavailable`] when the store cannot be opened, the network not started, or the address
/// not bound; with [`Exit::Unknown`] when charges were still running at the very end.
pub fn run(args: Args) -> Result<Exit, Failure> {
    args.check()?;
    let operation = operation(&args)?;
    let hasher = args.server.key_hasher()?;
    let runtime = tokio::runtime::Runtime::new().map_err(setup)?;
    runtime.block_on(serve(args, operation, hasher))
}

async fn serve(args: Args, operation: Operation, hasher: KeyHasher) -> Result<Exit, Failure> {
    let mut shutdown = Shutdown::listen().map_err(setup)?;
    if args.server.end_with_stdin {
        shutdown = shutdown.with_stdin_end().map_err(setup)?;
    }
    let store = backends::open(&args.server.store, Intent::Serve).await?.store;
    let (network, own_network) = card_network(&args).await?;
    let network_url = network.url().to_owned();
    let failpoints = Failpoints::new(args.failpoint.iter().cloned());
    let store: Arc<dyn Store> = match failpoints.is_empty() {
        true => store,
        false => Arc::new(FailingStore::new(store, failpoints.clone())),
    };
    let metrics = Metrics::start();
    let seen_by_meter = Arc::clone(&store);
    let charging = Charging::new(network.clone(), failpoints);
    let engine = Engine::builder(store)
        .namespace(NAMESPACE)
        .map_err(setup)?
        .key_hasher(hasher)
        .register(&operation, move |execution| charging.clone().run(execution))
        .build()
        .map_err(setup)?;

    let loops = Arc::new(loops::start(&engine, seen_by_meter, &args));

    let server = Server::bind(args.server.listen).await.map_err(setup)?;
    let max_body_bytes = args.server.max_body_bytes();
    let seen = api::Seen { loops: Arc::clone(&loops), metrics: metrics.page() };
    let router = api::router(engine, network, &operation, max_body_bytes, seen).map_err(setup)?;
    server.announce().map_err(setup)?;
    tell_network(&network_url);
    let asked_at = OnceLock::new();
    let asked_to_end = async {
        let cause = shutdown.requested().await;
        tracing::info!(?cause, "draining");
        loops.wind_down();
        let _ = asked_at.set(Instant::now());
    };
    let answered = server.serve(router, asked_to_end, args.drain).await;
    // Charges whose clients are gone have no connection, and finish all the same (R12).
    let left = args.drain.saturating_sub(asked_at.get().map_or(Duration::ZERO, Instant::elapsed));
    let stopped = loops.stop(left).await;
    if let Some(network) = own_network {
        network.stop(NETWORK_STOP_LIMIT).await.map_err(setup)?;
    }
    match (answered, stopped.executions) {
        (true, 0) => Ok(Exit::Success),
        _ => Err(Failure::new(Exit::Unknown, "ended before every charge was finished")),
    }
}

fn operation(args: &Args) -> Result<Operation, Failure> {
    let settings = args.server.operation(charge::NAME).attempts(args.attempts);
    charge::operation(settings).map_err(|error| Failure::new(Exit::Usage, error))
}

/// The card network that was named, or one of our own that ends with us.
async fn card_network(args: &Args) -> Result<(CardNetwork, Option<NetworkProcess>), Failure> {
    let own = match &args.ledger {
        Some(ledger) => Some(NetworkProcess::start(ledger).await.map_err(setup)?),
        None => None,
    };
    let url = own.as_ref().map(NetworkProcess::url).or(args.network.as_deref());
    let network = CardNetwork::new(url.unwrap_or_default(), args.network_timeout)
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok((network, own))
}

/// The second line on standard output. Who reads the first line only may be gone by now.
fn tell_network(url: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "the card network is at {url}").and_then(|()| stdout.flush());
}

fn setup(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::new(Exit::Setup, error)
}
