//! `idem stats`: how many records there are of each sort.

use serde_json::json;

use super::age::short;
use super::{StoreArgs, print, print_json};
use crate::backends::{Intent, store_failure};
use crate::exit::{Exit, Failure};

/// Count the records by what they are.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let opened = args.store.open(Intent::Operate).await?;
    let stats = opened.store.stats().await.map_err(store_failure)?;
    if args.store.json {
        print_json(&json!({
            "live": stats.live,
            "stuck": stats.lapsed_begun,
            "not_begun": stats.lapsed_not_begun,
            "completed": stats.completed,
            "expired": stats.expired,
            "oldest_lapse_ms": stats.oldest_lapse.map(|lapse| lapse.as_millis() as u64),
            "outbox_pending": stats.outbox_pending,
            // As they were called first; the two above are the table's.
            "lapsed_begun": stats.lapsed_begun,
            "lapsed_not_begun": stats.lapsed_not_begun,
        }))?;
        return Ok(Exit::Success);
    }
    let mut text = format!(
        "live               {}\nstuck              {}\nnot begun          {}\n\
         completed          {}\nexpired            {}\n",
        stats.live, stats.lapsed_begun, stats.lapsed_not_begun, stats.completed, stats.expired
    );
    if let Some(lapse) = stats.oldest_lapse {
        text.push_str(&format!("oldest lapse       {} ago\n", short(lapse)));
    }
    if let Some(pending) = stats.outbox_pending {
        text.push_str(&format!("outbox pending     {pending}\n"));
    }
    print(&text)?;
    Ok(Exit::Success)
}
