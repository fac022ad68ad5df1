//! Futures that are dropped at each of their polls (R25).

use std::time::{Duration, Instant};

use idem_core::codec::Sealed;
use idem_core::error::StoreError;
use idem_core::record::{Fence, State};
use idem_core::store::Store;

use crate::ask::{LONG, recovery, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, acquire_at_last, acquired, present};
use crate::failure::{CaseResult, Failure, equal, that};
use crate::faults::cancel::after_polls;
use crate::peer::Peer;

/// More polls than any store takes for one call.
const POLLS: usize = 64;

/// How soon a store serves again after its callers went away.
const SOON: Duration = Duration::from_secs(30);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "drops::claim",
            "R5, R25",
            "a claim dropped at any poll was applied or not; the same call again acquires it",
            claim,
        ),
        Case::new(
            "drops::takeover",
            "R5, R25",
            "a takeover dropped at any poll leaves the dead claim or the taker's own",
            takeover,
        ),
        Case::new(
            "drops::complete",
            "R5, R25",
            "a completion dropped at any poll stored its reply whole, or changed nothing",
            |cx| each_poll(cx, Write::Complete),
        ),
        Case::new(
            "drops::checkpoint",
            "R5, R25",
            "a checkpoint dropped at any poll wrote its recovery point whole, or changed nothing",
            |cx| each_poll(cx, Write::Checkpoint),
        ),
        Case::new(
            "drops::release",
            "R5, R25",
            "a release dropped at any poll deleted the record, or changed nothing",
            |cx| each_poll(cx, Write::Release),
        ),
        Case::new(
            "drops::renew_and_reads",
            "R25",
            "renewals, reads, listings and sweeps dropped at any poll leave the store serving",
            renew_and_reads,
        ),
        Case::new(
            "drops::many_at_once",
            "R25",
            "more abandoned calls than there are connections leave the store serving at once",
            many_at_once,
        ),
        Case::new(
            "drops::transaction",
            "R19, R25",
            "a transaction dropped at any poll of any of its calls leaves nothing of it",
            transaction,
        )
        .needing(&[Capability::Transactions]),
    ]
}

/// The same connection and another one both serve a key of their own, soon.
async fn serves(cx: &Context, peers: &[Peer], label: &str) -> CaseResult {
    for (number, peer) in peers.iter().enumerate() {
        let ask = cx.ask(&format!("{label}-serves{number}"));
        let started = Instant::now();
        let served = tokio::time::timeout(SOON, async {
            let held = acquire(peer, &ask).await?;
            peer.complete(&held.fence, &sealed("served")).await?;
            let seen = present(&peers[0], &ask).await?.record;
            that(matches!(seen.state, State::Completed { .. }), "a reply to stand", seen.state)
        });
        let Ok(served) = served.await else {
            let seen = format!("nothing in {:?}", started.elapsed());
            return Err(Failure::new("the store to serve the next caller", seen));
        };
        served?;
    }
    Ok(())
}

async fn claim(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    for polls in 0..=POLLS {
        let ask = cx.ask(&format!("k{polls}")).input("input");
        let (peer, sent) = (peers[0].clone(), ask.clone());
        let end = after_polls(polls, async move { peer.claim(&sent.claim()).await }).await;
        serves(&cx, &peers, &format!("k{polls}")).await?;
        if let Some(seen) = peers[1].get(&ask.scope, &ask.key).await? {
            equal("the record's owner", seen.record.owner, ask.owner)?;
            equal("the record's input", &seen.record.input, &ask.input)?;
        }
        let held = acquire(&peers[1], &ask).await?;
        equal("the attempt", held.fence.attempt, 1)?;
        peers[1].complete(&held.fence, &sealed("done")).await?;
        if end.is_finished() {
            break;
        }
    }
    Ok(())
}

async fn takeover(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    for polls in 0..=POLLS {
        let ask = cx.ask(&format!("k{polls}"));
        let dead = acquire(&peers[0], &ask).await?.fence;
        peers[0].renew(&dead, Duration::ZERO).await?;
        let taker = cx.again(&ask);
        let (peer, sent) = (peers[0].clone(), taker.clone());
        let end = after_polls(polls, async move { peer.claim(&sent.claim()).await }).await;
        serves(&cx, &peers, &format!("k{polls}")).await?;
        // Not applied: this takes the dead claim over. Applied: this is its repeat.
        let held = acquire(&peers[1], &taker).await?;
        equal("the attempt", held.fence.attempt, 2)?;
        peers[1].complete(&held.fence, &sealed("done")).await?;
        if end.is_finished() {
            break;
        }
    }
    Ok(())
}

/// A fenced write that is dropped at each of its polls.
#[derive(Clone, Copy)]
enum Write {
    Complete,
    Checkpoint,
    Release,
}

fn long_reply(cx: &Context) -> Sealed {
    let most = cx.capabilities().max_value_bytes().unwrap_or(usize::MAX);
    sealed((0..=255).cycle().take(most.min(100_000)).collect::<Vec<u8>>())
}

async fn write(peer: Peer, write: Write, fence: Fence, reply: Sealed) -> Result<(), StoreError> {
    match write {
        Write::Complete => peer.complete(&fence, &reply).await,
        Write::Checkpoint => {
            peer.checkpoint(&fence, &recovery(1, "step"), LONG * 2).await.map(drop)
        }
        Write::Release => peer.release(&fence).await,
    }
}

async fn each_poll(cx: Context, what: Write) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    let reply = long_reply(&cx);
    for polls in 0..=POLLS {
        let ask = cx.ask(&format!("k{polls}"));
        let fence = acquire(&peers[0], &ask).await?.fence;
        let before = present(&peers[0], &ask).await?.record.state;
        let written = write(peers[0].clone(), what, fence.clone(), reply.clone());
        let end = after_polls(polls, written).await;
        serves(&cx, &peers, &format!("k{polls}")).await?;
        let seen = peers[1].get(&ask.scope, &ask.key).await?.map(|seen| seen.record.state);
        whole_or_nothing(what, seen.as_ref(), &before, &reply)?;
        // The same write again is harmless, whether the first was applied or not.
        write(peers[1].clone(), what, fence, reply.clone()).await?;
        if end.is_finished() {
            break;
        }
    }
    Ok(())
}

fn whole_or_nothing(
    what: Write,
    seen: Option<&State>,
    before: &State,
    reply: &Sealed,
) -> CaseResult {
    let done = match (what, seen) {
        (Write::Complete, Some(State::Completed { reply: stored, .. })) => stored == reply,
        (Write::Checkpoint, Some(State::InProgress { recovery: Some(point), .. })) => {
            *point == recovery(1, "step")
        }
        (Write::Release, None) => true,
        _ => false,
    };
    that(done || seen == Some(before), "the whole write or nothing of it", seen)
}

async fn renew_and_reads(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    let ask = cx.ask("k");
    let fence = acquire(&peers[0], &ask).await?.fence;
    for polls in 0..=POLLS {
        let (peer, of) = (peers[0].clone(), fence.clone());
        let renewed = after_polls(polls, async move { peer.renew(&of, LONG).await }).await;
        let (peer, of) = (peers[0].clone(), ask.clone());
        let read = after_polls(polls, async move { peer.get(&of.scope, &of.key).await }).await;
        let peer = peers[0].clone();
        let listed = after_polls(polls, async move { peer.lapsed(None, 10).await }).await;
        let peer = peers[0].clone();
        let swept = after_polls(polls, async move { peer.sweep(10).await }).await;
        serves(&cx, &peers, &format!("k{polls}")).await?;
        equal("the fence", &present(&peers[1], &ask).await?.record.fence(), &fence)?;
        let ends =
            [renewed.is_finished(), read.is_finished(), listed.is_finished(), swept.is_finished()];
        if ends == [true; 4] {
            break;
        }
    }
    Ok(peers[1].complete(&fence, &sealed("done")).await?)
}

async fn many_at_once(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    for polls in [1, 2, 3] {
        let mut together = crate::together::Together::new();
        for number in 0..50 {
            let (peer, ask) = (peers[0].clone(), cx.ask(&format!("k{polls}-{number}")));
            together = together.and(async move {
                after_polls(polls, async move { peer.claim(&ask.claim()).await })
                    .await
                    .is_finished()
            });
        }
        together.run(&cx).await?;
        serves(&cx, &peers, &format!("p{polls}")).await?;
    }
    Ok(())
}

async fn transaction(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    let t = peers[0].transactions()?;
    let row = format!("{} row", cx.prefix());
    for polls in 0..=POLLS * 2 {
        let ask = cx.ask(&format!("k{polls}"));
        let (t, sent, row) = (t.clone(), ask.clone(), row.clone());
        let end = after_polls(polls, async move {
            let mut tx = t.begin().await?;
            let held = acquired(t.claim_in(&mut tx, &sent.claim()).await?)?;
            let inserted = t.insert_in(&mut tx, &row).await;
            inserted.map_err(|error| crate::context::setup("a row", &error))?;
            t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
            t.rollback(tx).await?;
            Ok::<_, Failure>(())
        })
        .await;
        serves(&cx, &peers, &format!("k{polls}")).await?;
        equal("the record", peers[1].get(&ask.scope, &ask.key).await?, None)?;
        acquire_at_last(&peers[1], &ask).await?;
        if end.is_finished() {
            break;
        }
    }
    let count = t.count(&row).await.map_err(|error| crate::context::setup("a count", &error))?;
    equal("the committed rows", count, 0)
}
