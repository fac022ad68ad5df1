//! `idem demo`: a tour that drives itself against real server processes, and proves each claim
//! that it makes.

mod answers;
mod crash;
mod duplicates;
mod mismatch;
mod pause;
mod refused;
mod replay;
mod report;
mod server;
mod stage;

use std::io::{Write, stdout};

use self::report::Report;
use self::stage::{LEASE, Stage, setup};
use crate::exit::{Exit, Failure};
use crate::paint::Paint;
use crate::shutdown::Shutdown;

/// See it work: duplicates, a crash and a pause against real server processes.
///
/// It starts a card network and servers of its own on loopback, shows what is sent, what comes
/// back and what the ledger holds, and ends with 1 if one expectation does not hold. It leaves
/// nothing behind, but for its records in a store that you name.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The store that the servers share, such as sqlite:PATH; an SQLite file of its own if absent.
    #[arg(long, value_name = "URL", env = "IDEM_STORE", hide_env_values = true)]
    pub store: Option<String>,

    /// Tell it in JSON, for scripts.
    #[arg(long)]
    pub json: bool,
}

/// Runs the tour.
///
/// # Errors
/// [`Failure`] when it could not be run to its end; whether every expectation held is in the
/// [`Exit`].
pub fn run(args: Args) -> Result<Exit, Failure> {
    if args.store.as_deref().is_some_and(|url| url.starts_with("memory:")) {
        let why = "a memory: store dies with its process, and the demo kills processes";
        return Err(Failure::new(Exit::Usage, why));
    }
    let runtime = tokio::runtime::Runtime::new().map_err(setup)?;
    runtime.block_on(async {
        let mut shutdown = Shutdown::listen().map_err(setup)?;
        tokio::select! {
            // What is dropped unfinished ends its processes and deletes its folder.
            outcome = report(&args) => outcome,
            _ = shutdown.requested() => {
                Err(Failure::new(Exit::CheckFailed, "the demo was interrupted"))
            }
        }
    })
}

async fn report(args: &Args) -> Result<Exit, Failure> {
    let mut report = if args.json {
        Report::in_json(stdout())
    } else {
        Report::in_words(stdout(), Paint::for_stdout())
    };
    tour(args, &mut report).await?;
    let passed = report.finish().map_err(setup)?;
    Ok(if passed { Exit::Success } else { Exit::CheckFailed })
}

async fn tour<W: Write>(args: &Args, report: &mut Report<W>) -> Result<(), Failure> {
    let stage = Stage::set(args.store.as_deref()).await?;
    report.introduce(&format!(
        "Real server processes on loopback, a card network with a ledger of its own, and leases \
         of {LEASE:?}.\nThe ledger counts calls and charges apart: it is the ground truth."
    ));
    let server = stage.server(&[]).await?;
    duplicates::tell(&stage, server.address(), report).await?;
    replay::tell(&stage, server.address(), report).await?;
    mismatch::tell(&stage, server.address(), report).await?;
    refused::tell(&stage, server.address(), report).await?;
    server.stop().await?;
    crash::tell(&stage, report).await?;
    pause::tell(&stage, report).await?;
    stage.clear().await
}
