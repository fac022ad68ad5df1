//! A record that cannot be read fails closed (R9).

use idem_core::error::ErrorKind;
use idem_core::store::Store;

use crate::ask::{ALWAYS, Ask, LONG, print, recovery, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, setup};
use crate::failure::{CaseResult, Failure, equal, refused, that};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "damage::claim_fails_closed",
            "R9",
            "a claim of a damaged record is CorruptRecord, every time; nothing runs on it",
            claim_fails_closed,
        ),
        Case::new(
            "damage::read_is_never_absent",
            "R9",
            "a damaged record is CorruptRecord to a reader, never absent",
            read_is_never_absent,
        ),
        Case::new(
            "damage::fenced_writes_fail_closed",
            "R9",
            "no fenced write succeeds on a damaged record",
            fenced_writes_fail_closed,
        ),
        Case::new(
            "damage::others_are_served",
            "R9",
            "a damaged record harms no other, and sweeps go on",
            others_are_served,
        ),
    ];
    cases.into_iter().map(|case| case.needing(&[Capability::Damage])).collect()
}

async fn damaged(
    cx: &Context,
    peer: &Peer,
    ask: &Ask,
) -> Result<idem_core::record::Fence, Failure> {
    let held = acquire(peer, ask).await?;
    let done = cx.fixture().damage(&ask.scope, &ask.key).await;
    done.map_err(|error| setup("a damaged record", &error))?;
    Ok(held.fence)
}

async fn claim_fails_closed(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    damaged(&cx, &peer, &ask).await?;
    for other in [cx.again(&ask), cx.again(&ask).print(print(2)), ask.clone().takeover(ALWAYS)] {
        refused(peer.claim(&other.claim()).await, ErrorKind::CorruptRecord)?;
    }
    refused(peer.claim(&cx.again(&ask).claim()).await, ErrorKind::CorruptRecord)
}

async fn read_is_never_absent(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    damaged(&cx, &peer, &ask).await?;
    refused(peer.get(&ask.scope, &ask.key).await, ErrorKind::CorruptRecord)
}

async fn fenced_writes_fail_closed(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let fence = damaged(&cx, &peer, &ask).await?;
    let closed = |kind| matches!(kind, ErrorKind::CorruptRecord | ErrorKind::FenceLost);
    let kinds = [
        peer.renew(&fence, LONG).await.map(drop),
        peer.checkpoint(&fence, &recovery(1, "x"), LONG).await.map(drop),
        peer.release(&fence).await,
        peer.complete(&fence, &sealed("x")).await,
    ];
    for (verb, result) in ["renew", "checkpoint", "release", "complete"].iter().zip(kinds) {
        match result {
            Ok(()) => return Err(Failure::new("an error", format!("{verb} to succeed"))),
            Err(error) => that(closed(error.kind()), "CorruptRecord", (verb, error.kind()))?,
        }
    }
    refused(peer.claim(&cx.again(&ask).claim()).await, ErrorKind::CorruptRecord)
}

async fn others_are_served(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    damaged(&cx, &peer, &cx.ask("damaged")).await?;
    let held = acquire(&peer, &cx.ask("k")).await?;
    peer.complete(&held.fence, &sealed("done")).await?;
    let expired =
        cx.ask("old").retention(idem_core::record::Retention::of(std::time::Duration::ZERO));
    let held = acquire(&peer, &expired).await?;
    peer.complete(&held.fence, &sealed("old")).await?;
    peer.sweep(100).await?;
    equal(
        "the attempt of the new life",
        acquire(&peer, &cx.again(&expired)).await?.fence.attempt,
        1,
    )
}
