//! Claims that meet somebody's open transaction: bounded, honest, and never born lapsed (R6).

use std::time::{Duration, Instant};

use idem_core::claim::Claimed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::store::Store;

use super::{insert, marker, rows};
use crate::ask::{Ask, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, acquire_at_last, acquired};
use crate::failure::{CaseResult, Failure, chain, equal, that};
use crate::listing::locked_until;
use crate::peer::Peer;

/// No claim may wait longer than this, whoever holds what. Stores bound it far below.
const BOUND: Duration = Duration::from_secs(40);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "transactions::claim_behind_an_uncommitted_claim",
            "R1, R6",
            "a claim that meets somebody's uncommitted claim is answered within a bound, and \
             acquires nothing",
            behind_an_uncommitted_claim,
        ),
        Case::new(
            "transactions::claim_behind_a_held_record",
            "R6",
            "a claim of a record that a transaction holds is answered within a bound",
            behind_a_held_record,
        ),
        Case::new(
            "transactions::never_born_lapsed",
            "R6",
            "a claim that waited longer than its lease for somebody's lock never gets a lease \
             that is already over",
            never_born_lapsed,
        ),
        Case::new(
            "transactions::one_commit_race",
            "R2, R19",
            "of several one-commit executions of one key at once, one leaves its row",
            one_commit_race,
        ),
        Case::new(
            "transactions::others_are_not_held_up",
            "R2",
            "an open transaction on one key does not delay the verbs of another",
            others_are_not_held_up,
        )
        .needing(&[Capability::IndependentRecords]),
        Case::new(
            "transactions::many_abandoned",
            "R25",
            "many transactions that were begun and dropped leave the store serving",
            many_abandoned,
        ),
    ]
}

/// A claim within the bound; being held up by something else than the record is no answer about
/// the record, and has to say so.
async fn answered(peer: &Peer, ask: &Ask) -> Result<Option<Claimed>, Failure> {
    let started = Instant::now();
    let claimed = tokio::time::timeout(BOUND, peer.claim(&ask.claim())).await;
    let Ok(claimed) = claimed else {
        let seen = format!("none after {:?}", started.elapsed());
        return Err(Failure::new("an answer within a bound", seen));
    };
    match claimed {
        Ok(claimed) => Ok(Some(claimed)),
        Err(error) if error.kind() == ErrorKind::NotApplied => Ok(None),
        Err(error) => Err(Failure::new("an answer, or NotApplied", chain(&error))),
    }
}

async fn behind_an_uncommitted_claim(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (t, ask) = (a.transactions()?, cx.ask("k"));
    let mut tx = t.begin().await?;
    let held = acquired(t.claim_in(&mut tx, &ask.claim()).await?)?;
    let waited = answered(&b, &cx.again(&ask)).await?;
    let honest = matches!(waited, None | Some(Claimed::InProgress { .. }));
    that(honest, "InProgress, or NotApplied", &waited)?;
    t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
    t.commit(tx).await?;
    match b.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => equal("the reply", replay.reply, sealed("done")),
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn behind_a_held_record(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (t, ask) = (a.transactions()?, cx.ask("k"));
    let held = acquire(&a, &ask).await?;
    let mut tx = t.begin().await?;
    t.hold_in(&mut tx, &held.fence).await?;
    let waited = answered(&b, &cx.again(&ask)).await?;
    let honest = matches!(waited, None | Some(Claimed::InProgress { .. }));
    that(honest, "InProgress, or NotApplied", &waited)?;
    t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
    t.commit(tx).await?;
    let claimed = b.claim(&cx.again(&ask).claim()).await?;
    that(matches!(claimed, Claimed::Completed(_)), "a replay", &claimed)
}

/// How long the lock is held, and how short the lease is that waits for it.
const HELD: Duration = Duration::from_millis(400);

async fn never_born_lapsed(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let t = a.transactions()?;
    for (label, lapsed) in [("new", false), ("dead", true)] {
        let ask = cx.ask(label);
        if lapsed {
            cx.lapsed(&a, &ask).await?;
        }
        let mut tx = t.begin().await?;
        acquired(t.claim_in(&mut tx, &ask.claim()).await?)?;
        let lease = if cx.steps_clock() { cx.brief() } else { HELD / 4 };
        let (waiter, waits) = (b.clone(), cx.again(&ask).lease(lease));
        let asks = waits.clone();
        let waiting = tokio::spawn(async move {
            let answer = answered(&waiter, &asks).await;
            (answer, Instant::now())
        });
        tokio::time::sleep(HELD).await; // Gives it time to get stuck; nothing depends on it.
        if cx.steps_clock() {
            cx.pass(lease * 2).await?;
        }
        t.rollback(tx).await?;
        let waited = waiting.await.map_err(|error| Failure::new("no panic", error.to_string()))?;
        let (answer, answered_at) = (waited.0?, waited.1);
        if let Some(Claimed::Acquired(held)) = answer {
            that(!held.lease.is_zero(), "a lease that is not over", held.lease)?;
            let seen = crate::context::present(&b, &waits).await?;
            // The store's now when it answered was no earlier than this.
            let slack = if cx.steps_clock() { Duration::ZERO } else { answered_at.elapsed() };
            let over = locked_until(&seen.record).is_some_and(|end| end.after(slack) <= seen.now);
            that(!over, "a lease that was not over when the claim was answered", &seen)?;
        }
    }
    Ok(())
}

async fn one_commit_race(cx: Context) -> CaseResult {
    let peers = cx.connect_many(3).await?;
    for round in 0..8 {
        let (ask, row) = (cx.ask(&format!("k{round}")), marker(&cx, &format!("row{round}")));
        let mut together = crate::together::Together::new();
        for peer in &peers {
            let (peer, ask, row) = (peer.clone(), cx.again(&ask), row.clone());
            together = together.and(async move { execute(&peer, &ask, &row).await });
        }
        let mut committed = 0;
        for answer in together.run(&cx).await? {
            committed += u64::from(answer?);
        }
        equal("committed executions", committed, 1)?;
        rows(&*peers[0].transactions()?, &row, 1).await?;
    }
    Ok(())
}

/// One execution in one commit, tried again where it was not applied. Whether it committed.
async fn execute(peer: &Peer, ask: &Ask, row: &str) -> Result<bool, Failure> {
    let t = peer.transactions()?;
    for _ in 0..200 {
        let attempt = async {
            let mut tx = t.begin().await?;
            let claimed = t.claim_in(&mut tx, &ask.claim()).await?;
            Ok::<_, StoreError>((tx, claimed))
        };
        let (mut tx, claimed) = match attempt.await {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotApplied => continue,
            Err(error) => return Err(error.into()),
        };
        match claimed {
            Claimed::Acquired(held) => {
                insert(&*t, &mut tx, row).await?;
                t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
                t.commit(tx).await?;
                return Ok(true);
            }
            Claimed::Completed(_) => {
                return t.rollback(tx).await.map(|()| false).map_err(Into::into);
            }
            Claimed::InProgress { .. } => {
                t.rollback(tx).await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            other => return Err(Failure::new("to win or to wait", format!("{other:?}"))),
        }
    }
    Err(Failure::new("the key to be free or done at last", "200 refusals"))
}

async fn others_are_not_held_up(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let t = a.transactions()?;
    let held = acquire(&a, &cx.ask("held")).await?;
    let mut tx = t.begin().await?;
    t.hold_in(&mut tx, &held.fence).await?;
    acquired(t.claim_in(&mut tx, &cx.ask("new").claim()).await?)?;
    // Whoever waits for the transaction waits for ever: it is only ended afterwards.
    let others = async {
        for number in 0..10 {
            let other = acquire(&b, &cx.ask(&format!("other{number}"))).await?;
            b.renew(&other.fence, Duration::from_secs(7_200)).await?;
            b.complete(&other.fence, &sealed("done")).await?;
        }
        b.sweep(10).await?;
        Ok::<_, Failure>(())
    };
    let Ok(served) = tokio::time::timeout(BOUND, others).await else {
        return Err(Failure::new("other keys to be served", "they wait for the transaction"));
    };
    served?;
    Ok(t.commit(tx).await?)
}

async fn many_abandoned(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let t = peer.transactions()?;
    for round in 0..40 {
        let mut tx = t.begin().await?;
        let ask = cx.ask(&format!("k{}", round % 3));
        acquired(t.claim_in(&mut tx, &ask.claim()).await?)?;
        drop(tx);
    }
    let held = acquire_at_last(&peer, &cx.ask("k0")).await?;
    equal("the attempt", held.fence.attempt, 1)?;
    Ok(peer.complete(&held.fence, &sealed("done")).await?)
}
