//! The same call again (R5): its acknowledgement was lost.

use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};
use idem_core::record::Incarnation;
use idem_core::store::{Renewed, Store};

use crate::ask::{LONG, print, print_under, recovery, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, that};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "table::own_claim_again_is_acquired",
            "R5",
            "a repeated claim finds its own row: Acquired, same fence, nothing else changed",
            own_again,
        ),
        Case::new(
            "table::own_claim_again_has_a_live_lease",
            "R5, R6",
            "a repeated claim of a lapsed record of its own gets a lease that runs",
            own_lapsed,
        ),
        Case::new(
            "table::own_claim_again_shortens_nothing",
            "R5, R8",
            "a delayed copy of a claim never shortens the lease",
            own_shortens_nothing,
        ),
        Case::new(
            "table::own_claim_again_keeps_what_was_done",
            "R5",
            "a repeated claim is told its recovery point and its input, and keeps both",
            own_keeps_recovery,
        ),
        Case::new(
            "table::own_row_comes_before_every_other",
            "R5",
            "its own row is found before scheme, request or policy are looked at",
            own_row_first,
        ),
        Case::new(
            "table::own_claim_after_giving_up_stays_given_up",
            "R8",
            "a late copy of a claim gets the record back, and no heartbeat prolongs that",
            own_given_up,
        ),
        Case::new(
            "table::own_claim_after_completion_is_a_replay",
            "R5",
            "a repeated claim of a record that was completed is told the reply",
            own_completed,
        ),
    ]
}

async fn own_again(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let ask = cx.ask("k").input("input");
    let first = acquire(&a, &ask).await?;
    let before = present(&a, &ask).await?.record;
    let second = acquire(&b, &ask).await?;
    equal("the second fence", second.fence, first.fence)?;
    equal("the second input", second.input, ask.input.clone())?;
    let mut after = present(&a, &ask).await?.record;
    after.state = before.state.clone(); // Its lease may have moved on.
    equal("the record", after, before)
}

async fn own_lapsed(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let first = cx.lapsed(&peer, &ask).await?;
    let second = acquire(&peer, &ask).await?;
    equal("the second fence", second.fence, first.fence)?;
    that(!second.lease.is_zero(), "a lease that runs", second.lease)?;
    let seen = present(&peer, &ask).await?;
    that(seen.lapsed_for().is_none(), "the record to be live again", seen.record.state)
}

async fn own_shortens_nothing(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    acquire(&peer, &ask).await?;
    let again = acquire(&peer, &ask.lease(Duration::from_secs(1))).await?;
    that(again.lease > LONG / 2, "the longer lease to stand", again.lease)
}

async fn own_keeps_recovery(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").input("input");
    let first = acquire(&peer, &ask).await?;
    peer.checkpoint(&first.fence, &recovery(1, "one"), LONG).await?;
    let second = acquire(&peer, &ask).await?;
    equal("the recovery point", second.recovery, Some(recovery(1, "one")))?;
    equal("the input", second.input, ask.input.clone())?;
    let stored = present(&peer, &ask).await?.record;
    equal("the stored recovery point", stored.recovery(), Some(&recovery(1, "one")))
}

async fn own_row_first(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let first = acquire(&peer, &ask).await?;
    let no_such = Incarnation::from_bytes(cx.random().bytes());
    let only = Takeover::Only { incarnation: no_such, attempt: 7, younger_than: None };
    let variants = [
        ask.clone().print(print(2)),
        ask.clone().print(print_under(9, 1)),
        ask.clone().operation("refund"),
        ask.clone().takeover(Takeover::Never),
        ask.clone().takeover(only),
    ];
    for variant in variants {
        let again = acquire(&peer, &variant).await?;
        equal("the fence", again.fence, first.fence.clone())?;
        equal("the fingerprint that stands", again.fingerprint, print(1))?;
    }
    equal("the stored operation", present(&peer, &ask).await?.record.operation, ask.operation)
}

async fn own_given_up(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let first = acquire(&peer, &ask).await?;
    equal("giving up", peer.renew(&first.fence, Duration::ZERO).await?, Renewed::GivenUp)?;
    let late = acquire(&peer, &ask).await?;
    equal("the late copy's fence", &late.fence, &first.fence)?;
    that(!late.lease.is_zero(), "a lease that is not over", late.lease)?;
    equal("a heartbeat after it", peer.renew(&late.fence, LONG).await?, Renewed::GivenUp)
}

async fn own_completed(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let first = acquire(&peer, &ask).await?;
    peer.complete(&first.fence, &sealed("done")).await?;
    match peer.claim(&ask.claim()).await? {
        Claimed::Completed(replay) => {
            equal("the reply", replay.reply, sealed("done"))?;
            equal("the fence it was completed under", replay.fence, first.fence)
        }
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}
