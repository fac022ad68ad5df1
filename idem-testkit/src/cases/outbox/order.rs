//! The order of messages, and that none is passed over.

use std::time::Duration;

use idem_core::error::ErrorKind;
use idem_core::outbox::{LeaseMessages, MessageState, OutboxMessage};

use super::{LONG, case, labels, leases, listed, message, push, sent, settle};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::Context;
use crate::failure::{CaseResult, Failure, equal};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "outbox::pushed_in_order",
            "R21",
            "messages come in the order in which they were pushed, whole",
            pushed_in_order,
        ),
        case(
            "outbox::order_of_commits",
            "R21",
            "of two transactions that push under one ordering key, the one that commits first \
             comes first, and nothing appears in front of what was seen",
            order_of_commits,
        ),
        case(
            "outbox::late_commit_is_not_passed_over",
            "R21",
            "a message that was pushed earlier and committed later than another is delivered",
            late_commit,
        )
        .needing(&[Capability::IndependentRecords]),
        case(
            "outbox::uncommitted_is_not_seen",
            "R21",
            "a message that is still being written is neither sent nor deleted; rolled back, it \
             is gone",
            uncommitted,
        ),
    ]
}

async fn pushed_in_order(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    let transactions = peer.transactions()?;
    let mut pushed = Vec::new();
    for label in ["c", "a", "b"] {
        let header = message(label, "key").with_header("Name", "v\u{e9} \"x\"");
        let message = header.expect("it is short");
        let mut tx = transactions.begin().await?;
        transactions.push_in(&mut tx, &message).await?;
        transactions.commit(tx).await?;
        pushed.push(message);
    }
    let leased = leases(&outbox, &["c", "a", "b"]).await?;
    for (leased, pushed) in leased.iter().zip(&pushed) {
        equal("the message", &leased.message, pushed)?;
        equal("its fence's id", leased.lease.id, pushed.id())?;
        equal("failures and lapses", (leased.failures, leased.lapses), (0, 0))?;
    }
    settle(&outbox, &sent(&leased)).await?;
    leases(&outbox, &[]).await.map(|_| ())
}

async fn order_of_commits(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let outbox = a.outbox()?;
    let transactions = a.transactions()?;
    let mut first = transactions.begin().await?;
    transactions.push_in(&mut first, &message("first", "key")).await?;
    let second = tokio::spawn(push_at_last(b, message("second", "key")));
    // Time for a store that does not order them to commit the second.
    tokio::time::sleep(Duration::from_millis(100)).await;
    // A database with one writer cannot lease while a transaction is open.
    match outbox.lease(&LeaseMessages::new(LONG, 100)).await {
        Err(error) if error.kind() == ErrorKind::NotApplied => {}
        leased => {
            equal("what is leased while the first is open", labels(&leased?.messages), vec![])?
        }
    }
    transactions.commit(first).await?;
    let second = second.await;
    second.map_err(|error| Failure::new("no panic", error.to_string()))??;
    leases(&outbox, &["first", "second"]).await.map(|_| ())
}

/// Pushes a message, again and again where somebody's transaction was in the way for too long.
async fn push_at_last(peer: Peer, message: OutboxMessage) -> CaseResult {
    let transactions = peer.transactions()?;
    loop {
        let pushed = async {
            let mut tx = transactions.begin().await?;
            transactions.push_in(&mut tx, &message).await?;
            transactions.commit(tx).await
        };
        match pushed.await {
            Err(error) if error.kind() == ErrorKind::NotApplied => {}
            pushed => return Ok(pushed?),
        }
    }
}

async fn late_commit(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let outbox = a.outbox()?;
    let transactions = a.transactions()?;
    let mut late = transactions.begin().await?;
    transactions.push_in(&mut late, &message("late", "one")).await?;
    transactions.push_in(&mut late, &message("later", "")).await?;
    push(&b, &[("early", "two"), ("earlier", "")]).await?;
    let early = leases(&outbox, &["early", "earlier"]).await?;
    settle(&outbox, &sent(&early)).await?;
    outbox.delete_sent(Duration::ZERO, 100).await?;
    transactions.commit(late).await?;
    leases(&outbox, &["late", "later"]).await.map(|_| ())
}

async fn uncommitted(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let outbox = b.outbox()?;
    let transactions = a.transactions()?;
    let mut tx = transactions.begin().await?;
    transactions.push_in(&mut tx, &message("unborn", "key")).await?;
    listed(&outbox, MessageState::Waiting, &[]).await?;
    transactions.rollback(tx).await?;
    leases(&outbox, &[]).await?;
    push(&a, &[("next", "key")]).await?;
    leases(&outbox, &["next"]).await.map(|_| ())
}
