//! The operator's commands: what is in a store, what is stuck, and looking after it.

mod age;
mod condition;
mod cursor;
mod file;
mod find;
mod forget;
mod hash;
mod inspect;
mod list;
mod migrate;
mod outbox;
mod preflight;
mod record;
mod release;
mod reply;
mod settle;
mod show;
mod stats;
mod stuck;
mod sweep;
mod table;
mod text;

use std::io::Write as _;

use serde_json::Value;

use crate::backends::{self, Intent, Opened};
use crate::exit::{Exit, Failure};

pub use forget::Args as ForgetArgs;
pub use hash::Args as HashArgs;
pub use inspect::Args as InspectArgs;
pub use list::Args as ListArgs;
pub use migrate::Args as MigrateArgs;
pub use outbox::Args as OutboxArgs;
pub use preflight::Args as PreflightArgs;
pub use release::Args as ReleaseArgs;
pub use settle::Args as SettleArgs;
pub use stats::Args as StatsArgs;
pub use stuck::Args as StuckArgs;
pub use sweep::Args as SweepArgs;

/// Which store, and in which form to answer: the same on every operator's command.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    /// The store: sqlite:PATH, postgres://..., mysql://..., redis://... or
    /// redis-cluster://...
    #[arg(long, value_name = "URL", env = "IDEM_STORE", hide_env_values = true)]
    pub store: String,

    /// Answer in JSON, for scripts.
    #[arg(long)]
    pub json: bool,
}

impl StoreArgs {
    async fn open(&self, intent: Intent) -> Result<Opened, Failure> {
        if intent == Intent::Operate {
            self.refuse_a_missing_file()?;
        }
        backends::open(&self.store, intent).await
    }

    /// A file that is not there is an error, not an empty store.
    fn refuse_a_missing_file(&self) -> Result<(), Failure> {
        let Some(file) = file::missing(&self.store) else { return Ok(()) };
        let why = format!("there is no file {}; `idem migrate` makes a store", file.display());
        Err(Failure::new(Exit::Setup, why))
    }
}

macro_rules! commands {
    ($($run:ident: $module:ident),* $(,)?) => {$(
        #[doc = concat!("Runs `idem ", stringify!($module), "`.")]
        ///
        /// # Errors
        /// [`Failure`] carries the exit code.
        pub fn $run(args: $module::Args) -> Result<Exit, Failure> {
            block_on($module::run(args))
        }
    )*};
}

commands! {
    run_stats: stats,
    run_list: list,
    run_inspect: inspect,
    run_stuck: stuck,
    run_settle: settle,
    run_release: release,
    run_forget: forget,
    run_hash: hash,
    run_sweep: sweep,
    run_migrate: migrate,
    run_outbox: outbox,
    run_preflight: preflight,
}

fn block_on(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Setup, error))?
        .block_on(command)
}

/// Writes to standard output. A reader that has gone away, such as `head`, ends the command.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(Exit::Setup, error))
}

fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}
