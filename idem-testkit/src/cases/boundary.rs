//! Durations at their ends: none, a very short one, and longer than anything is kept.

use std::time::{Duration, Instant};

use idem_core::claim::{Claimed, Takeover};
use idem_core::record::Retention;
use idem_core::store::{Renewed, Store};
use idem_core::time::MAX_DURATION;

use crate::ask::{ALWAYS, KEPT, LONG, recovery, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, that};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "boundary::zero_lease_is_a_very_short_one",
            "R6",
            "a lease of zero is a very short lease, never none: it is held, and it lapses",
            zero_lease,
        ),
        Case::new(
            "boundary::huge_durations",
            "R6, R11",
            "the longest lease, retention and age there are fit, and none of them overflows",
            huge_durations,
        ),
        Case::new(
            "boundary::zero_retention_expires_at_once",
            "R11",
            "a reply that is kept for no time is stored, and counts as absent from then on",
            zero_retention,
        ),
        Case::new(
            "boundary::least_after_completion",
            "R11",
            "a reply is kept for its minimum after completion, however old its record is",
            least_after_completion,
        ),
        Case::new(
            "boundary::heartbeat_shortens_nothing",
            "R8",
            "a shorter heartbeat, or a checkpoint's shorter lease, leaves the longer lease",
            heartbeat_shortens_nothing,
        ),
        Case::new(
            "boundary::giving_up_is_for_good",
            "R8",
            "a lease that was given up is over at once, and no heartbeat brings it back",
            giving_up_is_for_good,
        ),
        Case::new(
            "boundary::remaining_time_runs",
            "R6",
            "the remaining time that others are told gets shorter, by the store's clock",
            remaining_time_runs,
        ),
        Case::new(
            "boundary::retention_of_another_claim_does_not_count",
            "R11",
            "a reply is kept as its first claim asked, whoever completes it",
            retention_of_the_first_claim,
        ),
    ]
}

async fn zero_lease(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").lease(Duration::ZERO);
    let held = acquire(&peer, &ask).await?;
    that(!held.lease.is_zero(), "a lease that is not over when it is returned", held.lease)?;
    cx.lapse(&peer, &ask).await?;
    // Over, and still the holder's until somebody takes over.
    peer.complete(&held.fence, &sealed("late")).await?;

    let taken = cx.ask("t");
    cx.lapsed(&peer, &taken).await?;
    let next = acquire(&peer, &cx.again(&taken).lease(Duration::ZERO)).await?;
    that(!next.lease.is_zero(), "a takeover's lease that is not over", next.lease)?;
    peer.checkpoint(&next.fence, &recovery(1, "x"), Duration::ZERO).await?;
    cx.lapse(&peer, &taken).await?;
    let renewed = peer.renew(&next.fence, LONG).await?;
    that(matches!(renewed, Renewed::Held(_)), "a lease of zero not to be given up", renewed)
}

/// About a hundred years: what is asked for less what a slow machine takes.
const ALMOST: Duration = Duration::from_secs(99 * 365 * 24 * 60 * 60);

async fn huge_durations(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let bounded = |what: &str, seen: Duration| {
        that((ALMOST..=MAX_DURATION).contains(&seen), "the longest duration there is", (what, seen))
    };
    let forever = Takeover::Below { attempts: u32::MAX, younger_than: Duration::MAX };
    let ask = cx
        .ask("k")
        .lease(Duration::MAX)
        .retention(Retention::at_least(Duration::MAX, Duration::MAX))
        .takeover(forever);
    let held = acquire(&peer, &ask).await?;
    bounded("the lease", held.lease)?;
    match peer.claim(&cx.again(&ask).claim()).await? {
        Claimed::InProgress { remaining } => bounded("the remaining time", remaining)?,
        other => return Err(Failure::new("InProgress", format!("{other:?}"))),
    }
    match peer.renew(&held.fence, Duration::MAX).await? {
        Renewed::Held(lease) => bounded("the renewed lease", lease.remaining)?,
        other => return Err(Failure::new("a lease", format!("{other:?}"))),
    }
    let lease = peer.checkpoint(&held.fence, &recovery(1, "x"), Duration::MAX).await?;
    bounded("the checkpoint's lease", lease.remaining)?;
    peer.complete(&held.fence, &sealed("done")).await?;
    match peer.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => bounded("expires_in", replay.expires_in.unwrap_or_default()),
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn zero_retention(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").retention(Retention::of(Duration::ZERO));
    let held = acquire(&peer, &ask).await?;
    let seen = present(&peer, &ask).await?;
    that(seen.lapsed_for().is_none(), "a record in progress not to expire", seen.record.state)?;
    peer.complete(&held.fence, &sealed("done")).await?;
    equal("the record", peer.get(&ask.scope, &ask.key).await?, None)?;
    let next = acquire(&peer, &cx.again(&ask)).await?;
    equal("the attempt of the new life", next.fence.attempt, 1)
}

async fn least_after_completion(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").retention(Retention::at_least(cx.brief(), KEPT));
    let held = acquire(&peer, &ask).await?;
    cx.pass(cx.brief()).await?;
    peer.complete(&held.fence, &sealed("done")).await?;
    cx.pass(cx.brief()).await?;
    match peer.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => {
            let left = replay.expires_in;
            that(left.is_some_and(|left| left > KEPT / 2), "the minimum to run", left)
        }
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn heartbeat_shortens_nothing(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let held = acquire(&peer, &ask).await?;
    let brief = Duration::from_millis(1);
    for round in 1..=3 {
        match peer.renew(&held.fence, brief).await? {
            Renewed::Held(lease) => that(lease.remaining > LONG / 2, "the longer lease", lease)?,
            other => return Err(Failure::new("a lease", format!("{other:?}"))),
        }
        let lease = peer.checkpoint(&held.fence, &recovery(round, "x"), brief).await?;
        that(lease.remaining > LONG / 2, "the longer lease", lease)?;
    }
    let claimed = peer.claim(&cx.again(&ask).claim()).await?;
    that(matches!(claimed, Claimed::InProgress { .. }), "InProgress", &claimed)
}

async fn giving_up_is_for_good(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let ask = cx.ask("k");
    let held = acquire(&a, &ask).await?;
    equal("giving up", a.renew(&held.fence, Duration::ZERO).await?, Renewed::GivenUp)?;
    let seen = present(&a, &ask).await?;
    that(seen.lapsed_for().is_some(), "the lease to be over at once", seen.record.state)?;
    // A heartbeat that was under way, and a recovery point.
    equal("a late heartbeat", a.renew(&held.fence, LONG).await?, Renewed::GivenUp)?;
    a.checkpoint(&held.fence, &recovery(1, "x"), LONG).await?;
    let seen = present(&a, &ask).await?;
    that(seen.lapsed_for().is_some(), "the lease to stay over", seen.record.state)?;
    let taken = acquire(&b, &cx.again(&ask)).await?;
    equal("the taker's attempt", taken.fence.attempt, 2)?;
    let renewed = b.renew(&taken.fence, LONG).await?;
    that(matches!(renewed, Renewed::Held(_)), "the taker to hold a lease of its own", renewed)
}

async fn remaining_time_runs(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    acquire(&peer, &ask).await?;
    let mut last = Duration::MAX;
    for _ in 0..4 {
        match peer.claim(&cx.again(&ask).claim()).await? {
            Claimed::InProgress { remaining } => {
                that(remaining < last, "a shorter time than the last one", (remaining, last))?;
                last = remaining;
            }
            other => return Err(Failure::new("InProgress", format!("{other:?}"))),
        }
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_millis(2) {
            cx.pass(Duration::from_millis(5)).await?;
            if cx.steps_clock() {
                break;
            }
        }
    }
    Ok(())
}

async fn retention_of_the_first_claim(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").retention(Retention::Forever);
    cx.lapsed(&peer, &ask).await?;
    let next = cx.again(&ask).retention(Retention::of(Duration::ZERO)).takeover(ALWAYS);
    let taken = acquire(&peer, &next).await?;
    peer.complete(&taken.fence, &sealed("done")).await?;
    match peer.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => equal("expires_in", replay.expires_in, None),
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}
