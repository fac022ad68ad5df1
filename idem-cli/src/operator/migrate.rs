//! `idem migrate`: brings a store's schema up to date.

use serde_json::json;

use super::{StoreArgs, file, print, print_json};
use crate::backends::Intent;
use crate::exit::{Exit, Failure};

/// Create the store's tables, or bring them up to date. Safe to run from several processes.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let missing = file::missing(&args.store.store);
    args.store.open(Intent::Migrate).await?;
    if args.store.json {
        print_json(&json!({ "migrated": true, "created": missing.is_some() }))?;
    } else {
        match missing {
            Some(file) => print(&format!("made a new store in {}\n", file.display()))?,
            None => print("the schema is up to date\n")?,
        }
    }
    Ok(Exit::Success)
}
