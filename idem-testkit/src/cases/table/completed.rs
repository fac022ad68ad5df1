//! A reply that stands.

use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};
use idem_core::record::{Retention, State};
use idem_core::store::Store;

use crate::ask::{Ask, KEPT, print, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, that};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "table::completed_is_replayed",
            "R8, R11",
            "every later claim of the same request gets the stored bytes, from any connection",
            completed_is_replayed,
        ),
        Case::new(
            "table::completed_with_another_request_is_a_mismatch",
            "R4",
            "a reply is never given to another body",
            |cx| completed_differs(cx, 2, "charge"),
        ),
        Case::new(
            "table::completed_with_another_operation_is_a_mismatch",
            "R4",
            "two jobs with one key never replay each other",
            |cx| completed_differs(cx, 1, "refund"),
        ),
        Case::new(
            "table::completed_is_replayed_to_only",
            "R2",
            "a reconciler that comes late is told the reply, and takes nothing over",
            completed_to_only,
        ),
        Case::new(
            "table::completion_keeps_the_fingerprint",
            "R4, R24",
            "what was asked is still known after completion, and the input is gone",
            completion_keeps_the_fingerprint,
        ),
        Case::new(
            "table::expires_in_is_told",
            "R11",
            "a replay says how long the reply is still kept; never for one kept for ever",
            expires_in,
        ),
    ]
}

async fn completed(peer: &Peer, ask: &Ask) -> Result<idem_core::claim::Acquired, Failure> {
    let held = acquire(peer, ask).await?;
    peer.complete(&held.fence, &sealed("the reply")).await?;
    Ok(held)
}

async fn completed_is_replayed(cx: Context) -> CaseResult {
    let peers = cx.connect_many(3).await?;
    let ask = cx.ask("k");
    let held = completed(&peers[0], &ask).await?;
    for peer in &peers {
        match peer.claim(&cx.again(&ask).claim()).await? {
            Claimed::Completed(replay) => {
                equal("the reply", replay.reply, sealed("the reply"))?;
                equal("its fence", &replay.fence, &held.fence)?;
            }
            other => return Err(Failure::new("a replay", format!("{other:?}"))),
        }
    }
    Ok(())
}

async fn completed_differs(cx: Context, request: u8, operation: &'static str) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").marking_begun();
    completed(&peer, &ask).await?;
    let before = present(&peer, &ask).await?.record;
    let other = cx.again(&ask).print(print(request)).operation(operation);
    let claimed = peer.claim(&other.claim()).await?;
    equal("the claim", claimed, Claimed::Mismatch { completed: true })?;
    equal("the record", present(&peer, &ask).await?.record, before)
}

async fn completed_to_only(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let held = completed(&peer, &ask).await?;
    let only = Takeover::Only {
        incarnation: held.fence.incarnation,
        attempt: held.fence.attempt,
        younger_than: None,
    };
    let claimed = peer.claim(&cx.again(&ask).takeover(only).claim()).await?;
    that(matches!(claimed, Claimed::Completed(_)), "a replay", &claimed)
}

async fn completion_keeps_the_fingerprint(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").input("input");
    completed(&peer, &ask).await?;
    let record = present(&peer, &ask).await?.record;
    equal("the fingerprint", record.fingerprint, print(1))?;
    equal("the operation", record.operation, ask.operation.clone())?;
    equal("the input", record.input, None)?;
    match record.state {
        State::Completed { reply, .. } => equal("the reply", reply, sealed("the reply")),
        other => Err(Failure::new("a completed record", format!("{other:?}"))),
    }
}

async fn expires_in(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let retentions = [
        ("a", Retention::of(KEPT), true),
        ("b", Retention::at_least(Duration::ZERO, KEPT), true),
        ("c", Retention::Forever, false),
    ];
    for (label, retention, ends) in retentions {
        let ask = cx.ask(label).retention(retention);
        completed(&peer, &ask).await?;
        match peer.claim(&cx.again(&ask).claim()).await? {
            Claimed::Completed(replay) => {
                let sensible = match replay.expires_in {
                    None => !ends,
                    Some(left) => ends && left <= KEPT && left > KEPT / 2,
                };
                that(sensible, "the time that is left of the retention", replay.expires_in)?;
            }
            other => return Err(Failure::new("a replay", format!("{other:?}"))),
        }
    }
    Ok(())
}
