//! What a commit makes stand, and a rollback takes away.

use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::outbox::OutboxMessage;
use idem_core::record::State;
use idem_core::store::Store;

use super::{insert, marker, rows};
use crate::ask::{LONG, print, recovery, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, acquire_at_last, acquired, present};
use crate::failure::{CaseResult, Failure, equal, refused, that};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "transactions::claim_first_commits_rows_and_reply",
            "R19",
            "rows and reply of a claim that was committed before stand together after commit",
            claim_first_commits,
        ),
        Case::new(
            "transactions::claim_first_rolls_back_rows_and_reply",
            "R19",
            "after a rollback neither rows nor reply stand, and the claim still does",
            claim_first_rolls_back,
        ),
        Case::new(
            "transactions::dropped_is_rolled_back",
            "R19, R25",
            "a transaction that is dropped leaves nothing and holds nobody up",
            dropped_is_rolled_back,
        ),
        Case::new(
            "transactions::one_commit",
            "R19",
            "claim, rows and reply in one commit stand together",
            one_commit,
        ),
        Case::new(
            "transactions::one_commit_rolled_back",
            "R19",
            "claim, rows and reply in one transaction that rolls back leave nothing at all",
            one_commit_rolled_back,
        ),
        Case::new(
            "transactions::claim_in_keeps_the_table",
            "R2, R4",
            "a claim inside a transaction is told what one outside is told",
            claim_in_keeps_the_table,
        ),
        Case::new(
            "transactions::savepoint_keeps_the_claim",
            "R19",
            "undoing to the savepoint takes the rows back and keeps the claim, so that an error \
             reply can be stored",
            savepoint,
        ),
        Case::new(
            "transactions::rows_of_a_step_commit_with_its_checkpoint",
            "R19",
            "a step's rows and its recovery point stand together, or neither does",
            step,
        ),
        Case::new(
            "transactions::hold_in_checks_the_fence",
            "R8, R19",
            "holding is refused to a fence that is lost, and to one that was completed",
            hold_in_checks_the_fence,
        ),
        Case::new(
            "transactions::messages_commit_with_the_reply",
            "R21",
            "a message waits in the outbox after a commit, and not after a rollback",
            messages,
        )
        .needing(&[Capability::Admin, Capability::Isolated]),
    ]
}

async fn claim_first_commits(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (t, ask, row) = (a.transactions()?, cx.ask("k").input("input"), marker(&cx, "row"));
    let held = acquire(&a, &ask).await?;
    let mut tx = t.begin().await?;
    t.hold_in(&mut tx, &held.fence).await?;
    insert(&*t, &mut tx, &row).await?;
    t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
    rows(&*b.transactions()?, &row, 0).await?;
    t.commit(tx).await?;
    rows(&*b.transactions()?, &row, 1).await?;
    match b.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => {
            equal("the reply", replay.reply, sealed("done"))?;
            equal("its fence", replay.fence, held.fence)
        }
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn claim_first_rolls_back(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (t, ask, row) = (a.transactions()?, cx.ask("k"), marker(&cx, "row"));
    let held = acquire(&a, &ask).await?;
    let before = present(&a, &ask).await?.record;
    let mut tx = t.begin().await?;
    t.hold_in(&mut tx, &held.fence).await?;
    insert(&*t, &mut tx, &row).await?;
    t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
    t.rollback(tx).await?;
    rows(&*t, &row, 0).await?;
    equal("the record", present(&b, &ask).await?.record, before)?;
    Ok(a.complete(&held.fence, &sealed("done after all")).await?)
}

async fn dropped_is_rolled_back(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (t, row) = (a.transactions()?, marker(&cx, "row"));
    for round in 0..12 {
        let ask = cx.ask(&format!("k{round}"));
        let held = acquire(&a, &ask).await?;
        let mut tx = t.begin().await?;
        insert(&*t, &mut tx, &row).await?;
        t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
        drop(tx);
        let seen = present(&b, &ask).await?.record;
        that(matches!(seen.state, State::InProgress { .. }), "no reply to stand", seen.state)?;
        // The next caller is not held up by it for longer than the rollback takes.
        acquire_at_last(&b, &ask).await?;
        b.complete(&held.fence, &sealed("done")).await?;
    }
    rows(&*t, &row, 0).await
}

async fn one_commit(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (t, ask, row) = (a.transactions()?, cx.ask("k"), marker(&cx, "row"));
    let mut tx = t.begin().await?;
    let held = acquired(t.claim_in(&mut tx, &ask.claim()).await?)?;
    equal("the attempt", held.fence.attempt, 1)?;
    insert(&*t, &mut tx, &row).await?;
    t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
    t.commit(tx).await?;
    rows(&*b.transactions()?, &row, 1).await?;
    match b.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => equal("the reply", replay.reply, sealed("done")),
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn one_commit_rolled_back(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (t, ask, row) = (a.transactions()?, cx.ask("k"), marker(&cx, "row"));
    let mut tx = t.begin().await?;
    let held = acquired(t.claim_in(&mut tx, &ask.claim()).await?)?;
    insert(&*t, &mut tx, &row).await?;
    t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
    t.rollback(tx).await?;
    rows(&*t, &row, 0).await?;
    equal("the record", b.get(&ask.scope, &ask.key).await?, None)?;
    let next = acquire(&b, &cx.again(&ask)).await?;
    equal("the attempt of the next claim", next.fence.attempt, 1)?;
    that(next.fence.incarnation != held.fence.incarnation, "a fresh incarnation", &next.fence)
}

async fn claim_in_keeps_the_table(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (t, ask) = (peer.transactions()?, cx.ask("k"));
    let lapsed = cx.ask("lapsed");
    let held = acquire(&peer, &ask).await?;
    cx.lapsed(&peer, &lapsed).await?;
    let done = cx.ask("done");
    let fence = acquire(&peer, &done).await?.fence;
    peer.complete(&fence, &sealed("done")).await?;

    let mut tx = t.begin().await?;
    let live = t.claim_in(&mut tx, &cx.again(&ask).claim()).await?;
    that(matches!(live, Claimed::InProgress { .. }), "InProgress", &live)?;
    let differs = t.claim_in(&mut tx, &cx.again(&ask).print(print(2)).claim()).await?;
    equal("another request", differs, Claimed::Mismatch { completed: false })?;
    let own = acquired(t.claim_in(&mut tx, &ask.claim()).await?)?;
    equal("the own claim's fence", own.fence, held.fence)?;
    let replayed = t.claim_in(&mut tx, &cx.again(&done).claim()).await?;
    that(matches!(replayed, Claimed::Completed(_)), "a replay", &replayed)?;
    let taken = acquired(t.claim_in(&mut tx, &cx.again(&lapsed).claim()).await?)?;
    equal("the taker's attempt", taken.fence.attempt, 2)?;
    t.commit(tx).await?;
    equal("the taker's fence", present(&peer, &lapsed).await?.record.fence(), taken.fence)
}

async fn savepoint(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (t, ask) = (peer.transactions()?, cx.ask("k"));
    let (kept, undone) = (marker(&cx, "kept"), marker(&cx, "undone"));
    let mut tx = t.begin().await?;
    let held = acquired(t.claim_in(&mut tx, &ask.claim()).await?)?;
    insert(&*t, &mut tx, &undone).await?;
    t.savepoint_in(&mut tx).await?;
    t.undo_to_savepoint_in(&mut tx).await?;
    insert(&*t, &mut tx, &kept).await?;
    // A later savepoint replaces the earlier one.
    t.savepoint_in(&mut tx).await?;
    insert(&*t, &mut tx, &undone).await?;
    t.undo_to_savepoint_in(&mut tx).await?;
    t.complete_in(&mut tx, &held.fence, &sealed("an error")).await?;
    t.commit(tx).await?;
    rows(&*t, &kept, 1).await?;
    rows(&*t, &undone, 1).await?;
    match peer.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => equal("the reply", replay.reply, sealed("an error")),
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn step(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (t, ask, row) = (peer.transactions()?, cx.ask("k"), marker(&cx, "row"));
    let held = acquire(&peer, &ask).await?;
    for commits in [false, true] {
        let mut tx = t.begin().await?;
        t.hold_in(&mut tx, &held.fence).await?;
        insert(&*t, &mut tx, &row).await?;
        let lease = t.checkpoint_in(&mut tx, &held.fence, &recovery(1, "step"), LONG).await?;
        that(!lease.remaining.is_zero(), "a lease that runs", lease)?;
        if commits {
            t.commit(tx).await?
        } else {
            t.rollback(tx).await?
        }
        let seen = present(&peer, &ask).await?.record;
        let expected = commits.then(|| recovery(1, "step"));
        equal("the recovery point", seen.recovery(), expected.as_ref())?;
        rows(&*t, &row, u64::from(commits)).await?;
    }
    Ok(())
}

async fn hold_in_checks_the_fence(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (t, ask) = (peer.transactions()?, cx.ask("k"));
    let lost = cx.lapsed(&peer, &ask).await?.fence;
    let taken = acquire(&peer, &cx.again(&ask)).await?.fence;
    let mut tx = t.begin().await?;
    refused(t.hold_in(&mut tx, &lost).await, ErrorKind::FenceLost)?;
    t.rollback(tx).await?;
    let mut tx = t.begin().await?;
    t.hold_in(&mut tx, &taken).await?;
    refused(t.complete_in(&mut tx, &lost, &sealed("x")).await, ErrorKind::FenceLost)?;
    t.rollback(tx).await?;
    peer.complete(&taken, &sealed("done")).await?;
    let mut tx = t.begin().await?;
    refused(t.hold_in(&mut tx, &taken).await, ErrorKind::FenceLost)?;
    Ok(t.rollback(tx).await?)
}

async fn messages(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (t, ask) = (peer.transactions()?, cx.ask("k"));
    let held = acquire(&peer, &ask).await?;
    let waiting = async || Ok::<_, Failure>(peer.admin()?.stats().await?.outbox_pending);
    equal("messages before", waiting().await?, Some(0))?;
    for commits in [false, true] {
        let message = OutboxMessage::new("receipts", "paid").expect("a short message");
        let mut tx = t.begin().await?;
        t.hold_in(&mut tx, &held.fence).await?;
        t.push_in(&mut tx, &message).await?;
        t.complete_in(&mut tx, &held.fence, &sealed("done")).await?;
        if commits {
            t.commit(tx).await?
        } else {
            t.rollback(tx).await?
        }
        equal("messages after", waiting().await?, Some(u64::from(commits)))?;
    }
    Ok(())
}
