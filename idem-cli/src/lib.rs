//! The parts of the `idem` binary. They are a library so that its tests and the benchmarks can
//! use them; they are **not a stable API**.
//!
//! # Where things are
//! | module | holds |
//! |---|---|
//! | [`args`] | the command line; each command keeps its own arguments beside its code |
//! | [`exit`] | every exit code, in one place, and the failure that carries one |
//! | [`duration`], [`size`] | how `500ms` and `64KiB` are read |
//! | [`hash_secret`] | the secret of the hashes that stand for keys in logs |
//! | [`logging`] | logs, to standard error only |
//! | [`listen`], [`shutdown`] | what every server command shares: the `listening on` line, draining, SIGTERM |
//! | [`backends`] | the one place where backends register their store URLs |
//! | [`operator`] | what an operator needs: `stuck`, `inspect`, `settle`, `release` and the rest |
//! | [`demo`] | `idem demo`: the tour |
//! | [`conformance`] | `idem conformance`: the suite that any store must pass, on a store by its URL |
//! | [`paint`] | colours, on a terminal only |
//! | [`serve`] | `idem serve`: a payments API whose charges are safe to retry |
//! | [`server_args`] | what `serve` and `fixture` share on the command line |
//! | [`wire`] | an HTTP client that shows what was on the wire, for the demo and the tests |
//! | [`fixture`] | `idem fixture`: the app of the public conformance vectors |
//! | [`network`] | `idem network`: the card network, its ledger, its client, and starting it as a child |
//!
//! A new command is a module with an `Args` and a `run` that returns `Result<Exit, Failure>`, one
//! variant in [`args::Command`], and one line in [`run`].

pub mod args;
pub mod backends;
pub mod conformance;
pub mod demo;
pub mod duration;
pub mod exit;
pub mod fixture;
pub mod hash_secret;
pub mod listen;
pub mod logging;
pub mod network;
pub mod operator;
pub mod paint;
pub mod serve;
pub mod server_args;
pub mod shutdown;
pub mod size;
pub mod wire;

use std::ffi::OsString;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::exit::{Exit, Failure};

/// Reads the command line, does what it says, and reports a failure on standard error. With
/// `--json` the failure is the document on standard output as well, so that there is always one.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    let json = asks_for_json(&args);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            if !error.use_stderr() {
                return Exit::Success;
            }
            if json {
                Failure::new(Exit::Usage, in_one_line(&error)).report_json();
            }
            return Exit::Usage;
        }
    };
    let outcome = logging::start()
        .map_err(|error| Failure::new(Exit::Usage, error))
        .and_then(|()| dispatch(cli.command));
    outcome.unwrap_or_else(|failure| {
        failure.report();
        if json {
            failure.report_json();
        }
        failure.exit()
    })
}

/// Looks at the words themselves: it counts also where the rest of them cannot be read.
fn asks_for_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

/// What is wrong with a command line, without its usage.
fn in_one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "the command is not whole; see its --help".into();
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let told: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    told.join(" ")
}

fn dispatch(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Conformance(args) => conformance::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Fixture(args) => fixture::run(args),
        Command::Network(args) => network::run(args),
        Command::Stats(args) => operator::run_stats(args),
        Command::List(args) => operator::run_list(args),
        Command::Inspect(args) => operator::run_inspect(args),
        Command::Hash(args) => operator::run_hash(args),
        Command::Stuck(args) => operator::run_stuck(args),
        Command::Settle(args) => operator::run_settle(args),
        Command::Release(args) => operator::run_release(args),
        Command::Forget(args) => operator::run_forget(args),
        Command::Sweep(args) => operator::run_sweep(args),
        Command::Outbox(args) => operator::run_outbox(args),
        Command::Migrate(args) => operator::run_migrate(args),
        Command::Preflight(args) => operator::run_preflight(args),
    }
}
