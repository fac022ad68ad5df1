//! `idem outbox list` and `idem outbox dead`.

use idem_core::outbox::{Entry, MessageState};
use idem_core::store::{Cursor, MAX_PAGE};
use serde_json::{Value, json};

use super::show::{HEADINGS, to_json, to_row};
use crate::backends::store_failure;
use crate::exit::{Exit, Failure};
use crate::operator::table::{Fitted, fitted};
use crate::operator::{StoreArgs, cursor, print, print_json};

/// List messages in their order.
///
/// Payloads and headers are not shown. A message that waits behind one of its own ordering key is
/// due, and held back all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = LEGEND)]
pub(super) struct Args {
    /// Which messages.
    #[arg(long, default_value = "waiting")]
    state: State,

    #[command(flatten)]
    more: DeadArgs,
}

/// List the messages that were given up, in their order.
#[derive(Debug, clap::Args)]
#[command(after_help = LEGEND)]
pub(super) struct DeadArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// At most so many messages.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,

    /// Go on after this place, which the page before named.
    #[arg(long, value_name = "CURSOR", value_parser = cursor::parse)]
    after: Option<Cursor>,
}

const LEGEND: &str = "\
Fields:
  NUMBER    its place: within an ordering key, lower numbers go first
  ID        the same on every delivery; requeue and discard take it
  ORDER     its ordering key
  FAILURES  how many deliveries failed
  NEXT      how long a relay still holds it, or when it is tried again
  REASON    why its last delivery failed, or why it was given up";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum State {
    /// To be sent, now or later.
    Waiting,
    /// Sent, and kept for a while.
    Sent,
    /// Given up.
    Dead,
}

impl From<DeadArgs> for Args {
    fn from(more: DeadArgs) -> Self {
        Self { state: State::Dead, more }
    }
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let state = match args.state {
        State::Waiting => MessageState::Waiting,
        State::Sent => MessageState::Sent,
        State::Dead => MessageState::Dead,
    };
    let DeadArgs { store, limit, after } = args.more;
    let outbox = store.outbox().await?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut after = after;
    loop {
        let left = (limit as usize - entries.len()).min(MAX_PAGE as usize) as u32;
        let page = outbox.list(state, after.as_ref(), left).await.map_err(store_failure)?;
        entries.extend(page.entries);
        after = page.next;
        if after.is_none() || entries.len() >= limit as usize {
            break;
        }
    }
    let next = after.as_ref().map(cursor::show);
    if store.json {
        let messages: Vec<Value> = entries.iter().map(to_json).collect();
        print_json(&json!({ "messages": messages, "more": next.is_some(), "next": next }))?;
    } else if entries.is_empty() {
        print("no messages\n")?;
    } else {
        let rows: Vec<Vec<String>> = entries.iter().map(to_row).collect();
        // Topic and ordering key.
        let Fitted { mut text, is_cut } = fitted(&HEADINGS, rows, &[2, 3]);
        if is_cut {
            text.push_str("… stands for what has no room here: --json shows all\n");
        }
        if let Some(next) = next {
            text.push_str(&format!("there are more: --after {next}\n"));
        }
        print(&text)?;
    }
    Ok(Exit::Success)
}
