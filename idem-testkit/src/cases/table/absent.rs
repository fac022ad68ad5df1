//! Nothing there, or an expired reply, which counts as nothing.

use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};
use idem_core::record::{Incarnation, Retention, State};
use idem_core::store::Store;
use idem_core::time::MAX_DURATION;

use crate::ask::{Ask, LONG, print, recovery, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, that};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "table::absent_is_inserted",
            "R1, R15, R26",
            "a claim of a new key is attempt 1 and stores what it carried",
            absent_is_inserted,
        ),
        Case::new(
            "table::every_policy_inserts_but_only",
            "R1, R2",
            "Never and Below insert where nothing is; a cap of zero attempts is about takeovers",
            every_policy_inserts,
        ),
        Case::new(
            "table::only_never_inserts",
            "R2",
            "a claim with Only on a key that is not there is Gone, and nothing is written",
            only_never_inserts,
        ),
        Case::new(
            "table::expired_is_inserted_anew",
            "R4, R8, R11",
            "an expired reply counts as absent: a new life, and nothing of the old one in it",
            expired_is_inserted_anew,
        ),
        Case::new(
            "table::only_on_expired_is_gone",
            "R2, R11",
            "a claim with Only on an expired reply is Gone",
            only_on_expired_is_gone,
        ),
        Case::new(
            "table::expired_by_the_same_owner_is_a_new_life",
            "R8",
            "a delayed copy of an old claim starts a life that the old fence does not reach",
            expired_by_the_same_owner,
        ),
    ]
}

async fn absent_is_inserted(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").input("the input").marking_begun();
    let held = acquire(&peer, &ask).await?;
    equal("the attempt", held.fence.attempt, 1)?;
    equal("the owner", held.fence.owner, ask.owner)?;
    equal("the recovery point", held.recovery.clone(), None)?;
    equal("the fingerprint", held.fingerprint, print(1))?;
    that(!held.replaced, "nothing to have been replaced", &held)?;
    that(held.age < LONG, "an age of about nothing", held.age)?;
    that(!held.lease.is_zero() && held.lease <= LONG, "a lease of at most what was asked", &held)?;

    let record = present(&peer, &ask).await?.record;
    equal("the stored fence", record.fence(), held.fence)?;
    equal("the stored operation", &record.operation, &ask.operation)?;
    equal("the stored fingerprint", record.fingerprint, print(1))?;
    equal("the stored input", &record.input, &ask.input)?;
    equal("the stored retention", record.retention, ask.retention)?;
    equal("the stored mark", record.marks_begun, true)?;
    match record.state {
        State::InProgress { given_up: false, recovery: None, .. } => Ok(()),
        other => Err(Failure::new("the record to be freshly in progress", format!("{other:?}"))),
    }
}

async fn every_policy_inserts(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let none = Takeover::Below { attempts: 0, younger_than: Duration::ZERO };
    for (label, policy) in [("never", Takeover::Never), ("below", none)] {
        let held = acquire(&peer, &cx.ask(label).takeover(policy)).await?;
        equal("the attempt", held.fence.attempt, 1)?;
    }
    Ok(())
}

fn only(incarnation: Incarnation, attempt: u32) -> Takeover {
    Takeover::Only { incarnation, attempt, younger_than: None }
}

async fn only_never_inserts(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let policy = only(Incarnation::from_bytes(cx.random().bytes()), 1);
    let ask = cx.ask("k").takeover(policy);
    equal("the claim", peer.claim(&ask.claim()).await?, Claimed::Gone)?;
    equal("the record", peer.get(&ask.scope, &ask.key).await?, None)
}

/// A reply that is expired from the moment it stands.
async fn expired(peer: &Peer, ask: &Ask) -> Result<idem_core::claim::Acquired, Failure> {
    let ask = ask.clone().input("old input").retention(Retention::of(Duration::ZERO));
    let held = acquire(peer, &ask).await?;
    peer.checkpoint(&held.fence, &recovery(1, "old step"), LONG).await?;
    peer.complete(&held.fence, &sealed("old reply")).await?;
    equal("an expired record", peer.get(&ask.scope, &ask.key).await?, None)?;
    Ok(held)
}

async fn expired_is_inserted_anew(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let old = expired(&peer, &ask).await?;
    let next = cx.again(&ask).operation("refund").print(print(2));
    cx.pass(cx.brief()).await?;
    let held = acquire(&peer, &next).await?;
    equal("the attempt", held.fence.attempt, 1)?;
    that(held.age < cx.brief(), "an age counted from this claim", held.age)?;
    that(held.fence.incarnation != old.fence.incarnation, "a fresh incarnation", &held.fence)?;
    that(!held.replaced, "an expired reply not to count as replaced", &held)?;
    equal("the recovery point", held.recovery, None)?;
    equal("the input", held.input, None)?;
    let record = present(&peer, &next).await?.record;
    equal("the stored fence", record.fence(), held.fence)?;
    equal("the stored operation", record.operation, next.operation)?;
    equal("the stored fingerprint", record.fingerprint, print(2))?;
    equal("the stored input", record.input, None)?;
    equal("the stored retention", record.retention, next.retention)
}

async fn only_on_expired_is_gone(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let old = expired(&peer, &ask).await?;
    let ask = cx.again(&ask).takeover(only(old.fence.incarnation, 1));
    equal("the claim", peer.claim(&ask.claim()).await?, Claimed::Gone)?;
    equal("the record", peer.get(&ask.scope, &ask.key).await?, None)
}

async fn expired_by_the_same_owner(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let old = expired(&peer, &ask).await?;
    let held = acquire(&peer, &ask.clone().lease(MAX_DURATION)).await?;
    equal("the attempt", held.fence.attempt, 1)?;
    that(
        held.fence.incarnation != old.fence.incarnation,
        "an incarnation that no earlier life of the same owner had",
        &held.fence,
    )
}
