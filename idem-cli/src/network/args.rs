//! The arguments of `idem network`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::control::Settings;
use crate::duration;

/// Run the card network that `serve` charges through, with a ledger of its own.
///
/// It collapses calls by their downstream key, and counts calls and effects apart. It has no
/// authentication, and anybody who reaches it can tell it to misbehave: keep it on loopback.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The ledger file; it is created when it is not there.
    #[arg(long, value_name = "PATH")]
    pub ledger: PathBuf,

    /// The address to serve on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// How long to wait for another process to let go of the ledger.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse)]
    pub lock_wait: Duration,

    /// End when standard input ends, and so with the process at its other end.
    #[arg(long, hide = true)]
    pub end_with_stdin: bool,

    // Last: its heading would stand over whatever came after it.
    /// How to misbehave from the start.
    #[command(flatten)]
    pub misbehave: Misbehave,
}

/// How to misbehave from the start; `POST /control` changes it while the network runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Misbehaviour")]
pub struct Misbehave {
    /// Let each call wait before anything is done about it.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    pub delay: Duration,

    /// Act on so many calls, then close the connection without an answer.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub drop_answers: u32,

    /// Decline so many new keys for good.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub refuse: u32,

    /// Answer so many calls with 500, without acting.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub fail: u32,

    /// Act, then hold every answer until `POST /control {"hold":false}`.
    #[arg(long)]
    pub hold: bool,
}

impl Misbehave {
    /// The settings that these flags ask for.
    pub fn settings(&self) -> Settings {
        Settings {
            delay_ms: u64::try_from(self.delay.as_millis()).unwrap_or(u64::MAX),
            drop_answers: self.drop_answers,
            refuse: self.refuse,
            fail: self.fail,
            hold: self.hold,
        }
    }
}
