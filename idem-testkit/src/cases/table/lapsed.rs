//! A record whose lease is over.

use std::time::Duration;

use idem_core::claim::{Acquired, Claimed, Takeover};
use idem_core::record::{Incarnation, Retention};
use idem_core::store::Store;
use idem_core::time::MAX_DURATION;

use crate::ask::{ALWAYS, Ask, KEPT, LONG, print, recovery, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, that};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "table::lapsed_is_taken_over",
            "R7, R8, R15",
            "a taker gets attempt 2, the recovery point and the first claim's input",
            lapsed_is_taken_over,
        ),
        Case::new(
            "table::takeover_keeps_what_is_stored",
            "R11, R15, R20",
            "operation, fingerprint, input, retention and first claim stay as the first claim's",
            takeover_keeps_what_is_stored,
        ),
        Case::new(
            "table::takeover_ends_the_mark_of_an_unmarked_taker",
            "R26",
            "a taker that does not mark begun makes the record one that may have begun",
            unmarked_taker,
        ),
        Case::new(
            "table::never_holds_what_began",
            "R26",
            "Never leaves a lapsed record with a recovery point alone",
            never_holds_what_began,
        ),
        Case::new(
            "table::never_takes_what_did_not_begin",
            "R26",
            "Never counts only against a record with a recovery point",
            never_takes_what_did_not_begin,
        ),
        Case::new(
            "table::cap_of_attempts",
            "R15",
            "a record at the cap of attempts is left Lapsed, with its attempt and since when",
            cap_of_attempts,
        ),
        Case::new(
            "table::too_old_to_take_over",
            "R27",
            "a takeover that may not go on is refused inside the claim, not after it",
            too_old,
        ),
        Case::new(
            "table::only_takes_what_it_names",
            "R2",
            "Only takes the very incarnation and attempt it names, and nothing else",
            only_takes_what_it_names,
        ),
        Case::new(
            "table::only_judges_the_age_too",
            "R27",
            "Only with an age limit leaves an older record alone",
            only_judges_the_age,
        ),
        Case::new(
            "table::another_request_replaces_what_never_began",
            "R26",
            "a lapsed record that marks begun and did not begin gives way to another request",
            replaces_what_never_began,
        ),
        Case::new(
            "table::another_request_replaces_what_outlived_its_retention",
            "R10",
            "a lapsed record without a recovery point gives way once its retention is over",
            replaces_what_outlived,
        ),
        Case::new(
            "table::another_request_does_not_replace_what_may_have_begun",
            "R4, R26",
            "a lapsed record gives way to no other request while it may have begun",
            does_not_replace,
        ),
        Case::new(
            "table::only_replaces_nothing",
            "R2",
            "Only with another request is a mismatch, even where any other policy would replace",
            only_replaces_nothing,
        ),
    ]
}

async fn lapsed_is_taken_over(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let ask = cx.ask("k").input("first input");
    let first = acquire(&a, &ask.clone().lease(cx.brief())).await?;
    a.checkpoint(&first.fence, &recovery(1, "step"), cx.brief()).await?;
    cx.lapse(&a, &ask).await?;
    let next = cx.again(&ask).input("second input");
    let taken = acquire(&b, &next).await?;
    equal("the attempt", taken.fence.attempt, 2)?;
    equal("the owner", taken.fence.owner, next.owner)?;
    equal("the incarnation", taken.fence.incarnation, first.fence.incarnation)?;
    equal("the recovery point", taken.recovery.clone(), Some(recovery(1, "step")))?;
    equal("the input", taken.input.clone(), Some(sealed("first input")))?;
    that(!taken.lease.is_zero() && taken.lease <= LONG, "a lease that runs", taken.lease)?;
    that(!taken.replaced, "a takeover not to count as replaced", &taken)?;
    let seen = present(&b, &ask).await?;
    equal("the stored fence", seen.record.fence(), taken.fence)?;
    that(seen.lapsed_for().is_none(), "the record to be live", seen.record.state)
}

async fn takeover_keeps_what_is_stored(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").input("first input");
    cx.lapsed(&peer, &ask).await?;
    let before = present(&peer, &ask).await?.record;
    // Nothing that a taker brings along replaces what stands.
    let next = cx.again(&ask).input("other").retention(Retention::Forever);
    let taken =
        acquire(&peer, &next.print(idem_core::fingerprint::Fingerprints::not_compared())).await?;
    equal("the fingerprint", taken.fingerprint, print(1))?;
    let after = present(&peer, &ask).await?.record;
    equal("the operation", after.operation, before.operation)?;
    equal("the fingerprint", after.fingerprint, before.fingerprint)?;
    equal("the input", after.input, before.input)?;
    equal("the retention", after.retention, before.retention)?;
    equal("the instant of the first claim", after.created_at, before.created_at)
}

async fn unmarked_taker(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").marking_begun();
    cx.lapsed(&peer, &ask).await?;
    let mut unmarked = cx.again(&ask).lease(cx.brief());
    unmarked.marks_begun = false;
    acquire(&peer, &unmarked).await?;
    equal("the mark", present(&peer, &ask).await?.record.marks_begun, false)?;
    cx.lapse(&peer, &ask).await?;
    let other = peer.claim(&cx.again(&ask).print(print(2)).claim()).await?;
    equal("another request", other, Claimed::Mismatch { completed: false })
}

/// Lapsed, with or without a recovery point.
async fn lapsed(cx: &Context, peer: &Peer, ask: &Ask, began: bool) -> Result<Acquired, Failure> {
    let held = acquire(peer, &ask.clone().lease(cx.brief())).await?;
    if began {
        peer.checkpoint(&held.fence, &recovery(1, "begun"), cx.brief()).await?;
    }
    cx.lapse(peer, ask).await?;
    Ok(held)
}

/// Claims with `policy`; expects the record to be left as it is.
async fn left_alone(cx: &Context, peer: &Peer, ask: &Ask, policy: Takeover) -> CaseResult {
    let before = present(peer, ask).await?.record;
    match peer.claim(&cx.again(ask).takeover(policy).claim()).await? {
        Claimed::Lapsed(lapsed) => {
            equal("the attempt", lapsed.attempt, before.attempt)?;
            that(lapsed.since < LONG, "a time since then that is about right", lapsed.since)?;
        }
        other => {
            return Err(Failure::new(format!("Lapsed under {policy:?}"), format!("{other:?}")));
        }
    }
    equal("the record", present(peer, ask).await?.record, before)
}

async fn never_holds_what_began(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    lapsed(&cx, &peer, &ask, true).await?;
    left_alone(&cx, &peer, &ask, Takeover::Never).await
}

async fn never_takes_what_did_not_begin(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    for (label, ask) in [("marked", cx.ask("a").marking_begun()), ("unmarked", cx.ask("b"))] {
        lapsed(&cx, &peer, &ask, false).await?;
        let taken = acquire(&peer, &cx.again(&ask).takeover(Takeover::Never)).await;
        equal("the attempt", taken.map_err(|failure| failure.at(label))?.fence.attempt, 2)?;
    }
    Ok(())
}

async fn cap_of_attempts(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    lapsed(&cx, &peer, &ask, false).await?;
    let below = |attempts| Takeover::Below { attempts, younger_than: MAX_DURATION };
    left_alone(&cx, &peer, &ask, below(0)).await?;
    left_alone(&cx, &peer, &ask, below(1)).await?;
    let taken = acquire(&peer, &cx.again(&ask).takeover(below(2)).lease(cx.brief())).await?;
    equal("the attempt", taken.fence.attempt, 2)?;
    cx.lapse(&peer, &ask).await?;
    left_alone(&cx, &peer, &ask, below(2)).await
}

async fn too_old(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    lapsed(&cx, &peer, &ask, true).await?;
    let young = |younger_than| Takeover::Below { attempts: 9, younger_than };
    left_alone(&cx, &peer, &ask, young(Duration::ZERO)).await?;
    // The lease was brief and is over, so the record is at least that old.
    left_alone(&cx, &peer, &ask, young(cx.brief())).await?;
    equal(
        "the attempt",
        acquire(&peer, &cx.again(&ask).takeover(young(KEPT))).await?.fence.attempt,
        2,
    )
}

fn only(incarnation: Incarnation, attempt: u32, younger_than: Option<Duration>) -> Takeover {
    Takeover::Only { incarnation, attempt, younger_than }
}

async fn only_takes_what_it_names(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let held = lapsed(&cx, &peer, &ask, true).await?;
    let incarnation = held.fence.incarnation;
    let another = Incarnation::from_bytes(cx.random().bytes());
    left_alone(&cx, &peer, &ask, only(another, 1, None)).await?;
    left_alone(&cx, &peer, &ask, only(incarnation, 2, None)).await?;
    let taken = acquire(&peer, &cx.again(&ask).takeover(only(incarnation, 1, None))).await?;
    equal("the attempt", taken.fence.attempt, 2)?;
    equal("the recovery point", taken.recovery, Some(recovery(1, "begun")))
}

async fn only_judges_the_age(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let held = lapsed(&cx, &peer, &ask, true).await?;
    let incarnation = held.fence.incarnation;
    left_alone(&cx, &peer, &ask, only(incarnation, 1, Some(cx.brief()))).await?;
    let policy = only(incarnation, 1, Some(KEPT));
    equal("the attempt", acquire(&peer, &cx.again(&ask).takeover(policy)).await?.fence.attempt, 2)
}

/// Claims another request; expects a new life.
async fn replaced(cx: &Context, peer: &Peer, ask: &Ask, old: &Acquired) -> CaseResult {
    let next = cx.again(ask).print(print(2)).operation("refund").input("new");
    let held = acquire(peer, &next).await?;
    that(held.replaced, "the claim to be told that it replaced a record", &held)?;
    equal("the attempt", held.fence.attempt, 1)?;
    that(held.fence.incarnation != old.fence.incarnation, "a fresh incarnation", &held.fence)?;
    equal("the recovery point", held.recovery, None)?;
    let record = present(peer, &next).await?.record;
    equal("the stored operation", record.operation, next.operation)?;
    equal("the stored input", record.input, next.input)?;
    let late = peer.complete(&old.fence, &sealed("late")).await;
    crate::failure::refused(late, idem_core::error::ErrorKind::FenceLost)
}

async fn replaces_what_never_began(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").marking_begun();
    let old = lapsed(&cx, &peer, &ask, false).await?;
    replaced(&cx, &peer, &ask, &old).await
}

async fn replaces_what_outlived(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").retention(Retention::at_least(Duration::ZERO, KEPT));
    let old = lapsed(&cx, &peer, &ask, false).await?;
    replaced(&cx, &peer, &ask, &old).await
}

async fn does_not_replace(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let over = Retention::of(Duration::ZERO);
    let shapes = [
        ("young and unmarked", cx.ask("a"), false),
        ("for ever and unmarked", cx.ask("b").retention(Retention::Forever), false),
        ("marked and begun", cx.ask("c").marking_begun(), true),
        ("begun and past its retention", cx.ask("d").retention(over), true),
    ];
    for (label, ask, began) in shapes {
        lapsed(&cx, &peer, &ask, began).await?;
        let before = present(&peer, &ask).await?.record;
        for other in [cx.again(&ask).print(print(2)), cx.again(&ask).operation("refund")] {
            let claimed = peer.claim(&other.takeover(ALWAYS).claim()).await?;
            equal(label, claimed, Claimed::Mismatch { completed: false })?;
        }
        equal(label, present(&peer, &ask).await?.record, before)?;
    }
    Ok(())
}

async fn only_replaces_nothing(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").marking_begun();
    let held = lapsed(&cx, &peer, &ask, false).await?;
    let policy = only(held.fence.incarnation, 1, None);
    let other = cx.again(&ask).print(print(2)).takeover(policy);
    let claimed = peer.claim(&other.claim()).await?;
    equal("the claim", claimed, Claimed::Mismatch { completed: false })?;
    equal("the stored fence", present(&peer, &ask).await?.record.fence(), held.fence)
}
