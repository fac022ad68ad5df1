//! `idem outbox requeue` and `idem outbox discard`: a person decides on dead letters.

use std::sync::Arc;

use idem_core::error::StoreError;
use idem_core::outbox::{MessageId, MessageState, Outbox};
use idem_core::store::MAX_PAGE;
use serde_json::json;

use super::id;
use crate::backends::store_failure;
use crate::exit::{Exit, Failure};
use crate::operator::{StoreArgs, print, print_json};

/// Put dead letters back in their old place, to be sent anew with the same ids.
///
/// A consumer that has forgotten such an id by now takes the message for a new one.
#[derive(Debug, clap::Args)]
pub(super) struct RequeueArgs {
    #[command(flatten)]
    which: Which,
}

/// Delete dead letters for good. They are never sent.
#[derive(Debug, clap::Args)]
pub(super) struct DiscardArgs {
    #[command(flatten)]
    which: Which,
}

/// Which dead letters.
#[derive(Debug, clap::Args)]
struct Which {
    #[command(flatten)]
    store: StoreArgs,

    /// The ids, as `idem outbox dead` shows them.
    #[arg(value_name = "ID", value_parser = id, required_unless_present = "all", num_args = 1..)]
    ids: Vec<MessageId>,

    /// All dead letters that there are now; needs --yes.
    #[arg(long, conflicts_with = "ids", requires = "yes")]
    all: bool,

    /// Do it to all of them.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn requeue(args: RequeueArgs) -> Result<Exit, Failure> {
    let outbox = args.which.store.outbox().await?;
    let ids = args.which.ids(&*outbox).await?;
    let act = async |ids: Vec<MessageId>| outbox.requeue(&ids).await;
    args.which.tell("requeued", ids.len(), in_pages(&ids, act).await?)
}

pub(super) async fn discard(args: DiscardArgs) -> Result<Exit, Failure> {
    let outbox: Arc<dyn Outbox> = args.which.store.outbox().await?;
    let ids = args.which.ids(&*outbox).await?;
    let act = async |ids: Vec<MessageId>| outbox.discard(&ids).await;
    args.which.tell("discarded", ids.len(), in_pages(&ids, act).await?)
}

async fn in_pages(
    ids: &[MessageId],
    act: impl AsyncFn(Vec<MessageId>) -> Result<u64, StoreError>,
) -> Result<u64, Failure> {
    let mut done = 0;
    for page in ids.chunks(MAX_PAGE as usize) {
        done += act(page.to_vec()).await.map_err(store_failure)?;
    }
    Ok(done)
}

impl Which {
    async fn ids(&self, outbox: &dyn Outbox) -> Result<Vec<MessageId>, Failure> {
        if !self.all {
            return Ok(self.ids.clone());
        }
        let mut ids = Vec::new();
        let mut after = None;
        loop {
            let page = outbox.list(MessageState::Dead, after.as_ref(), MAX_PAGE).await;
            let page = page.map_err(store_failure)?;
            ids.extend(page.entries.iter().map(|entry| entry.message.id()));
            after = page.next;
            if after.is_none() {
                return Ok(ids);
            }
        }
    }

    /// An id that is not a dead letter's, or no longer, is told.
    fn tell(&self, what: &str, asked: usize, done: u64) -> Result<Exit, Failure> {
        let others = (asked as u64).saturating_sub(done);
        if self.store.json {
            print_json(&json!({ what: done, "not_dead": others }))?;
        } else {
            let others = match others {
                0 => String::new(),
                others => format!("; {others} are not among the dead letters"),
            };
            print(&format!("{done} {what}{others}\n"))?;
        }
        Ok(if others == 0 { Exit::Success } else { Exit::CheckFailed })
    }
}
