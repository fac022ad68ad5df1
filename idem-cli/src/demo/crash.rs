//! Chapter: the server is killed exactly between the charge and the record of it.

use std::io::Write;

use super::answers::{is_replay, status, substance};
use super::report::Report;
use super::stage::{LEASE, PATIENCE, Stage, reached, retried, setup};
use crate::exit::Failure;

pub(super) async fn tell<W: Write>(stage: &Stage, report: &mut Report<W>) -> Result<(), Failure> {
    report.chapter(
        "SIGKILL between the charge and the record",
        "The card network has charged. The server dies before it has written anything down.",
    );
    let account = stage.account("crash");
    let request = account.charge(4200);
    let file = stage.file("charged");
    let failpoint = format!("after-call=wait:{}", file.display());
    let server = stage.server(&["--failpoint", &failpoint]).await?;
    report.sent(&request);
    let (address, id) = (server.address(), server.id());
    let sending = tokio::spawn({
        let request = request.clone();
        async move { request.send(address, PATIENCE).await }
    });
    reached(&file).await?;
    let between = stage.ledger(&account).await?;
    report.note("the charge is made; the server has its answer, and has stored nothing of it");
    report.ledger(&between);
    server.kill().await?;
    report.note(&format!("kill -KILL {id}"));
    let lost = sending.await.map_err(setup)?;
    report.received(&lost);

    let server = stage.server(&[]).await?;
    report.note("a new server on the same store; the client sends its request again");
    report.sent(&request);
    let (recovered, before) = retried(&request, server.address()).await;
    if !before.is_empty() {
        report.note(&format!(
            "409 {} time(s) while the lease of {LEASE:?} ran, retried as it said",
            before.len()
        ));
    }
    report.received(&recovered);
    let again = request.send(server.address(), PATIENCE).await;
    let record = stage.record(&account).await?;
    let ledger = stage.ledger(&account).await?;
    report.note(&format!("the record: {record}"));
    report.ledger(&ledger);

    report.expect(
        lost.is_err() && between.calls == 1 && between.effects == 1,
        "the first client was charged once and has no answer",
        format!("{} call(s), {} charge(s)", between.calls, between.effects),
    );
    report.expect(
        status(&recovered) == 201 && !is_replay(&recovered),
        "the retry after the lease is executed, and answered with 201",
        status(&recovered),
    );
    report.expect(record.is_completed_at(2), "the record was completed by attempt 2", &record);
    let one_key = ledger.data.len() == 1 && ledger.data[0].charge.calls == 2;
    report.expect(
        ledger.calls == 2 && one_key,
        "the card network was called twice, under one downstream key",
        format!("{} call(s) under {} key(s)", ledger.calls, ledger.data.len()),
    );
    report.expect(ledger.effects == 1, "the ledger holds one charge", ledger.effects);
    report.expect(
        is_replay(&again) && substance(&again) == substance(&recovered),
        "from now on the recovered answer is replayed",
        status(&again),
    );
    server.stop().await.map(drop)
}
