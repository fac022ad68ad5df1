//! The command line of `idem`.

use clap::{Parser, Subcommand};

use crate::{conformance, demo, fixture, network, operator, serve};

/// Operations that are safe to retry: servers to try it with, and the operator's commands.
#[derive(Debug, Parser)]
#[command(name = "idem", version, arg_required_else_help = true)]
#[command(after_help = crate::exit::HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// One command of `idem`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// See it work: duplicates, a crash and a pause against real server processes.
    Demo(demo::Args),
    /// Run a payments API whose charges are safe to retry.
    Serve(serve::Args),
    /// Run the app of the public Idempotency-Key conformance vectors.
    Fixture(fixture::Args),
    /// Run the card network that `serve` charges through, with a ledger of its own.
    Network(network::Args),
    /// Count the records by what they are.
    Stats(operator::StatsArgs),
    /// List records by scope and key.
    List(operator::ListArgs),
    /// Show one record: who holds it, what it has done, what it answered.
    Inspect(operator::InspectArgs),
    /// List the records whose lease is over, the longest first.
    Stuck(operator::StuckArgs),
    /// Say how a stuck record ended: retries get this reply, and nothing runs.
    Settle(operator::SettleArgs),
    /// Free the key of a stuck record, after saying what a rerun may repeat.
    Release(operator::ReleaseArgs),
    /// Delete the completed records of one scope.
    Forget(operator::ForgetArgs),
    /// Delete expired records in small batches.
    Sweep(operator::SweepArgs),
    /// Create the store's tables, or bring them up to date.
    Migrate(operator::MigrateArgs),
    /// Check the store's settings, and say what to change.
    Preflight(operator::PreflightArgs),
    /// Try a store with every case of the suite, and say which promises it breaks.
    Conformance(conformance::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
