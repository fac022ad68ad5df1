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
#[allow(missing_docs)] // Each is described where its arguments are, once, for the help as well.
pub enum Command {
    Demo(demo::Args),
    Serve(serve::Args),
    Fixture(fixture::Args),
    Network(network::Args),
    Stats(operator::StatsArgs),
    List(operator::ListArgs),
    Inspect(operator::InspectArgs),
    Hash(operator::HashArgs),
    Stuck(operator::StuckArgs),
    Settle(operator::SettleArgs),
    Release(operator::ReleaseArgs),
    Forget(operator::ForgetArgs),
    Sweep(operator::SweepArgs),
    Outbox(operator::OutboxArgs),
    Migrate(operator::MigrateArgs),
    Preflight(operator::PreflightArgs),
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
