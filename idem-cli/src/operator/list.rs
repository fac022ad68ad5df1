//! `idem list`: the records of a store.

use idem_core::admin::{Filter, StateFilter};
use idem_core::key::Scope;
use idem_core::record::{Observed, OperationName};
use idem_core::store::MAX_PAGE;
use serde_json::Value;

use super::show::{HEADINGS, to_json, to_row};
use super::table::table;
use super::{StoreArgs, print, print_json};
use crate::backends::{Intent, store_failure};
use crate::exit::{Exit, Failure};

/// List records by scope and key.
#[derive(Debug, clap::Args)]
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
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
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
    let mut after = None;
    let mut more = false;
    while records.len() < args.limit as usize {
        let left = (args.limit as usize - records.len()).min(MAX_PAGE as usize);
        let size = u32::try_from(left).unwrap_or(MAX_PAGE);
        let page = opened.store.list(&filter, after.as_ref(), size).await.map_err(store_failure)?;
        records.extend(page.records);
        more = page.next.is_some();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    show(&records, more, args.store.json)?;
    Ok(Exit::Success)
}

/// Prints records, and says when there are more.
pub(super) fn show(records: &[Observed], more: bool, json: bool) -> Result<(), Failure> {
    if json {
        let records: Vec<Value> = records.iter().map(to_json).collect();
        return print_json(&serde_json::json!({ "records": records, "more": more }));
    }
    let rows: Vec<Vec<String>> = records.iter().map(to_row).collect();
    let mut text = table(&HEADINGS, &rows);
    if more {
        text.push_str("there are more; raise --limit\n");
    }
    print(&text)
}

fn scope(text: &str) -> Result<Scope, idem_core::key::NameError> {
    Scope::new(text)
}

fn operation(text: &str) -> Result<OperationName, idem_core::key::NameError> {
    OperationName::new(text)
}
