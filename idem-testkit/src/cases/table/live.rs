//! Somebody else's live record.

use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};
use idem_core::store::Store;

use crate::ask::{LONG, print};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, that};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "table::live_is_in_progress",
            "R2",
            "a claim of a live record is told InProgress and how long the lease still runs",
            live_is_in_progress,
        ),
        Case::new(
            "table::live_with_another_request_is_a_mismatch",
            "R4",
            "another body under a live key is a mismatch, not in progress",
            |cx| live_differs(cx, 2, "charge"),
        ),
        Case::new(
            "table::live_with_another_operation_is_a_mismatch",
            "R4",
            "another operation under a live key is a mismatch, whatever its body",
            |cx| live_differs(cx, 1, "refund"),
        ),
        Case::new(
            "table::live_is_not_taken_by_only",
            "R2",
            "not even the right incarnation and attempt take a live record",
            live_is_not_taken_by_only,
        ),
        Case::new(
            "table::third_caller_is_refused_too",
            "R2",
            "a refused caller frees nothing: the next one is refused as well",
            third_caller,
        ),
    ]
}

async fn live_is_in_progress(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let ask = cx.ask("k");
    acquire(&a, &ask).await?;
    let before = present(&a, &ask).await?.record;
    match b.claim(&cx.again(&ask).claim()).await? {
        Claimed::InProgress { remaining } => {
            let sensible = remaining > Duration::ZERO && remaining <= LONG;
            that(sensible, "a remaining time within the lease", remaining)?;
        }
        other => return Err(Failure::new("InProgress", format!("{other:?}"))),
    }
    equal("the record", present(&a, &ask).await?.record, before)
}

async fn live_differs(cx: Context, request: u8, operation: &'static str) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    // Marked, so that only its live lease keeps it from being replaced.
    let ask = cx.ask("k").marking_begun();
    acquire(&a, &ask).await?;
    let before = present(&a, &ask).await?.record;
    let other = cx.again(&ask).print(print(request)).operation(operation);
    let claimed = b.claim(&other.claim()).await?;
    equal("the claim", claimed, Claimed::Mismatch { completed: false })?;
    equal("the record", present(&a, &ask).await?.record, before)
}

async fn live_is_not_taken_by_only(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let held = acquire(&peer, &ask).await?;
    let only = Takeover::Only {
        incarnation: held.fence.incarnation,
        attempt: held.fence.attempt,
        younger_than: None,
    };
    let claimed = peer.claim(&cx.again(&ask).takeover(only).claim()).await?;
    that(matches!(claimed, Claimed::InProgress { .. }), "InProgress", &claimed)?;
    equal("the stored fence", present(&peer, &ask).await?.record.fence(), held.fence)
}

async fn third_caller(cx: Context) -> CaseResult {
    let peers = cx.connect_many(3).await?;
    let ask = cx.ask("k");
    let held = acquire(&peers[0], &ask).await?;
    for peer in &peers[1..] {
        let loser = cx.again(&ask);
        let claimed = peer.claim(&loser.claim()).await?;
        that(matches!(claimed, Claimed::InProgress { .. }), "InProgress", &claimed)?;
        let mut of_loser = held.fence.clone();
        of_loser.owner = loser.owner;
        let released = peer.release(&of_loser).await;
        crate::failure::refused(released, idem_core::error::ErrorKind::FenceLost)?;
    }
    equal("the stored fence", present(&peers[0], &ask).await?.record.fence(), held.fence)
}
