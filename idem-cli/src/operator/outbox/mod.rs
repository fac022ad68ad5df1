//! `idem outbox`: the messages that wait to be sent, and those that were given up.

mod list;
mod settle;
mod show;

use std::sync::Arc;

use clap::Subcommand;
use idem_core::outbox::{MessageId, Outbox};
use serde_json::json;

use super::age::short;
use super::{StoreArgs, print, print_json};
use crate::backends::{Intent, store_failure};
use crate::exit::{Exit, Failure};

/// Look at the messages that wait to be sent, and decide on those that were given up.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with the outbox.
#[derive(Debug, Subcommand)]
enum Command {
    Stats(StatsArgs),
    List(list::Args),
    Dead(list::DeadArgs),
    Requeue(settle::RequeueArgs),
    Discard(settle::DiscardArgs),
}

/// Count what waits, what is on its way, and what was given up.
///
/// Exits with 1 when messages were given up, so that a monitor can call it.
#[derive(Debug, clap::Args)]
struct StatsArgs {
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::Stats(args) => stats(args).await,
        Command::List(args) => list::run(args).await,
        Command::Dead(args) => list::run(args.into()).await,
        Command::Requeue(args) => settle::requeue(args).await,
        Command::Discard(args) => settle::discard(args).await,
    }
}

async fn stats(args: StatsArgs) -> Result<Exit, Failure> {
    let backlog = args.store.outbox().await?.backlog().await.map_err(store_failure)?;
    if args.store.json {
        print_json(&json!({
            "waiting": backlog.waiting,
            "leased": backlog.leased,
            "oldest_waiting_ms": backlog.oldest_waiting.map(|age| age.as_millis() as u64),
            "dead": backlog.dead,
        }))?;
    } else {
        let oldest = backlog.oldest_waiting.map_or("-".to_owned(), short);
        print(&format!(
            "waiting         {}\n  held by relays  {}\n  oldest          {oldest}\ndead            {}\n",
            backlog.waiting, backlog.leased, backlog.dead
        ))?;
    }
    Ok(if backlog.dead == 0 { Exit::Success } else { Exit::CheckFailed })
}

impl StoreArgs {
    /// The outbox of the store.
    async fn outbox(&self) -> Result<Arc<dyn Outbox>, Failure> {
        let opened = self.open(Intent::Operate).await?;
        opened.outbox.ok_or_else(|| Failure::new(Exit::Usage, "this sort of store has no outbox"))
    }
}

fn id(text: &str) -> Result<MessageId, idem_core::outbox::NoMessageId> {
    text.parse()
}
