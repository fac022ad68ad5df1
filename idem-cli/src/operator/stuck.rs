//! `idem stuck`: records whose lease is over.

use idem_core::record::Observed;
use idem_core::store::MAX_PAGE;

use super::list::show;
use super::{StoreArgs, print};
use crate::backends::{Intent, store_failure};
use crate::exit::{Exit, Failure};

/// List the records whose lease is over, the longest first.
///
/// Exits with 1 when there are any that began, so that a monitor can call it.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// Also list records that never began: their claim was lost before anything was done.
    #[arg(long)]
    all: bool,

    /// At most so many records.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let opened = args.store.open(Intent::Operate).await?;
    let mut stuck: Vec<Observed> = Vec::new();
    let mut after = None;
    let mut more = false;
    loop {
        let page = opened.store.lapsed(after.as_ref(), MAX_PAGE).await.map_err(store_failure)?;
        for observed in page.records {
            if !(args.all || observed.record.recovery().is_some()) {
                continue;
            }
            if stuck.len() == args.limit as usize {
                more = true;
                break;
            }
            stuck.push(observed);
        }
        after = page.next;
        if more || after.is_none() {
            break;
        }
    }
    if stuck.is_empty() && !args.store.json {
        print("nothing is stuck\n")?;
    } else {
        show(&stuck, more, args.store.json)?;
    }
    let began = stuck.iter().any(|observed| observed.record.recovery().is_some());
    Ok(if began { Exit::CheckFailed } else { Exit::Success })
}
