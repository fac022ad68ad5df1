//! `idem forget`: deletes the completed records of one scope.

use std::time::Duration;

use serde_json::json;

use super::record::whole_scope;
use super::{StoreArgs, print, print_json};
use crate::backends::{Intent, store_failure};
use crate::exit::{Exit, Failure};

/// How many records go in one batch, and how long claims get their turn between two.
const BATCH: u32 = 500;
const PAUSE: Duration = Duration::from_millis(50);

/// Delete the completed records of one scope: a customer who asks to be forgotten, say.
///
/// A retry of a request that was forgotten runs again. What is in progress stays and is counted:
/// settle or release it first, or wait for it. Exits with 1 when something stayed, and when there
/// was nothing at all: a mistyped scope has no records either.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// Whose records, as `list` shows it; whole.
    #[arg(long)]
    scope: String,

    /// Do it: retries of these requests run again.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let scope = whole_scope(&args.scope)?;
    if !args.yes {
        let why = "nothing was done; with --yes the replies of this scope go, and retries of \
                   their requests run again";
        return Err(Failure::new(Exit::Usage, why));
    }
    let opened = args.store.open(Intent::Operate).await?;
    let mut deleted = 0;
    let in_progress = loop {
        let forgotten = opened.store.forget(&scope, BATCH).await.map_err(store_failure)?;
        deleted += forgotten.deleted;
        if !forgotten.more {
            break forgotten.in_progress;
        }
        tokio::time::sleep(PAUSE).await;
    };
    if (deleted, in_progress) == (0, 0) {
        let why = "there is no record of this scope, so nothing was deleted; `idem list` shows \
                   the scopes that there are";
        let failure = Failure::new(Exit::CheckFailed, why);
        return Err(failure.with("deleted", 0).with("in_progress", 0));
    }
    if args.store.json {
        print_json(&json!({ "deleted": deleted, "in_progress": in_progress }))?;
    } else {
        let stays = match in_progress {
            0 => String::new(),
            count => format!("; {count} in progress stay: see `idem list --scope`"),
        };
        print(&format!("{deleted} deleted{stays}\n"))?;
    }
    Ok(if in_progress == 0 { Exit::Success } else { Exit::CheckFailed })
}
