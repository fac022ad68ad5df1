//! The very instant at which something ends, on a clock that stands still.

use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};
use idem_core::record::{Retention, State};
use idem_core::store::{Renewed, Store};

use crate::ask::{Ask, LONG, print, recovery, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, that};
use crate::listing::{lapsed_of, sweep_all};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "instant::lease_ends",
            "R6, R7",
            "live while a microsecond is left, lapsed at the very instant the lease ends",
            lease_ends,
        ),
        Case::new(
            "instant::holder_at_the_end",
            "R7",
            "at that instant the holder still renews, checkpoints and completes",
            holder_at_the_end,
        ),
        Case::new(
            "instant::reply_expires",
            "R11",
            "replayed while a microsecond is left, absent at the very instant it expires",
            reply_expires,
        ),
        Case::new(
            "instant::reply_expires_after_completion",
            "R11",
            "the minimum after completion is counted from completion, to the microsecond",
            reply_expires_after_completion,
        ),
        Case::new(
            "instant::age_limit",
            "R27",
            "taken over while younger than the limit by a microsecond, and not at the limit",
            age_limit,
        ),
        Case::new(
            "instant::never_began_and_outlived",
            "R10, R26",
            "what never began is swept at the instant its retention ends, and not before",
            never_began_and_outlived,
        ),
        Case::new(
            "instant::another_request_after_retention",
            "R10",
            "a lapsed record gives way to another request at the instant its retention ends",
            another_request_after_retention,
        ),
        Case::new(
            "instant::parts_of_a_second",
            "R6",
            "leases and retentions are counted in microseconds, parts of one rounded up",
            parts_of_a_second,
        ),
        Case::new(
            "instant::ages_are_told",
            "R6, R27",
            "age, remaining, since and expires_in are what the store's clock says",
            ages_are_told,
        ),
        Case::new(
            "instant::clock_set_back",
            "R6",
            "a clock that is set back makes leases longer, never negative, and breaks nothing",
            clock_set_back,
        ),
    ];
    cases.into_iter().map(|case| case.needing(&[Capability::SteppedClock])).collect()
}

const TEN: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_micros(1);

async fn live_for(cx: &Context, peer: &Peer, ask: &Ask, left: Duration) -> CaseResult {
    let claimed = peer.claim(&cx.again(ask).claim()).await?;
    equal("the claim", claimed, Claimed::InProgress { remaining: left })
}

async fn lease_ends(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").lease(TEN);
    let held = acquire(&peer, &ask).await?;
    equal("the lease", held.lease, TEN)?;
    cx.pass(TEN - TICK).await?;
    live_for(&cx, &peer, &ask, TICK).await?;
    equal("lapsed records", lapsed_of(&peer, &ask.scope, 10).await?.len(), 0)?;
    cx.pass(TICK).await?;
    equal("lapsed records", lapsed_of(&peer, &ask.scope, 10).await?.len(), 1)?;
    equal("lapsed for", present(&peer, &ask).await?.lapsed_for(), Some(Duration::ZERO))?;
    equal("the taker's attempt", acquire(&peer, &cx.again(&ask)).await?.fence.attempt, 2)
}

async fn holder_at_the_end(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let mut held = Vec::new();
    for label in ["renew", "checkpoint", "complete", "release"] {
        held.push(acquire(&peer, &cx.ask(label).lease(TEN)).await?.fence);
    }
    cx.pass(TEN).await?;
    let renewed = peer.renew(&held[0], TEN).await?;
    equal("the renewal", renewed, Renewed::Held(idem_core::store::Lease { remaining: TEN }))?;
    let lease = peer.checkpoint(&held[1], &recovery(1, "x"), TEN).await?;
    equal("the checkpoint's lease", lease.remaining, TEN)?;
    peer.complete(&held[2], &sealed("x")).await?;
    Ok(peer.release(&held[3]).await?)
}

async fn replays(cx: &Context, peer: &Peer, ask: &Ask, left: Duration) -> CaseResult {
    match peer.claim(&cx.again(ask).claim()).await? {
        Claimed::Completed(replay) => equal("expires_in", replay.expires_in, Some(left)),
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn reply_expires(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    // Counted from the first claim, whenever it is completed.
    let ask = cx.ask("k").retention(Retention::of(TEN));
    let held = acquire(&peer, &ask).await?;
    cx.pass(TEN / 2).await?;
    peer.complete(&held.fence, &sealed("x")).await?;
    cx.pass(TEN / 2 - TICK).await?;
    replays(&cx, &peer, &ask, TICK).await?;
    sweep_all(&peer, 100).await?;
    replays(&cx, &peer, &ask, TICK).await?;
    cx.pass(TICK).await?;
    equal("the record", peer.get(&ask.scope, &ask.key).await?, None)?;
    equal("the attempt", acquire(&peer, &cx.again(&ask)).await?.fence.attempt, 1)
}

async fn reply_expires_after_completion(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").retention(Retention::at_least(TEN, TEN));
    let held = acquire(&peer, &ask).await?;
    cx.pass(TEN / 2).await?;
    peer.complete(&held.fence, &sealed("x")).await?;
    cx.pass(TEN - TICK).await?;
    replays(&cx, &peer, &ask, TICK).await?;
    cx.pass(TICK).await?;
    equal("the record", peer.get(&ask.scope, &ask.key).await?, None)
}

async fn age_limit(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let young = Takeover::Below { attempts: 9, younger_than: TEN };
    let (early, late) = (cx.ask("early").lease(TICK), cx.ask("late").lease(TICK));
    acquire(&peer, &early).await?;
    acquire(&peer, &late).await?;
    cx.pass(TEN - TICK).await?;
    let taken = acquire(&peer, &cx.again(&early).takeover(young)).await?;
    equal("the age", taken.age, TEN - TICK)?;
    cx.pass(TICK).await?;
    let claimed = peer.claim(&cx.again(&late).takeover(young).claim()).await?;
    that(matches!(claimed, Claimed::Lapsed(_)), "Lapsed", &claimed)?;
    let seen = present(&peer, &late).await?;
    let only = Takeover::Only {
        incarnation: seen.record.incarnation,
        attempt: 1,
        younger_than: Some(TEN + TICK),
    };
    equal("the attempt", acquire(&peer, &cx.again(&late).takeover(only)).await?.fence.attempt, 2)
}

async fn never_began_and_outlived(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let retention = Retention::at_least(TEN, LONG);
    let ask = cx.ask("k").lease(TICK).retention(retention).marking_begun();
    acquire(&peer, &ask).await?;
    cx.pass(TEN - TICK).await?;
    sweep_all(&peer, 100).await?;
    present(&peer, &ask).await?;
    cx.pass(TICK).await?;
    sweep_all(&peer, 100).await?;
    equal("the record", peer.get(&ask.scope, &ask.key).await?, None)
}

async fn another_request_after_retention(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").lease(TICK).retention(Retention::at_least(TEN, LONG));
    acquire(&peer, &ask).await?;
    let other = || cx.again(&ask).print(print(2));
    cx.pass(TEN - TICK).await?;
    let claimed = peer.claim(&other().claim()).await?;
    equal("a microsecond before", claimed, Claimed::Mismatch { completed: false })?;
    cx.pass(TICK).await?;
    that(acquire(&peer, &other()).await?.replaced, "it to be replaced", "a takeover")
}

async fn parts_of_a_second(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    for (label, asked, counted) in [
        ("a", Duration::from_micros(1_500_001), 1_500_001),
        ("b", Duration::from_nanos(1_500_000_500), 1_500_001),
        ("c", Duration::from_nanos(999_999_999), 1_000_000),
    ] {
        let ask = cx.ask(label).lease(asked).retention(Retention::of(asked));
        let held = acquire(&peer, &ask).await?;
        equal("the lease", held.lease, Duration::from_micros(counted))?;
        live_for(&cx, &peer, &ask, Duration::from_micros(counted)).await?;
        peer.complete(&held.fence, &sealed("x")).await?;
        replays(&cx, &peer, &ask, Duration::from_micros(counted)).await?;
    }
    Ok(())
}

async fn ages_are_told(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").lease(TEN);
    acquire(&peer, &ask).await?;
    cx.pass(TEN * 3).await?;
    equal("the age", present(&peer, &ask).await?.age(), TEN * 3)?;
    match peer
        .claim(
            &cx.again(&ask).takeover(Takeover::Below { attempts: 1, younger_than: LONG }).claim(),
        )
        .await?
    {
        Claimed::Lapsed(lapsed) => equal("since", lapsed.since, TEN * 2)?,
        other => return Err(Failure::new("Lapsed", format!("{other:?}"))),
    }
    let taken = acquire(&peer, &cx.again(&ask).lease(TEN)).await?;
    equal("the age at takeover", taken.age, TEN * 3)?;
    peer.complete(&taken.fence, &sealed("x")).await?;
    match present(&peer, &ask).await?.record.state {
        State::Completed { completed_at, expires_at: Some(expires_at), .. } => {
            let kept = expires_at.since(completed_at);
            equal("the rest of the retention", kept, crate::ask::KEPT - TEN * 3)
        }
        other => Err(Failure::new("a completed record", format!("{other:?}"))),
    }
}

async fn clock_set_back(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").lease(TEN);
    let held = acquire(&peer, &ask).await?;
    let clock = cx.clock()?;
    clock.step_back(LONG).await.map_err(|error| crate::context::setup("the clock", &error))?;
    equal("the age", present(&peer, &ask).await?.age(), Duration::ZERO)?;
    live_for(&cx, &peer, &ask, TEN + LONG).await?;
    peer.renew(&held.fence, TEN).await?;
    live_for(&cx, &peer, &ask, TEN + LONG).await?;
    peer.complete(&held.fence, &sealed("x")).await?;
    match peer.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => equal("the reply", replay.reply, sealed("x"))?,
        other => return Err(Failure::new("a replay", format!("{other:?}"))),
    }
    cx.pass(LONG).await
}
