//! Chapter: the same key for another request, while the first one runs and after it.

use std::io::Write;
use std::net::SocketAddr;

use super::answers::{header, is_replay, problem_type, status};
use super::report::Report;
use super::stage::{LEASE, PATIENCE, Stage, setup};
use crate::exit::Failure;
use crate::network::Change;

pub(super) async fn tell<W: Write>(
    stage: &Stage,
    server: SocketAddr,
    report: &mut Report<W>,
) -> Result<(), Failure> {
    report.chapter(
        "One key for two requests",
        "A client reuses a key for another amount, while the first charge is still running.",
    );
    let account = stage.account("mismatch");
    let (request, other) = (account.charge(1999), account.charge(2999));
    let hold = |hold| Change { hold: Some(hold), ..Change::default() };
    stage.control(hold(true)).await?;
    report.sent(&request);
    let running = tokio::spawn({
        let request = request.clone();
        async move { request.send(server, PATIENCE).await }
    });
    stage.held_answer().await?;
    report.note("the card network has charged, and holds its answer back");
    report.sent(&other);
    let in_flight = other.send(server, PATIENCE).await;
    report.received(&in_flight);
    report.note("the first request once more, while it is still running");
    report.sent(&request);
    let duplicate = request.send(server, PATIENCE).await;
    report.received(&duplicate);
    stage.control(hold(false)).await?;
    report.note("the card network answers; the first request gets its answer");
    let first = running.await.map_err(setup)?;
    report.received(&first);
    report.sent(&other);
    let finished = other.send(server, PATIENCE).await;
    report.received(&finished);
    let replay = request.send(server, PATIENCE).await;
    let ledger = stage.ledger(&account).await?;
    report.ledger(&ledger);

    report.expect(
        status(&in_flight) == 422,
        "another request under the key is a 422 while the first one runs",
        format!("{} {}", status(&in_flight), problem_type(&in_flight)),
    );
    let seconds = header(&duplicate, "retry-after").and_then(|text| text.parse::<u64>().ok());
    let in_lease = seconds.is_some_and(|seconds| (1..=LEASE.as_secs()).contains(&seconds));
    report.expect(
        status(&duplicate) == 409 && in_lease,
        "a duplicate is a 409 that says when to come back",
        format!("{}, Retry-After {seconds:?}", status(&duplicate)),
    );
    report.expect(status(&first) == 201, "neither disturbed the first request", status(&first));
    report.expect(
        status(&finished) == 422,
        "another request under the key is a 422 after the first one finished",
        format!("{} {}", status(&finished), problem_type(&finished)),
    );
    report.expect(
        is_replay(&replay) && status(&replay) == 201,
        "the first request is still replayed",
        status(&replay),
    );
    let amounts: Vec<_> = ledger.data.iter().map(|entry| entry.charge.request.amount).collect();
    report.expect(
        amounts == [1999],
        "the ledger holds the first amount only",
        format!("{amounts:?}"),
    );
    Ok(())
}
