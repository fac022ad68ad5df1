//! `idem sweep`: deletes what has expired.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use serde_json::json;

use super::{StoreArgs, print, print_json};
use crate::backends::{Intent, store_failure};
use crate::duration;
use crate::exit::{Exit, Failure};

/// Delete expired records in small batches. Nothing in progress is touched, save lapsed claims
/// that never began and have outlived their retention.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// How many records go in one batch, up to 1000.
    #[arg(long, value_name = "N", default_value_t = 500)]
    batch: u32,

    /// How long to pause between batches, so that claims get their turn.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = duration::parse)]
    pause: Duration,

    /// Stop after so many records.
    #[arg(long, value_name = "N")]
    max: Option<u64>,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let opened = args.store.open(Intent::Operate).await?;
    let progress = std::io::stderr().is_terminal() && !args.store.json;
    let mut deleted = 0_u64;
    let more = loop {
        let left = args.max.map_or(u64::MAX, |max| max.saturating_sub(deleted));
        if left == 0 {
            break true;
        }
        let batch = u32::try_from(left).unwrap_or(u32::MAX).min(args.batch);
        let swept = opened.store.sweep(batch).await.map_err(store_failure)?;
        deleted += u64::from(swept.deleted);
        if progress {
            let _ = write!(std::io::stderr(), "\r{deleted} deleted");
        }
        if !swept.more {
            break false;
        }
        tokio::time::sleep(args.pause).await;
    };
    if progress {
        let _ = writeln!(std::io::stderr());
    }
    if args.store.json {
        print_json(&json!({ "deleted": deleted, "more": more }))?;
    } else {
        print(&format!("{deleted} deleted{}\n", if more { "; there may be more" } else { "" }))?;
    }
    Ok(Exit::Success)
}
