//! `idem list`: the records of a store.

use idem_core::admin::{Filter, StateFilter};
use idem_core::key::Scope;
use idem_core::record::{Observed, OperationName};
use idem_core::store::{Cursor, MAX_PAGE};
use serde_json::Value;

use super::condition::{LEGEND, PolicyArgs};
use super::cursor;
use super::show::{HEADINGS, to_json, to_row};
use super::table::table;
use super::{StoreArgs, print, print_json};
use crate::backends::{Intent, store_failure};
use crate::exit::{Exit, Failure};

/// List records by scope and key.
#[derive(Debug, clap::Args)]
#[command(after_help = LEGEND)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// Only this scope.
    #[arg(long, value_parser = scope)]
    scope: Option<Scope>,

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
    policy: PolicyArgs,
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
    let opened = args.store.open(Intent::Operate).await?;
    let mut filter = Filter::all();
    filter.scope = args.scope;
    filter.operation = args.operation;
    filter.state = args.state.map(|state| match state {
        State::Live => StateFilter::Live,
        State::Lapsed => StateFilter::Lapsed,
        State::Completed => StateFilter::Completed,
    });
    let mut records: Vec<Observed> = Vec::new();
    let mut after = args.after;
    while records.len() < args.limit as usize {
        let left = (args.limit as usize - records.len()).min(MAX_PAGE as usize);
        let size = u32::try_from(left).unwrap_or(MAX_PAGE);
        let page = opened.store.list(&filter, after.as_ref(), size).await.map_err(store_failure)?;
        records.extend(page.records);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    show(&records, after.as_ref(), args.store.json, &args.policy)?;
    Ok(Exit::Success)
}

/// Prints records, and says where the next ones are.
pub(super) fn show(
    records: &[Observed],
    next: Option<&Cursor>,
    json: bool,
    policy: &PolicyArgs,
) -> Result<(), Failure> {
    let next = next.map(cursor::show);
    if json {
        let records: Vec<Value> = records.iter().map(|record| to_json(record, policy)).collect();
        let more = next.is_some();
        return print_json(&serde_json::json!({ "records": records, "more": more, "next": next }));
    }
    if records.is_empty() {
        return print("no records\n");
    }
    let rows: Vec<Vec<String>> = records.iter().map(|record| to_row(record, policy)).collect();
    let mut text = table(&HEADINGS, &rows);
    if let Some(next) = next {
        text.push_str(&format!("there are more: --after {next}\n"));
    }
    print(&text)
}

fn scope(text: &str) -> Result<Scope, idem_core::key::NameError> {
    Scope::new(text)
}

fn operation(text: &str) -> Result<OperationName, idem_core::key::NameError> {
    OperationName::new(text)
}
