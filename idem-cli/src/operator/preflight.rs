//! `idem preflight`: is this server one to trust operations to?

use idem_core::preflight::Severity;
use serde_json::json;

use super::table::table;
use super::{StoreArgs, print, print_json};
use crate::backends;
use crate::exit::{Exit, Failure};

/// Check the store's settings, and say what to change.
///
/// Exits with 1 when there is a problem; warnings do not count.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    args.store.refuse_a_missing_file()?;
    let findings = backends::preflight(&args.store.store).await?;
    let safe = findings.iter().all(|finding| finding.severity != Severity::Problem);
    if args.store.json {
        print_json(&json!({ "safe": safe, "findings": findings }))?;
    } else {
        let rows: Vec<Vec<String>> = findings
            .iter()
            .map(|finding| {
                let severity = match finding.severity {
                    Severity::Ok => "ok",
                    Severity::Warning => "warning",
                    Severity::Problem => "PROBLEM",
                };
                vec![
                    severity.into(),
                    finding.check.to_string(),
                    finding.found.to_string(),
                    finding.advice.to_string(),
                ]
            })
            .collect();
        print(&table(&["", "CHECK", "FOUND", "ADVICE"], &rows))?;
    }
    Ok(if safe { Exit::Success } else { Exit::CheckFailed })
}
