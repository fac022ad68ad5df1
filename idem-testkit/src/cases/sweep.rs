//! Sweeps (R10, R11).

use std::time::Duration;

use idem_core::record::Retention;
use idem_core::store::{MAX_PAGE, Store, Swept};

use crate::ask::{Ask, KEPT, LONG, recovery, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, refused, that};
use crate::listing::sweep_all;
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "sweep::takes_only_what_is_over",
            "R10, R11",
            "live, lapsed, kept and begun records stay; expired and never begun ones go",
            takes_only_what_is_over,
        ),
        Case::new(
            "sweep::in_progress_is_never_swept",
            "R10",
            "no work in progress is swept, past its lease and past its retention",
            in_progress_is_never_swept,
        ),
        Case::new(
            "sweep::batches",
            "R11",
            "a batch takes at most its limit and says whether more wait",
            batches,
        )
        .needing(&[Capability::Isolated]),
        Case::new(
            "sweep::limits_are_taken_within_bounds",
            "R11",
            "a limit of 0 is taken as 1, a huge one as the largest batch",
            limits,
        )
        .needing(&[Capability::Isolated]),
        Case::new(
            "sweep::of_nothing",
            "R11",
            "a sweep of an empty store takes nothing, any number of times",
            of_nothing,
        )
        .needing(&[Capability::Isolated]),
        Case::new(
            "sweep::swept_key_is_new",
            "R8, R11",
            "after a sweep the key is a new one: attempt 1, and the old fence is lost",
            swept_key_is_new,
        ),
        Case::new(
            "sweep::expiry_needs_no_sweep",
            "R11",
            "an expired reply that nobody swept counts as absent for every verb",
            expiry_needs_no_sweep,
        ),
        Case::new(
            "sweep::concurrent_sweepers",
            "R11",
            "several sweepers at once delete each record once and disturb nothing",
            concurrent_sweepers,
        )
        .needing(&[Capability::Isolated]),
    ]
}

/// `count` expired replies.
async fn expired(cx: &Context, peer: &Peer, count: usize) -> Result<Vec<Ask>, Failure> {
    let mut asks = Vec::new();
    for number in 0..count {
        let ask = cx.ask(&format!("expired{number}")).retention(Retention::of(Duration::ZERO));
        let held = acquire(peer, &ask).await?;
        peer.complete(&held.fence, &sealed("old")).await?;
        asks.push(ask);
    }
    Ok(asks)
}

async fn takes_only_what_is_over(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outlived = Retention::at_least(Duration::ZERO, KEPT);
    let mut stay = Vec::new();
    // In progress, in every way but the one that may be swept.
    let shapes = [
        ("live", cx.ask("a").marking_begun().retention(outlived), false, false),
        ("lapsed, not marked", cx.ask("b").retention(outlived), true, false),
        ("begun", cx.ask("c").marking_begun().retention(outlived), true, true),
        ("young", cx.ask("d").marking_begun(), true, false),
        ("for ever", cx.ask("e").marking_begun().retention(Retention::Forever), true, false),
    ];
    for (label, ask, gives_up, begins) in shapes {
        let held = acquire(&peer, &ask).await?;
        if begins {
            peer.checkpoint(&held.fence, &recovery(1, "begun"), LONG).await?;
        }
        if gives_up {
            peer.renew(&held.fence, Duration::ZERO).await?;
        }
        stay.push((label, ask));
    }
    for (label, retention) in
        [("kept", Retention::of(KEPT)), ("kept for ever", Retention::Forever), ("least", outlived)]
    {
        let ask = cx.ask(label).retention(retention);
        let held = acquire(&peer, &ask).await?;
        peer.complete(&held.fence, &sealed("kept")).await?;
        stay.push((label, ask));
    }
    expired(&cx, &peer, 2).await?;
    let unbegun = cx.ask("unbegun").marking_begun().retention(outlived);
    let held = acquire(&peer, &unbegun).await?;
    peer.renew(&held.fence, Duration::ZERO).await?;

    let swept = sweep_all(&peer, MAX_PAGE).await?;
    if cx.capabilities().has(Capability::Isolated) {
        equal("how many went", swept, 3)?;
    }
    equal("what never began", peer.get(&unbegun.scope, &unbegun.key).await?, None)?;
    for (label, ask) in stay {
        present(&peer, &ask).await.map_err(|failure| failure.at(label))?;
    }
    Ok(())
}

async fn in_progress_is_never_swept(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").retention(Retention::at_least(Duration::ZERO, KEPT)).input("input");
    let held = cx.lapsed(&peer, &ask).await?;
    for _ in 0..3 {
        sweep_all(&peer, 1).await?;
        cx.pass(cx.brief()).await?;
    }
    let record = present(&peer, &ask).await?.record;
    equal("the input", record.input, ask.input)?;
    Ok(peer.complete(&held.fence, &sealed("late")).await?)
}

async fn batches(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    expired(&cx, &peer, 5).await?;
    for (limit, deleted, more) in [(2, 2, true), (2, 2, true), (2, 1, false), (2, 0, false)] {
        equal("the batch", peer.sweep(limit).await?, Swept { deleted, more })?;
    }
    expired(&cx, &peer, 3).await?;
    equal("a batch that just fits", peer.sweep(3).await?, Swept { deleted: 3, more: false })
}

async fn limits(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    expired(&cx, &peer, 3).await?;
    equal("a batch of 0", peer.sweep(0).await?, Swept { deleted: 1, more: true })?;
    equal("a huge batch", peer.sweep(u32::MAX).await?, Swept { deleted: 2, more: false })
}

async fn of_nothing(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    acquire(&peer, &cx.ask("live")).await?;
    for _ in 0..3 {
        equal("a sweep", peer.sweep(10).await?, Swept { deleted: 0, more: false })?;
    }
    Ok(())
}

async fn swept_key_is_new(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").retention(Retention::of(Duration::ZERO));
    let old = acquire(&peer, &ask).await?;
    peer.complete(&old.fence, &sealed("old")).await?;
    sweep_all(&peer, MAX_PAGE).await?;
    // The same owner: a delayed copy of the old claim.
    let held = acquire(&peer, &ask).await?;
    equal("the attempt", held.fence.attempt, 1)?;
    that(held.fence.incarnation != old.fence.incarnation, "a fresh incarnation", &held.fence)?;
    let lost = idem_core::error::ErrorKind::FenceLost;
    refused(peer.complete(&old.fence, &sealed("old")).await, lost)?;
    refused(peer.release(&old.fence).await, lost)
}

async fn expiry_needs_no_sweep(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let asks = expired(&cx, &peer, 2).await?;
    let lost = idem_core::error::ErrorKind::FenceLost;
    let mut fence = acquire(&peer, &cx.ask("other")).await?.fence;
    fence.key = asks[0].key.clone();
    refused(peer.renew(&fence, LONG).await, lost)?;
    refused(peer.checkpoint(&fence, &recovery(1, "x"), LONG).await, lost)?;
    refused(peer.complete(&fence, &sealed("x")).await, lost)?;
    peer.release(&fence).await?; // Nothing is there: it was released before.
    equal("the record", peer.get(&asks[0].scope, &asks[0].key).await?, None)?;
    equal("the attempt", acquire(&peer, &cx.again(&asks[0])).await?.fence.attempt, 1)
}

async fn concurrent_sweepers(cx: Context) -> CaseResult {
    let peers = cx.connect_many(3).await?;
    let kept = cx.ask("kept");
    let held = acquire(&peers[0], &kept).await?;
    peers[0].complete(&held.fence, &sealed("kept")).await?;
    let asks = expired(&cx, &peers[0], 30).await?;
    let mut together = crate::together::Together::new();
    for peer in &peers {
        let peer = peer.clone();
        together = together.and(async move { sweep_all(&peer, 4).await });
    }
    let mut total = 0;
    for swept in together.run(&cx).await? {
        total += swept?;
    }
    // One may have gone on while another still held the last batch.
    total += sweep_all(&peers[0], MAX_PAGE).await?;
    equal("how many went in all", total, asks.len())?;
    present(&peers[1], &kept).await.map(drop)
}
