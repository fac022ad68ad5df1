//! The store's own transaction: rows and record stand or fall together (R19).

mod bounded;
mod commits;
mod repeats;

use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, setup};
use crate::effects::{Transaction, Transactions};
use crate::failure::{CaseResult, Failure, equal};

pub(super) fn cases() -> Vec<Case> {
    let cases = [commits::cases(), repeats::cases(), bounded::cases()].concat();
    cases.into_iter().map(|case| case.needing(&[Capability::Transactions])).collect()
}

/// A row's text that no other case writes.
fn marker(cx: &Context, label: &str) -> String {
    format!("{} {label}", cx.prefix())
}

async fn insert(
    transactions: &dyn Transactions,
    tx: &mut Transaction,
    marker: &str,
) -> Result<(), Failure> {
    transactions.insert_in(tx, marker).await.map_err(|error| setup("a row", &error))
}

/// Counts the committed rows: an answer alone proves nothing.
async fn rows(transactions: &dyn Transactions, marker: &str, expected: u64) -> CaseResult {
    let count = transactions.count(marker).await;
    let count = count.map_err(|error| setup("a count of rows", &error))?;
    equal("the committed rows", count, expected)
}
