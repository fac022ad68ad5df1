//! Chapter: requests that are refused before anything is executed.

use std::io::Write;
use std::net::SocketAddr;

use super::answers::{is_replay, problem_type, status};
use super::report::Report;
use super::stage::{PATIENCE, Stage};
use crate::exit::Failure;

pub(super) async fn tell<W: Write>(
    stage: &Stage,
    server: SocketAddr,
    report: &mut Report<W>,
) -> Result<(), Failure> {
    report.chapter(
        "No key, and a mistake that can be corrected",
        "A charge without a key is not executed. A mistake that validation finds costs no key.",
    );
    let account = stage.account("refused");
    let keyless = account.keyless_charge(1999);
    report.sent(&keyless);
    let missing = keyless.send(server, PATIENCE).await;
    report.received(&missing);
    let mistaken = account.charge(0);
    report.sent(&mistaken);
    let refused = mistaken.send(server, PATIENCE).await;
    report.received(&refused);
    let corrected = account.charge(1999);
    report.sent(&corrected);
    let charged = corrected.send(server, PATIENCE).await;
    report.received(&charged);
    let ledger = stage.ledger(&account).await?;
    report.ledger(&ledger);

    report.expect(
        status(&missing) == 400,
        "a charge without a key is a 400",
        format!("{} {}", status(&missing), problem_type(&missing)),
    );
    report.expect(status(&refused) == 400, "an amount of 0 is a 400", status(&refused));
    report.expect(
        status(&charged) == 201 && !is_replay(&charged),
        "the corrected charge works under the same key",
        status(&charged),
    );
    report.expect(ledger.effects == 1, "the ledger holds one charge", ledger.effects);
    Ok(())
}
