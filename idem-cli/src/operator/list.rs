//! `idem list`: the records of a store.

use idem_core::admin::{Filter, StateFilter};
use idem_core::key::Scope;
use idem_core::record::{Observed, OperationName};
use idem_core::store::{Cursor, MAX_PAGE};
use serde_json::Value;

use super::condition::LEGEND;
use super::show::{View, ViewArgs, headings, to_json, to_row};
use super::table::{Fitted, fitted};
use super::text::unescape;
use super::{StoreArgs, print, print_json};
use super::{cursor, find};
use crate::backends::{Intent, store_failure};
use crate::exit::{Exit, Failure};
use crate::hash_secret::HashSecretArgs;

/// List records by scope and key.
#[derive(Debug, clap::Args)]
#[command(after_help = LEGEND)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// Only this scope, as `list` shows it.
    #[arg(long, value_parser = scope)]
    scope: Option<Scope>,

    /// Only scopes that begin so.
    #[arg(long, value_name = "TEXT", conflicts_with = "scope", value_parser = prefix)]
    scope_prefix: Option<Prefix>,

    /// Only the key that this hash stands for in the logs; needs --hash-secret. All records may
    /// have to be looked through for it.
    #[arg(long, value_name = "HASH")]
    key_hash: Option<String>,

    /// Only this operation.
    #[arg(long, value_parser = operation)]
    operation: Option<OperationName>,

    /// Only this state.
    #[arg(long)]
    state: Option<State>,

    /// At most so many records.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Go on after this place, which the page before named.
    #[arg(long, value_name = "CURSOR", value_parser = cursor::parse)]
    after: Option<Cursor>,

    #[command(flatten)]
    view: ViewArgs,
}

/// A state, as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum State {
    /// In progress under a lease that runs.
    Live,
    /// In progress, the lease over.
    Lapsed,
    /// Completed and kept.
    Completed,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let view = args.view.view()?;
    if args.key_hash.is_some() && view.hasher.is_none() {
        return Err(HashSecretArgs::missing());
    }
    let opened = args.store.open(Intent::Operate).await?;
    let filter = args.filter();
    let mut records: Vec<Observed> = Vec::new();
    let mut after = args.after.clone();
    while records.len() < args.limit as usize {
        let size = args.page_size(records.len());
        let page = opened.store.list(&filter, after.as_ref(), size).await.map_err(store_failure)?;
        let is_past = page.records.last().is_some_and(|seen| args.is_past(seen));
        after = page.next.filter(|_| !is_past);
        records.extend(page.records.into_iter().filter(|seen| args.shows(seen, &view)));
        if after.is_none() {
            break;
        }
    }
    show(&records, after.as_ref(), args.store.json, &view)?;
    Ok(Exit::Success)
}

/// The beginning of a scope.
#[derive(Debug, Clone)]
struct Prefix(Vec<u8>);

impl Args {
    /// What the store itself looks for.
    fn filter(&self) -> Filter {
        let mut filter = Filter::all();
        filter.scope = self.scope.clone();
        filter.operation = self.operation.clone();
        filter.state = self.state.map(|state| match state {
            State::Live => StateFilter::Live,
            State::Lapsed => StateFilter::Lapsed,
            State::Completed => StateFilter::Completed,
        });
        filter
    }

    /// How many records to ask for at once, with so many found. A hash stands for one key, so a
    /// large page does not find more than are asked for, and all records are soon looked through.
    fn page_size(&self, found: usize) -> u32 {
        let left = u32::try_from((self.limit as usize).saturating_sub(found)).unwrap_or(MAX_PAGE);
        if self.key_hash.is_some() { MAX_PAGE } else { left.min(MAX_PAGE) }
    }

    /// What the store's own filter does not know of.
    fn shows(&self, seen: &Observed, view: &View<'_>) -> bool {
        let scope = seen.record.scope.as_bytes();
        let begins_so =
            self.scope_prefix.as_ref().is_none_or(|prefix| scope.starts_with(&prefix.0));
        begins_so && (self.key_hash.is_none() || self.key_hash == view.key_hash(seen))
    }

    /// Whether nothing more can follow: the listing is in byte order.
    fn is_past(&self, seen: &Observed) -> bool {
        let scope = seen.record.scope.as_bytes();
        self.scope_prefix.as_ref().is_some_and(|prefix| find::is_past(scope, &prefix.0))
    }
}

/// What `…` is.
const CUT: &str = "\
… stands for what has no room here: --json shows all, --scope-prefix takes the beginning of a scope
";

/// What a question mark is.
const UNSURE: &str = "\
? it is held if the service allows no more; --cap, --window and --holds say what it allows
";

/// Prints records, and says where the next ones are.
pub(super) fn show(
    records: &[Observed],
    next: Option<&Cursor>,
    json: bool,
    view: &View<'_>,
) -> Result<(), Failure> {
    let next = next.map(cursor::show);
    if json {
        let records: Vec<Value> = records.iter().map(|record| to_json(record, view)).collect();
        let more = next.is_some();
        return print_json(&serde_json::json!({ "records": records, "more": more, "next": next }));
    }
    if records.is_empty() {
        return print("no records\n");
    }
    let rows: Vec<Vec<String>> = records.iter().map(|record| to_row(record, view)).collect();
    let is_unsure = records.iter().any(|seen| view.policy.is_unsure(seen));
    // Scope and key.
    let Fitted { mut text, is_cut } = fitted(&headings(view), rows, &[0, 1]);
    if is_cut {
        text.push_str(CUT);
    }
    if is_unsure {
        text.push_str(UNSURE);
    }
    if let Some(next) = next {
        text.push_str(&format!("there are more: --after {next}\n"));
    }
    print(&text)
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::from_bytes(unescape(text)?).map_err(|error| error.to_string())
}

fn prefix(text: &str) -> Result<Prefix, String> {
    unescape(text).map(Prefix)
}

fn operation(text: &str) -> Result<OperationName, idem_core::key::NameError> {
    OperationName::new(text)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        list: Args,
    }

    #[test]
    fn a_key_is_looked_for_in_large_pages_and_no_other_page_is_larger_than_the_limit() {
        let size = |more: &[&str], found| {
            let args = [&["list", "--store", "memory:"][..], more].concat();
            Command::try_parse_from(args).unwrap().list.page_size(found)
        };
        assert_eq!(size(&["--limit", "1", "--key-hash", "2ff92493d03c0dbb"], 0), MAX_PAGE);
        assert_eq!((size(&["--limit", "7"], 0), size(&["--limit", "7"], 5)), (7, 2));
        assert_eq!(size(&["--limit", "4000000000"], 5), MAX_PAGE);
    }
}
