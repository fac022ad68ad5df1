//! `idem network`: a card network that can be trusted to tell the truth about itself.
//!
//! It stands for the payment provider behind a service: it collapses calls by their key, it may
//! be slow, drop its answer after acting, or decline, and its ledger is the ground truth of every
//! crash test. It counts **calls** and **effects** apart, so that a service that calls twice
//! cannot hide behind the network's own de-duplication.
//!
//! | request | answer |
//! |---|---|
//! | `POST /charges` with `Idempotency-Key` and a [`ChargeRequest`] | 200 [`Charge`], the same one for a repeated key; 402 declined, for good; 422 key used for another payload; 400; 500 as told; 503 ledger not written |
//! | `GET /ledger?caller=&after=&limit=` | [`LedgerView`] |
//! | `GET /ledger/calls?caller=&after=&limit=` | every counted call in order, with its key |
//! | `GET /control`, `POST /control` with a [`Change`] | [`ControlState`] |
//! | `GET /healthz` | 200, or 503 when the ledger cannot be written |
//!
//! A call is counted when it has arrived whole, with a valid key and body. From there on it is
//! carried out whatever becomes of its caller.

mod args;
mod book;
mod call;
mod charge;
mod child;
mod client;
mod control;
mod file;
mod ledger;
mod line;
mod problem;
mod server;

use std::time::Duration;

pub use self::args::{Args, Misbehave};
pub use self::book::Contradiction;
pub use self::charge::{
    Charge, ChargeFault, ChargeRequest, LedgerEntry, LedgerView, MAX_AMOUNT, MAX_DESCRIPTION_BYTES,
    MAX_NAME_BYTES,
};
pub use self::child::{ChildError, NetworkProcess, START_LIMIT};
pub use self::client::{CardNetwork, LEDGER_PAGE, NetworkError, NetworkUrlError, UnknownOutcome};
pub use self::control::{Change, ControlState, DelayTooLong, MAX_DELAY, Settings};
pub use self::ledger::{Ledger, LedgerError, LineFault, MAX_CALLS, OpenLedgerError, Verdict};

use self::call::Network;
use self::control::Control;
use crate::exit::{Exit, Failure};
use crate::listen::Server;
use crate::shutdown::Shutdown;

/// How long running calls may take to finish once the end was asked for. It is shorter than a
/// successor waits for the ledger.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// Runs the network until it is asked to end.
///
/// # Errors
/// [`Failure`] with [`Exit::Usage`] for a delay that is too long, with [`Exit::Setup`] when the
/// ledger cannot be opened, the address not bound, or the first line not written.
pub fn run(args: Args) -> Result<Exit, Failure> {
    let settings = args.misbehave.settings();
    settings.check().map_err(|error| Failure::new(Exit::Usage, error))?;
    // Before there is a runtime: opening may block for as long as another process has the ledger.
    let ledger = Ledger::open(&args.ledger, args.lock_wait)
        .map_err(|error| Failure::new(Exit::Setup, error))?;
    let runtime = tokio::runtime::Runtime::new().map_err(|e| Failure::new(Exit::Setup, e))?;
    let network = Network::new(ledger, Control::new(settings));
    let outcome = runtime.block_on(serve(network, &args));
    // Does not wait for a disk that hangs.
    runtime.shutdown_timeout(DRAIN_LIMIT);
    outcome
}

async fn serve(network: Network, args: &Args) -> Result<Exit, Failure> {
    let setup = |error| Failure::new(Exit::Setup, error);
    let mut shutdown = Shutdown::listen().map_err(setup)?;
    if args.end_with_stdin {
        shutdown = shutdown.with_stdin_end().map_err(setup)?;
    }
    let server =
        Server::bind(args.listen).await.map_err(|error| Failure::new(Exit::Setup, error))?;
    server.announce().map_err(|error| Failure::new(Exit::Setup, error))?;
    tracing::info!(address = %server.address(), "the card network is listening");

    let asked_to_end = async {
        let cause = shutdown.requested().await;
        tracing::info!(?cause, "the card network is ending");
        network.control.end_waits();
    };
    let answered = server.serve(server::router(network.clone()), asked_to_end, DRAIN_LIMIT).await;
    // Calls whose callers are gone have no connection, and finish all the same.
    let carried_out = network.drain(DRAIN_LIMIT).await;
    if !(answered && carried_out) {
        tracing::warn!("ended before every call was answered");
    }
    Ok(Exit::Success)
}
