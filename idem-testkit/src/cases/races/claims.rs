//! Claims that meet claims (R1, R2, R5).

use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::error::StoreError;
use idem_core::store::Store;

use super::ROUNDS;
use crate::ask::{Ask, print, recovery, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, acquired, present};
use crate::failure::{CaseResult, Failure, equal, that};
use crate::peer::Peer;
use crate::together::Together;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "races::one_winner",
            "R1, R2",
            "of many claims of one key at once, exactly one is acquired",
            one_winner,
        ),
        Case::new(
            "races::one_winner_of_a_different_request",
            "R2",
            "of two requests under one key at once, one wins and the other is a mismatch",
            one_winner_of_a_different_request,
        ),
        Case::new(
            "races::one_taker_of_a_dead_claim",
            "R2, R8",
            "of several takers of one lapsed record, exactly one gets attempt 2",
            one_taker_of_a_dead_claim,
        ),
        Case::new(
            "races::one_taker_after_expiry",
            "R2, R11",
            "of several claims of an expired key, exactly one is acquired",
            one_taker_after_expiry,
        ),
        Case::new(
            "races::one_replacement_of_what_never_began",
            "R2, R26",
            "of several other requests under a key that lapsed before it began, one replaces it",
            one_replacement_of_what_never_began,
        ),
        Case::new(
            "races::same_owner_twice",
            "R5, R8",
            "one call sent twice at once holds one record under one fence",
            same_owner_twice,
        ),
        Case::new(
            "races::hundred_callers_on_ten_keys",
            "R1, R2",
            "a hundred callers of ten keys do ten pieces of work, and all get its reply",
            hundred_callers_on_ten_keys,
        ),
        Case::new(
            "races::losers_change_nothing",
            "R2, R8",
            "whatever losers do at once, the winner's record stays as it is",
            losers_change_nothing,
        ),
    ]
}

/// Each of `asks` claimed at the same instant, spread over the peers.
async fn claim_together(
    cx: &Context,
    peers: &[Peer],
    asks: Vec<Ask>,
) -> Result<Vec<Claimed>, Failure> {
    let mut together = Together::new();
    for (index, ask) in asks.into_iter().enumerate() {
        let peer = peers[index % peers.len()].clone();
        together = together.and(async move { peer.claim(&ask.claim()).await });
    }
    let answers: Result<Vec<Claimed>, StoreError> = together.run(cx).await?.into_iter().collect();
    Ok(answers?)
}

/// Splits the answers of a race into the one that won and the rest.
fn one_won(answers: Vec<Claimed>) -> Result<(idem_core::claim::Acquired, Vec<Claimed>), Failure> {
    let (mut won, lost): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| matches!(answer, Claimed::Acquired(_)));
    if won.len() != 1 {
        let seen = format!("{} acquired: {won:?}; the others: {lost:?}", won.len());
        return Err(Failure::new("exactly one claim to be Acquired", seen));
    }
    Ok((acquired(won.remove(0))?, lost))
}

fn all_in_progress(lost: &[Claimed]) -> CaseResult {
    let good = lost.iter().all(
        |answer| matches!(answer, Claimed::InProgress { remaining } if *remaining > Duration::ZERO),
    );
    that(good, "every loser to be told InProgress with some time left", lost)
}

async fn one_winner(cx: Context) -> CaseResult {
    let peers = cx.connect_many(4).await?;
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}"));
        let asks = (0..8).map(|_| cx.again(&ask)).collect();
        let (won, lost) = one_won(claim_together(&cx, &peers, asks).await?)?;
        all_in_progress(&lost)?;
        equal("the winner's attempt", won.fence.attempt, 1)?;
        let seen = present(&peers[0], &ask).await?;
        equal("the stored fence", seen.record.fence(), won.fence)?;
    }
    Ok(())
}

async fn one_winner_of_a_different_request(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}"));
        let asks = vec![cx.again(&ask).print(print(1)), cx.again(&ask).print(print(2))];
        let (won, lost) = one_won(claim_together(&cx, &peers, asks).await?)?;
        equal("the loser's answer", &lost[..], &[Claimed::Mismatch { completed: false }][..])?;
        let seen = present(&peers[0], &ask).await?;
        equal("the stored fingerprint", seen.record.fingerprint, won.fingerprint)?;
        equal("the stored fence", seen.record.fence(), won.fence)?;
    }
    Ok(())
}

async fn one_taker_of_a_dead_claim(cx: Context) -> CaseResult {
    let peers = cx.connect_many(4).await?;
    let asks: Vec<Ask> = (0..ROUNDS / 2).map(|round| cx.ask(&format!("k{round}"))).collect();
    for ask in &asks {
        acquire(&peers[0], &ask.clone().lease(cx.brief())).await?;
    }
    for ask in &asks {
        cx.lapse(&peers[0], ask).await?;
        let takers = (0..4).map(|_| cx.again(ask)).collect();
        let (won, lost) = one_won(claim_together(&cx, &peers, takers).await?)?;
        equal("the taker's attempt", won.fence.attempt, 2)?;
        all_in_progress(&lost)?;
        equal("the stored fence", present(&peers[0], ask).await?.record.fence(), won.fence)?;
    }
    Ok(())
}

async fn one_taker_after_expiry(cx: Context) -> CaseResult {
    let peers = cx.connect_many(4).await?;
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}"));
        let brief = ask.clone().retention(idem_core::record::Retention::of(Duration::ZERO));
        let first = acquire(&peers[0], &brief).await?;
        peers[0].complete(&first.fence, &sealed("old")).await?;
        let takers = (0..4).map(|_| cx.again(&ask)).collect();
        let (won, lost) = one_won(claim_together(&cx, &peers, takers).await?)?;
        all_in_progress(&lost)?;
        equal("the attempt of the new life", won.fence.attempt, 1)?;
        let fresh = won.fence.incarnation != first.fence.incarnation;
        that(fresh, "a new life to have an incarnation of its own", &won.fence)?;
    }
    Ok(())
}

async fn one_replacement_of_what_never_began(cx: Context) -> CaseResult {
    let peers = cx.connect_many(4).await?;
    let asks: Vec<Ask> =
        (0..ROUNDS / 2).map(|round| cx.ask(&format!("k{round}")).marking_begun()).collect();
    for ask in &asks {
        acquire(&peers[0], &ask.clone().lease(cx.brief())).await?;
    }
    for ask in &asks {
        cx.lapse(&peers[0], ask).await?;
        let takers = (2..6).map(|request| cx.again(ask).print(print(request))).collect();
        let (won, lost) = one_won(claim_together(&cx, &peers, takers).await?)?;
        that(won.replaced, "the winner to be told that it replaced a record", &won)?;
        equal("the attempt of the new life", won.fence.attempt, 1)?;
        let mismatched = |a: &Claimed| *a == Claimed::Mismatch { completed: false };
        that(lost.iter().all(mismatched), "every loser to be told Mismatch", &lost)?;
    }
    Ok(())
}

async fn same_owner_twice(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}"));
        let answers = claim_together(&cx, &peers, vec![ask.clone(), ask.clone()]).await?;
        let mut fences = Vec::new();
        for answer in answers {
            fences.push(acquired(answer)?.fence);
        }
        equal("the second answer's fence", &fences[1], &fences[0])?;
        peers[0].complete(&fences[0], &sealed("once")).await?;
    }
    Ok(())
}

/// What a caller without an engine does: claim, work if it won, and ask again until it ends.
async fn call(peer: Peer, ask: Ask, cx: Context) -> Result<(bool, Vec<u8>), Failure> {
    for _ in 0..10_000 {
        match peer.claim(&ask.claim()).await? {
            Claimed::Acquired(held) => {
                peer.checkpoint(&held.fence, &recovery(1, "begun"), ask.lease).await?;
                tokio::task::yield_now().await;
                let reply = format!("reply {}", cx.random().next());
                peer.complete(&held.fence, &sealed(reply.as_bytes())).await?;
                return Ok((true, reply.into_bytes()));
            }
            Claimed::Completed(replay) => return Ok((false, replay.reply.as_bytes().to_vec())),
            Claimed::InProgress { .. } => tokio::time::sleep(Duration::from_millis(2)).await,
            other => {
                return Err(Failure::new("to win, to wait or to replay", format!("{other:?}")));
            }
        }
    }
    Err(Failure::new("the winner to finish", "InProgress, 10,000 times over"))
}

async fn hundred_callers_on_ten_keys(cx: Context) -> CaseResult {
    let peers = cx.connect_many(4).await?;
    let asks: Vec<Ask> = (0..10).map(|number| cx.ask(&format!("k{number}"))).collect();
    let mut together = Together::new();
    for caller in 0..100 {
        let (peer, ask) = (peers[caller % 4].clone(), cx.again(&asks[caller % 10]));
        let cx = cx.clone();
        together = together.and(async move { call(peer, ask, cx).await });
    }
    let answers: Result<Vec<_>, Failure> = together.run(&cx).await?.into_iter().collect();
    let answers = answers?;
    equal("pieces of work done", answers.iter().filter(|(worked, _)| *worked).count(), 10)?;
    for number in 0..10 {
        let of_key = || answers.iter().skip(number).step_by(10).map(|(_, reply)| reply);
        let first = of_key().next().expect("ten callers of each key");
        that(of_key().all(|reply| reply == first), "equal replies under one key", number)?;
    }
    Ok(())
}

async fn losers_change_nothing(cx: Context) -> CaseResult {
    let peers = cx.connect_many(3).await?;
    for round in 0..ROUNDS {
        let ask = cx.ask(&format!("k{round}")).input("input");
        let held = acquire(&peers[0], &ask).await?;
        let before = present(&peers[0], &ask).await?.record;
        let mut together = Together::new();
        for (number, peer) in peers.iter().enumerate() {
            let (peer, ask, owner) = (peer.clone(), cx.again(&ask).print(print(9)), cx.owner());
            let mut stolen = held.fence.clone();
            stolen.owner = owner;
            together = together.and(async move {
                let claimed = peer.claim(&ask.claim()).await;
                // Each cleans up after itself in its own way; none of them holds anything.
                let cleaned = match number {
                    0 => peer.release(&stolen).await,
                    1 => peer.complete(&stolen, &sealed("mine")).await,
                    _ => peer.renew(&stolen, Duration::ZERO).await.map(drop),
                };
                (claimed, cleaned)
            });
        }
        for (claimed, cleaned) in together.run(&cx).await? {
            equal("a loser's claim", claimed?, Claimed::Mismatch { completed: false })?;
            crate::failure::refused(cleaned, idem_core::error::ErrorKind::FenceLost)?;
        }
        equal("the winner's record", present(&peers[0], &ask).await?.record, before)?;
    }
    Ok(())
}
