//! What was acknowledged survives a restart.

use std::time::{Duration, Instant};

use idem_core::claim::Claimed;
use idem_core::store::Store;

use crate::ask::{LONG, recovery, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, present, setup};
use crate::failure::{CaseResult, Failure, equal};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "restart::acknowledged_writes_survive",
            "R8, R10",
            "claims, recovery points, replies and releases stand after a restart",
            acknowledged_writes_survive,
        ),
        Case::new(
            "restart::old_connections_come_back",
            "R9, R25",
            "a connection from before the restart serves again, or says honestly that it cannot",
            old_connections,
        ),
    ];
    cases.into_iter().map(|case| case.needing(&[Capability::Restart])).collect()
}

async fn restart(cx: &Context) -> Result<Peer, Failure> {
    cx.trace().add("server", "restart");
    cx.fixture().restart().await.map_err(|error| setup("a restart", &error))?;
    cx.connect().await
}

async fn acknowledged_writes_survive(cx: Context) -> CaseResult {
    let before = cx.connect().await?;
    let (live, begun) = (cx.ask("live").input("input"), cx.ask("begun"));
    let (done, gone) = (cx.ask("done"), cx.ask("gone"));
    let live_fence = acquire(&before, &live).await?.fence;
    let begun_fence = acquire(&before, &begun).await?.fence;
    before.checkpoint(&begun_fence, &recovery(1, "step"), LONG).await?;
    let done_fence = acquire(&before, &done).await?.fence;
    before.complete(&done_fence, &sealed("done")).await?;
    let gone_fence = acquire(&before, &gone).await?.fence;
    before.release(&gone_fence).await?;
    let records = [
        present(&before, &live).await?.record,
        present(&before, &begun).await?.record,
        present(&before, &done).await?.record,
    ];
    drop(before);

    let after = restart(&cx).await?;
    for (ask, record) in [&live, &begun, &done].into_iter().zip(records) {
        equal("the record", present(&after, ask).await?.record, record)?;
    }
    equal("the released record", after.get(&gone.scope, &gone.key).await?, None)?;
    after.renew(&live_fence, LONG).await?;
    after.complete(&live_fence, &sealed("late")).await?;
    after.checkpoint(&begun_fence, &recovery(2, "step"), LONG).await?;
    match after.claim(&cx.again(&done).claim()).await? {
        Claimed::Completed(replay) => equal("the reply", replay.reply, sealed("done")),
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn old_connections(cx: Context) -> CaseResult {
    let old = cx.connect().await?;
    let ask = cx.ask("k");
    let held = acquire(&old, &ask).await?;
    restart(&cx).await?;
    let started = Instant::now();
    // Errors are allowed for a while, and they are honest: the same call again is harmless.
    while let Err(error) = old.complete(&held.fence, &sealed("done")).await {
        if !error.kind().is_transient() || started.elapsed() > Duration::from_secs(30) {
            return Err(error.into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    match old.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => equal("the reply", replay.reply, sealed("done")),
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}
