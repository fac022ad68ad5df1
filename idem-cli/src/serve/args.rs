//! The arguments of `idem serve`.

use std::path::PathBuf;
use std::time::Duration;

use super::MIN_INTERVAL;
use super::failpoint::Failpoint;
use crate::duration::{self, DurationError};
use crate::exit::{Exit, Failure};
use crate::server_args::ServerArgs;

/// Run a payments API whose charges are safe to retry.
///
/// It keeps its records in the store, and charges through a card network that runs as a process
/// of its own. Any bearer token is an account. It has no TLS: keep it on loopback.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("card_network").required(true))]
pub struct Args {
    /// Where to listen, which store, and how requests are protected.
    #[command(flatten)]
    pub server: ServerArgs,

    /// Start a card network with its ledger in this file; it ends with this server. Or name one
    /// with --network.
    #[arg(long, value_name = "PATH", group = "card_network")]
    pub ledger: Option<PathBuf>,

    /// Use the card network that runs at this address, such as http://127.0.0.1:4000.
    #[arg(long, value_name = "URL", group = "card_network")]
    pub network: Option<String>,

    /// How long a call to the card network may take.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub network_timeout: Duration,

    /// How often a charge is attempted before it is held for a person to settle.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: u32,

    /// How long to wait, at most, between two looks for charges that a dead server left behind.
    /// The first look comes within a second of the start. `never` leaves them to other servers.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = every, overrides_with = "reconcile_every")]
    pub reconcile_every: Every,

    /// How long to wait, at most, between two sweeps of expired records.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse, overrides_with = "sweep_every")]
    pub sweep_every: Duration,

    /// How long charges that run may take to finish at SIGTERM.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub drain: Duration,

    /// Stop or kill this server exactly in a window: POINT=kill, POINT=stop, POINT=wait:FILE.
    #[arg(long, hide = true, env = "IDEM_FAILPOINT", value_delimiter = ';', hide_env = true)]
    pub failpoint: Vec<Failpoint>,
}

/// How often a loop does its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// Once in this time.
    Interval(Duration),
    /// Not at all: another server does it.
    Never,
}

impl Every {
    /// The interval, if it runs.
    pub fn interval(self) -> Option<Duration> {
        match self {
            Self::Interval(interval) => Some(interval),
            Self::Never => None,
        }
    }
}

fn every(text: &str) -> Result<Every, DurationError> {
    match text {
        "never" => Ok(Every::Never),
        text => duration::parse(text).map(Every::Interval),
    }
}

impl Args {
    /// Checks every setting against its range.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.server.check()?;
        let shortest = self.reconcile_every.interval().into_iter().chain([self.sweep_every]).min();
        if shortest < Some(MIN_INTERVAL) {
            let why =
                format!("--reconcile-every and --sweep-every must be at least {MIN_INTERVAL:?}");
            return Err(Failure::new(Exit::Usage, why));
        }
        Ok(())
    }
}
