//! Inside a transaction a repeat is refused, since the rows beside it would stand twice (R5).

use idem_core::error::ErrorKind;
use idem_core::store::Store;

use super::{insert, marker, rows};
use crate::ask::{LONG, recovery, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, equal, refused};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "transactions::completion_run_again_is_refused",
            "R5, R19",
            "a body whose commit was not acknowledged and is run again leaves one row, not two",
            completion_again,
        ),
        Case::new(
            "transactions::checkpoint_run_again_is_refused",
            "R5, R19",
            "a step whose commit was not acknowledged and is run again leaves one row, not two",
            checkpoint_again,
        ),
        Case::new(
            "transactions::completion_after_takeover_is_refused",
            "R8, R19",
            "a holder that was taken over cannot commit its rows",
            completion_after_takeover,
        ),
        Case::new(
            "transactions::other_reply_is_refused",
            "R8, R19",
            "another reply under the same fence is fence lost, and its rows do not stand",
            other_reply,
        ),
    ]
}

async fn completion_again(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (t, ask, row) = (peer.transactions()?, cx.ask("k"), marker(&cx, "row"));
    let held = acquire(&peer, &ask).await?;
    for round in 0..2 {
        let mut tx = t.begin().await?;
        insert(&*t, &mut tx, &row).await?;
        let completed = t.complete_in(&mut tx, &held.fence, &sealed("done")).await;
        if round == 0 {
            completed?;
            t.commit(tx).await?;
        } else {
            refused(completed, ErrorKind::AlreadyApplied)?;
            t.rollback(tx).await?;
        }
    }
    rows(&*t, &row, 1).await
}

async fn checkpoint_again(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (t, ask, row) = (peer.transactions()?, cx.ask("k"), marker(&cx, "row"));
    let held = acquire(&peer, &ask).await?;
    for round in 0..2 {
        let mut tx = t.begin().await?;
        insert(&*t, &mut tx, &row).await?;
        let written = t.checkpoint_in(&mut tx, &held.fence, &recovery(1, "x"), LONG).await;
        if round == 0 {
            written?;
            t.commit(tx).await?;
        } else {
            refused(written, ErrorKind::AlreadyApplied)?;
            t.rollback(tx).await?;
        }
    }
    // One that is out of its order is refused as it is outside.
    let mut tx = t.begin().await?;
    let written = t.checkpoint_in(&mut tx, &held.fence, &recovery(3, "x"), LONG).await;
    refused(written, ErrorKind::Refused)?;
    t.rollback(tx).await?;
    rows(&*t, &row, 1).await
}

async fn completion_after_takeover(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (t, ask, row) = (a.transactions()?, cx.ask("k"), marker(&cx, "row"));
    let held = cx.lapsed(&a, &ask).await?;
    let taken = acquire(&b, &cx.again(&ask)).await?;
    let mut tx = t.begin().await?;
    insert(&*t, &mut tx, &row).await?;
    let completed = t.complete_in(&mut tx, &held.fence, &sealed("late")).await;
    refused(completed, ErrorKind::FenceLost)?;
    t.rollback(tx).await?;
    rows(&*t, &row, 0).await?;
    equal("the record's fence", present(&b, &ask).await?.record.fence(), taken.fence)
}

async fn other_reply(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (t, ask, row) = (peer.transactions()?, cx.ask("k"), marker(&cx, "row"));
    let held = acquire(&peer, &ask).await?;
    peer.complete(&held.fence, &sealed("one")).await?;
    let mut tx = t.begin().await?;
    insert(&*t, &mut tx, &row).await?;
    let completed = t.complete_in(&mut tx, &held.fence, &sealed("two")).await;
    refused(completed, ErrorKind::FenceLost)?;
    t.rollback(tx).await?;
    rows(&*t, &row, 0).await
}
