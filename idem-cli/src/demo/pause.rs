//! Chapter: the holder of a claim is paused past its lease, and wakes after another took over.

use std::io::Write;

use super::answers::{is_replay, status, substance};
use super::report::Report;
use super::stage::{LEASE, PATIENCE, Stage, reached, retried, setup};
use crate::exit::Failure;

/// What a server with failpoints says when the store refuses its reply.
const REFUSED: &str = "the store refused a reply of attempt 1: its fence is lost";

pub(super) async fn tell<W: Write>(stage: &Stage, report: &mut Report<W>) -> Result<(), Failure> {
    report.chapter(
        "SIGSTOP past the lease, takeover, SIGCONT",
        "The server freezes right before it stores its reply. Another one takes over. It wakes up.",
    );
    let account = stage.account("pause");
    let request = account.charge(777);
    let file = stage.file("about-to-store");
    let failpoint = format!("before-complete=wait:{}", file.display());
    let mut old = stage.server(&["--failpoint", &failpoint]).await?;
    let new = stage.server(&[]).await?;
    report.sent(&request);
    let (old_address, old_id) = (old.address(), old.id());
    let waiting = tokio::spawn({
        let request = request.clone();
        // Longer than anything that happens meanwhile.
        async move { request.send(old_address, 2 * PATIENCE).await }
    });
    reached(&file).await?;
    stage.pause(&old, &account).await?;
    std::fs::remove_file(&file).map_err(setup)?;
    report.note("the charge is made, and is the recovery point; the reply is not stored yet");
    report.note(&format!("kill -STOP {old_id}"));

    report.note("the client gives up and sends its request to another server");
    report.sent(&request);
    let (recovered, before) = retried(&request, new.address()).await;
    if !before.is_empty() {
        report.note(&format!(
            "409 {} time(s) while the lease of {LEASE:?} ran, retried as it said",
            before.len()
        ));
    }
    report.received(&recovered);
    let taken_over = stage.record(&account).await?;
    report.note(&format!("the record: {taken_over}"));

    old.go_on()?;
    report.note(&format!("kill -CONT {old_id}: the old server goes on, and stores its reply"));
    let late = waiting.await.map_err(setup)?;
    let refused = old.says(REFUSED, PATIENCE).await;
    report.note("what the old server answers to the first client, which is still there:");
    report.received(&late);
    let record = stage.record(&account).await?;
    let again = request.send(new.address(), PATIENCE).await;
    let ledger = stage.ledger(&account).await?;
    report.ledger(&ledger);

    report.expect(
        status(&recovered) == 201 && taken_over.is_completed_at(2),
        "after the lease the other server completed it as attempt 2",
        format!("{}; {taken_over}", status(&recovered)),
    );
    report.expect(refused, "the old server's write was refused", "no such line");
    report.expect(record.is_same(&taken_over), "the record stands as it was", &record);
    report.expect(
        is_replay(&late) && substance(&late) == substance(&recovered),
        "the old server answers with the recovered reply, not with its own",
        status(&late),
    );
    report.expect(
        is_replay(&again) && substance(&again) == substance(&recovered),
        "the recovered answer is replayed",
        status(&again),
    );
    report.expect(
        ledger.calls == 1 && ledger.effects == 1,
        "one call, one charge: the recovery point spared the second call",
        format!("{} call(s), {} charge(s)", ledger.calls, ledger.effects),
    );
    let ended = (old.stop().await?, new.stop().await?);
    report.expect(
        ended == (true, true),
        "both servers drain and end when asked",
        format!("{ended:?}"),
    );
    Ok(())
}
