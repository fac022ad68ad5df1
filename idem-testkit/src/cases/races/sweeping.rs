//! Sweeps that meet everything else (R10, R11).

use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::record::{Retention, State};
use idem_core::store::Store;

use super::ROUNDS;
use crate::ask::{Ask, KEPT, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, acquired, present};
use crate::failure::{CaseResult, Failure, equal, that};
use crate::peer::Peer;
use crate::together::both;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "races::sweep_against_complete",
            "R10",
            "a sweep never takes a record away from under its holder",
            sweep_against_complete,
        ),
        Case::new(
            "races::sweep_against_reclaim",
            "R10, R11",
            "a sweep that saw an expired record never deletes the life that follows it",
            sweep_against_reclaim,
        ),
        Case::new(
            "races::sweep_against_replays",
            "R11",
            "a reply that is kept is replayed whole, however many sweeps run",
            sweep_against_replays,
        ),
        Case::new(
            "races::sweep_against_late_holder",
            "R7, R10",
            "a sweep that meets the late holder of a record that never began leaves it whole, or \
             deletes it and the holder lost its fence",
            sweep_against_late_holder,
        ),
    ]
}

async fn sweeps(peer: Peer, times: usize) -> Result<(), idem_core::error::StoreError> {
    for _ in 0..times {
        peer.sweep(100).await?;
    }
    Ok(())
}

async fn sweep_against_complete(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for round in 0..ROUNDS {
        // In progress, past its retention, and in no way marked as not begun.
        let retention = Retention::at_least(Duration::ZERO, KEPT);
        let ask = cx.ask(&format!("k{round}")).retention(retention).lease(Duration::ZERO);
        let held = acquire(&a, &ask).await?;
        cx.lapse(&a, &ask).await?;
        let (holder, fence) = (a.clone(), held.fence.clone());
        let complete = async move { holder.complete(&fence, &sealed("done")).await };
        let (completed, swept) = both(&cx, complete, sweeps(b.clone(), 3)).await?;
        completed?;
        swept?;
        let stands = matches!(present(&a, &ask).await?.record.state, State::Completed { .. });
        that(stands, "the reply to stand", stands)?;
    }
    Ok(())
}

async fn sweep_against_reclaim(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}"));
        expired(&cx, &a, &ask).await?;
        let (claimer, next) = (a.clone(), cx.again(&ask));
        let claim = async move { claimer.claim(&next.claim()).await };
        let (claimed, swept) = both(&cx, claim, sweeps(b.clone(), 3)).await?;
        swept?;
        let held = acquired(claimed?)?;
        equal("the stored fence", present(&a, &ask).await?.record.fence(), held.fence)?;
    }
    Ok(())
}

/// A completed record whose retention is over at once.
async fn expired(cx: &Context, peer: &Peer, ask: &Ask) -> Result<(), Failure> {
    let brief = cx.again(ask).retention(Retention::of(Duration::ZERO));
    let held = acquire(peer, &brief).await?;
    Ok(peer.complete(&held.fence, &sealed("old")).await?)
}

async fn sweep_against_replays(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let ask = cx.ask("kept");
    let held = acquire(&a, &ask).await?;
    a.complete(&held.fence, &sealed("kept")).await?;
    for round in 0..ROUNDS {
        expired(&cx, &a, &cx.ask(&format!("gone{round}"))).await?;
        let (reader, next) = (a.clone(), cx.again(&ask));
        let claim = async move { reader.claim(&next.claim()).await };
        let (claimed, swept) = both(&cx, claim, sweeps(b.clone(), 2)).await?;
        swept?;
        match claimed? {
            Claimed::Completed(replay) => equal("the reply", replay.reply, sealed("kept"))?,
            other => return Err(Failure::new("the reply to be replayed", format!("{other:?}"))),
        }
    }
    Ok(())
}

async fn sweep_against_late_holder(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let mut records = Vec::new();
    for round in 0..ROUNDS {
        let retention = Retention::at_least(Duration::ZERO, KEPT);
        let ask = cx.ask(&format!("k{round}")).retention(retention).marking_begun();
        records.push((ask.clone(), acquire(&a, &ask.lease(cx.brief())).await?));
    }
    for (ask, held) in records {
        // Not `lapse`: it may have been swept in an earlier round, as it should be.
        cx.pass(if cx.steps_clock() { cx.brief() } else { Duration::from_millis(2) }).await?;
        let (holder, fence) = (a.clone(), held.fence.clone());
        let complete = async move { holder.complete(&fence, &sealed("done")).await };
        let (completed, swept) = both(&cx, complete, sweeps(b.clone(), 1)).await?;
        swept?;
        let stands = a.get(&ask.scope, &ask.key).await?.map(|seen| seen.record.fence());
        match completed {
            Ok(()) => equal("the completed record's fence", stands, Some(held.fence))?,
            Err(error) => {
                equal("the error's kind", error.kind(), idem_core::error::ErrorKind::FenceLost)?;
                equal("the swept record", stands, None)?;
            }
        }
    }
    Ok(())
}
