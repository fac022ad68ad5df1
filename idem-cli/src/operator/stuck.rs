//! `idem stuck`: records whose lease is over.

use idem_core::record::Observed;
use idem_core::store::{Cursor, MAX_PAGE};

use super::condition::{Condition, LEGEND};
use super::cursor;
use super::list::show;
use super::show::ViewArgs;
use super::{StoreArgs, print};
use crate::backends::{Intent, store_failure};
use crate::exit::{Exit, Failure};

/// List the records whose lease is over, the longest first.
///
/// Exits with 1 when there are any that began, so that a monitor can call it; with --held only
/// when some wait for a person.
#[derive(Debug, clap::Args)]
#[command(after_help = LEGEND)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// Also list records that never began: their claim was lost before anything was done.
    #[arg(long, conflicts_with = "held")]
    all: bool,

    /// Only those that are held for a person. The store does not know what the service allows, so
    /// one of --cap, --window and --holds has to tell it.
    #[arg(long)]
    held: bool,

    /// At most so many records.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,

    /// Go on after this place, which the page before named.
    #[arg(long, value_name = "CURSOR", value_parser = cursor::parse)]
    after: Option<Cursor>,

    #[command(flatten)]
    view: ViewArgs,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    if args.held && args.view.policy.says_nothing() {
        // A monitor would be told for ever that nothing waits.
        let why = "--held needs --cap, --window or --holds: what the service allows";
        return Err(Failure::new(Exit::Usage, why));
    }
    let view = args.view.view()?;
    let opened = args.store.open(Intent::Operate).await?;
    let mut stuck: Vec<Observed> = Vec::new();
    let mut after = args.after.clone();
    loop {
        let left = (args.limit as usize - stuck.len()).min(MAX_PAGE as usize) as u32;
        let page = opened.store.lapsed(after.as_ref(), left).await.map_err(store_failure)?;
        stuck.extend(page.records.into_iter().filter(|seen| args.shows(seen)));
        after = page.next;
        if after.is_none() || stuck.len() >= args.limit as usize {
            break;
        }
    }
    if stuck.is_empty() && !args.store.json {
        let held = "nothing is held, as far as --cap, --window and --holds tell; `idem stuck` \
                    without --held lists all that is stuck\n";
        print(if args.held { held } else { "nothing is stuck\n" })?;
    } else {
        show(&stuck, after.as_ref(), args.store.json, &view)?;
    }
    let began = stuck.iter().any(|seen| view.policy.judge(seen).0 != Condition::NotBegun);
    Ok(if began { Exit::CheckFailed } else { Exit::Success })
}

impl Args {
    fn shows(&self, seen: &Observed) -> bool {
        match self.view.policy.judge(seen).0 {
            Condition::NotBegun => self.all,
            Condition::Held => true,
            _ => !self.held,
        }
    }
}
