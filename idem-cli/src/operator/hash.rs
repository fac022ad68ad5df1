//! `idem hash`: the hash that stands for a key in the logs.

use serde_json::json;

use super::record::{KeyArgs, whole_scope};
use super::{print, print_json};
use crate::exit::{Exit, Failure};
use crate::hash_secret::HashSecretArgs;

/// Compute the hash that stands for a key in the service's logs, as `idem.key_hash`.
///
/// It needs the service's secret and no store, so it also works for a record that is gone. The way
/// back, from a hash to its record, is `idem list --key-hash`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Whose key, as `list` shows it.
    #[arg(long)]
    scope: String,

    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    secret: HashSecretArgs,

    /// Answer in JSON, for scripts.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let (scope, key) = (whole_scope(&args.scope)?, args.key.read()?);
    let hash = args.secret.needed()?.hash(&scope, &key).to_string();
    match args.json {
        true => print_json(&json!({ "key_hash": hash }))?,
        false => print(&format!("{hash}\n"))?,
    }
    Ok(Exit::Success)
}
