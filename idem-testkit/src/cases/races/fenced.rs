//! Fenced writes that meet takeovers and claims (R2, R7, R8).

use std::time::Duration;

use idem_core::claim::{Acquired, Claimed};
use idem_core::error::{ErrorKind, StoreError};
use idem_core::record::State;
use idem_core::store::{Renewed, Store};

use super::ROUNDS;
use crate::ask::{Ask, LONG, recovery, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, acquired, present};
use crate::failure::{CaseResult, Failure, equal, refused, that};
use crate::peer::Peer;
use crate::together::both;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "races::complete_against_takeover",
            "R7, R8",
            "either the holder's reply stands and is replayed, or the taker holds and the holder \
             lost its fence",
            complete_against_takeover,
        ),
        Case::new(
            "races::renew_against_takeover",
            "R7, R8",
            "either the holder's lease runs on, or the taker holds; never both",
            renew_against_takeover,
        ),
        Case::new(
            "races::checkpoint_against_takeover",
            "R7, R8",
            "a recovery point that was acknowledged is what the taker goes on from",
            checkpoint_against_takeover,
        ),
        Case::new(
            "races::release_against_claim",
            "R2, R14",
            "a claim that meets a release is told InProgress, or starts a new life",
            release_against_claim,
        ),
        Case::new(
            "races::release_against_takeover",
            "R8, R14",
            "a release of a lapsed claim never deletes what a taker holds",
            release_against_takeover,
        ),
        Case::new(
            "races::two_replies_under_one_fence",
            "R5, R8",
            "of two different replies under one fence, one stands and the other is refused",
            two_replies_under_one_fence,
        ),
        Case::new(
            "races::same_reply_twice",
            "R5",
            "one reply sent twice at once is stored, and both are told so",
            same_reply_twice,
        ),
        Case::new(
            "races::heartbeat_against_complete",
            "R8, R13",
            "a heartbeat that meets the completion never brings the record back in progress",
            heartbeat_against_complete,
        ),
    ]
}

/// Lapsed records, made first, so that their leases run out side by side.
async fn lapsed_records(
    cx: &Context,
    peer: &Peer,
    shape: impl Fn(Ask) -> Ask,
) -> Result<Vec<(Ask, Acquired)>, Failure> {
    let mut records = Vec::new();
    for round in 0..ROUNDS {
        let ask = shape(cx.ask(&format!("k{round}")));
        let held = acquire(peer, &ask.clone().lease(cx.brief())).await?;
        records.push((ask, held));
    }
    for (ask, _) in &records {
        cx.lapse(peer, ask).await?;
    }
    Ok(records)
}

/// The holder's `write` and somebody's takeover at the same instant.
async fn against_takeover<T, F>(
    cx: &Context,
    taker: &Peer,
    ask: &Ask,
    write: F,
) -> Result<(Result<T, StoreError>, Claimed), Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    let (taker, takes) = (taker.clone(), cx.again(ask));
    let (written, claimed) =
        both(cx, write, async move { taker.claim(&takes.claim()).await }).await?;
    Ok((written, claimed?))
}

async fn complete_against_takeover(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for (ask, held) in lapsed_records(&cx, &a, |ask| ask).await? {
        let (holder, fence) = (a.clone(), held.fence.clone());
        let write = async move { holder.complete(&fence, &sealed("late")).await };
        let (written, claimed) = against_takeover(&cx, &b, &ask, write).await?;
        match claimed {
            Claimed::Completed(replay) => {
                written?;
                equal("the replayed reply", replay.reply, sealed("late"))?;
                equal("the replayed fence", replay.fence, held.fence)?;
            }
            other => {
                let taken = acquired(other)?;
                refused(written, ErrorKind::FenceLost)?;
                equal("the taker's attempt", taken.fence.attempt, 2)?;
                b.complete(&taken.fence, &sealed("resumed")).await?;
            }
        }
    }
    Ok(())
}

async fn renew_against_takeover(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for (ask, held) in lapsed_records(&cx, &a, |ask| ask).await? {
        let (holder, fence) = (a.clone(), held.fence.clone());
        let write = async move { holder.renew(&fence, LONG).await };
        let (written, claimed) = against_takeover(&cx, &b, &ask, write).await?;
        match claimed {
            Claimed::InProgress { .. } => {
                let running =
                    matches!(written?, Renewed::Held(lease) if !lease.remaining.is_zero());
                that(running, "the holder's lease to run", running)?;
                a.complete(&held.fence, &sealed("late")).await?;
            }
            other => {
                let taken = acquired(other)?;
                refused(written, ErrorKind::FenceLost)?;
                equal("the stored fence", present(&a, &ask).await?.record.fence(), taken.fence)?;
            }
        }
    }
    Ok(())
}

async fn checkpoint_against_takeover(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for (ask, held) in lapsed_records(&cx, &a, |ask| ask).await? {
        let (holder, fence) = (a.clone(), held.fence.clone());
        let point = recovery(1, "step");
        let write = async move { holder.checkpoint(&fence, &recovery(1, "step"), LONG).await };
        let (written, claimed) = against_takeover(&cx, &b, &ask, write).await?;
        match claimed {
            Claimed::InProgress { .. } => {
                written?;
                let seen = present(&a, &ask).await?;
                equal("the stored recovery point", seen.record.recovery(), Some(&point))?;
            }
            other => {
                let taken = acquired(other)?;
                refused(written, ErrorKind::FenceLost)?;
                equal("the recovery point that is taken over", taken.recovery, None)?;
                equal("the stored one", present(&a, &ask).await?.record.recovery(), None)?;
            }
        }
    }
    Ok(())
}

async fn release_against_claim(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}"));
        let held = acquire(&a, &ask).await?;
        let (holder, fence) = (a.clone(), held.fence.clone());
        let write = async move { holder.release(&fence).await };
        let (written, claimed) = against_takeover(&cx, &b, &ask, write).await?;
        written?;
        match claimed {
            Claimed::InProgress { .. } => {
                equal("the released record", b.get(&ask.scope, &ask.key).await?, None)?;
            }
            other => {
                let taken = acquired(other)?;
                equal("the attempt of the new life", taken.fence.attempt, 1)?;
                equal("the stored fence", present(&a, &ask).await?.record.fence(), taken.fence)?;
            }
        }
    }
    Ok(())
}

async fn release_against_takeover(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for (ask, held) in lapsed_records(&cx, &a, |ask| ask).await? {
        let (holder, fence) = (a.clone(), held.fence.clone());
        let write = async move { holder.release(&fence).await };
        let (written, claimed) = against_takeover(&cx, &b, &ask, write).await?;
        let taken = acquired(claimed)?;
        match taken.fence.attempt {
            1 => written?, // It was released first, and this is a new life.
            _ => refused(written, ErrorKind::FenceLost)?,
        }
        equal("the stored fence", present(&a, &ask).await?.record.fence(), taken.fence)?;
    }
    Ok(())
}

async fn two_replies_under_one_fence(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}"));
        let fence = acquire(&a, &ask).await?.fence;
        let (left, right) = (a.clone(), b.clone());
        let (of_left, of_right) = (fence.clone(), fence);
        let (one, two) =
            both(&cx, async move { left.complete(&of_left, &sealed("one")).await }, async move {
                right.complete(&of_right, &sealed("two")).await
            })
            .await?;
        let standing = match (one, two) {
            (Ok(()), lost) => refused(lost, ErrorKind::FenceLost).map(|()| "one")?,
            (lost, Ok(())) => refused(lost, ErrorKind::FenceLost).map(|()| "two")?,
            neither => return Err(Failure::new("one reply to stand", format!("{neither:?}"))),
        };
        equal("the stored reply", reply_of(&a, &ask).await?, Some(sealed(standing)))?;
    }
    Ok(())
}

async fn same_reply_twice(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}"));
        let fence = acquire(&a, &ask).await?.fence;
        let (left, right) = (a.clone(), b.clone());
        let (of_left, of_right) = (fence.clone(), fence);
        let (one, two) =
            both(&cx, async move { left.complete(&of_left, &sealed("same")).await }, async move {
                right.complete(&of_right, &sealed("same")).await
            })
            .await?;
        one?;
        two?;
        equal("the stored reply", reply_of(&a, &ask).await?, Some(sealed("same")))?;
    }
    Ok(())
}

async fn heartbeat_against_complete(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}"));
        let fence = acquire(&a, &ask).await?.fence;
        let (left, right) = (a.clone(), b.clone());
        let (of_left, of_right) = (fence.clone(), fence);
        let (completed, renewed) =
            both(&cx, async move { left.complete(&of_left, &sealed("done")).await }, async move {
                right.renew(&of_right, Duration::from_secs(7_200)).await
            })
            .await?;
        completed?;
        let known = matches!(renewed?, Renewed::Held(_) | Renewed::Completed);
        that(known, "the heartbeat to be told that it holds, or that it is completed", known)?;
        equal("the stored reply", reply_of(&a, &ask).await?, Some(sealed("done")))?;
    }
    Ok(())
}

async fn reply_of(peer: &Peer, ask: &Ask) -> Result<Option<idem_core::codec::Sealed>, Failure> {
    Ok(match present(peer, ask).await?.record.state {
        State::Completed { reply, .. } => Some(reply),
        State::InProgress { .. } => None,
    })
}
