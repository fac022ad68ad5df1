//! Chapter: the same request again, after the first one has finished.

use std::io::Write;
use std::net::SocketAddr;

use super::answers::{header, is_replay, status, substance};
use super::report::Report;
use super::stage::{PATIENCE, Stage};
use crate::exit::Failure;

pub(super) async fn tell<W: Write>(
    stage: &Stage,
    server: SocketAddr,
    report: &mut Report<W>,
) -> Result<(), Failure> {
    report.chapter(
        "A retry after the answer was lost",
        "The charge was made, and the answer never arrived. The client sends it again.",
    );
    let account = stage.account("replay");
    let request = account.charge(2500);
    report.sent(&request);
    let first = request.send(server, PATIENCE).await;
    report.received(&first);
    report.sent(&request);
    let again = request.send(server, PATIENCE).await;
    report.received(&again);
    let ledger = stage.ledger(&account).await?;
    report.ledger(&ledger);

    report.expect(
        status(&first) == 201 && !is_replay(&first),
        "the first answer is a 201 and no replay",
        status(&first),
    );
    report.expect(
        substance(&first).is_some() && substance(&again) == substance(&first),
        "the second is the same byte for byte, header fields in the same order",
        format!("{:?}", substance(&again)),
    );
    report.expect(is_replay(&again), "it says that it is a replay", "no mark");
    let lifetime = header(&again, "idempotency-key-lifetime");
    let seconds = lifetime.as_ref().and_then(|text| text.parse::<u64>().ok());
    report.expect(
        seconds.is_some_and(|seconds| seconds > 0),
        "it says for how many seconds a retry is still safe",
        lifetime.unwrap_or_default(),
    );
    report.expect(ledger.effects == 1, "the ledger holds one charge", ledger.effects);
    report.expect(ledger.calls == 1, "the card network was called once", ledger.calls);
    Ok(())
}
