//! Chapter: many copies of one request at the same moment.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;

use tokio::task::JoinSet;

use super::answers::{is_replay, status, substance};
use super::report::Report;
use super::stage::{Stage, retried, setup};
use crate::exit::Failure;
use crate::network::Change;

/// How many copies are sent.
const COPIES: usize = 50;
/// How long the card network takes in this chapter, so that the copies really meet.
const NETWORK_DELAY_MS: u64 = 300;

pub(super) async fn tell<W: Write>(
    stage: &Stage,
    server: SocketAddr,
    report: &mut Report<W>,
) -> Result<(), Failure> {
    report.chapter(
        "Fifty duplicates at once",
        "A client, its proxy and its retries send one charge 50 times at the same moment.",
    );
    let account = stage.account("duplicates");
    let request = account.charge(1999);
    let slow = |delay_ms| Change { delay_ms: Some(delay_ms), ..Change::default() };
    stage.control(slow(NETWORK_DELAY_MS)).await?;
    report.sent(&request);
    let mut copies = JoinSet::new();
    for _ in 0..COPIES {
        let request = request.clone();
        copies.spawn(async move { retried(&request, server).await });
    }
    let mut answers = Vec::new();
    while let Some(joined) = copies.join_next().await {
        answers.push(joined.map_err(setup)?);
    }
    stage.control(slow(0)).await?;

    let mut first_statuses = BTreeMap::new();
    for (last, before) in &answers {
        let first = before.first().copied().unwrap_or(status(last));
        *first_statuses.entry(first).or_insert(0) += 1;
    }
    let counted: Vec<_> =
        first_statuses.iter().map(|(status, count)| format!("{count} × {status}")).collect();
    report.note(&format!("first answers: {}; a 409 is retried as it says", counted.join(", ")));
    let (first, _) = &answers[0];
    report.note("the answer that all of them have in the end:");
    report.received(first);
    let ledger = stage.ledger(&account).await?;
    report.ledger(&ledger);

    let allowed = first_statuses.keys().all(|status| matches!(status, 201 | 409));
    report.expect(allowed, "every first answer is a 201 or a 409", counted.join(", "));
    let equal = answers.iter().filter(|(last, _)| substance(last) == substance(first)).count();
    report.expect(
        status(first) == 201 && equal == COPIES,
        "in the end all 50 have the same 201, byte for byte",
        format!("{equal} are equal, the first is a {}", status(first)),
    );
    let executed = answers.iter().filter(|(last, _)| !is_replay(last)).count();
    report.expect(executed == 1, "one of them was executed, 49 are marked as replays", executed);
    report.expect(ledger.effects == 1, "the ledger holds one charge", ledger.effects);
    report.expect(ledger.calls == 1, "the card network was called once", ledger.calls);
    Ok(())
}
