//! Outboxes: order, leases, fences and dead letters (R21).

mod holders;
mod housekeeping;
mod leases;
mod model;
mod order;

use std::sync::Arc;
use std::time::Duration;

use idem_core::outbox::{
    LeaseMessages, Leased, LeasedBatch, MessageId, MessageLease, MessageState, Outbox,
    OutboxMessage, Settlement,
};

use crate::capability::Capability;
use crate::case::Case;
use crate::context::Context;
use crate::failure::{CaseResult, Failure, that};
use crate::peer::Peer;

/// A lease is of whatever waits, so nobody else may push.
const NEEDS: &[Capability] = &[Capability::Outbox, Capability::Transactions, Capability::Isolated];

/// A lease that does not run out while a case runs.
const LONG: Duration = Duration::from_secs(3_600);

pub(super) fn cases() -> Vec<Case> {
    [order::cases(), holders::cases(), leases::cases(), housekeeping::cases(), model::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// A case of this section.
fn case<F, R>(name: &'static str, rule: &'static str, expects: &'static str, run: F) -> Case
where
    F: Fn(Context) -> R + Send + Sync + Copy + 'static,
    R: Future<Output = CaseResult> + Send + 'static,
{
    Case::new(name, rule, expects, run).needing(NEEDS)
}

/// A message whose topic is its label, under an ordering key unless that is empty.
fn message(label: &str, ordering_key: &str) -> OutboxMessage {
    let message = OutboxMessage::new(label, format!("{label} says this")).expect("it is short");
    match ordering_key {
        "" => message,
        key => message.ordered_by(key).expect("it is short"),
    }
}

/// Pushes messages in one transaction, and gives their ids.
async fn push(peer: &Peer, messages: &[(&str, &str)]) -> Result<Vec<MessageId>, Failure> {
    let transactions = peer.transactions()?;
    let mut tx = transactions.begin().await?;
    let mut ids = Vec::new();
    for (label, ordering_key) in messages {
        let message = message(label, ordering_key);
        ids.push(message.id());
        transactions.push_in(&mut tx, &message).await?;
    }
    transactions.commit(tx).await?;
    Ok(ids)
}

async fn lease(outbox: &Arc<dyn Outbox>, limit: u32) -> Result<LeasedBatch, Failure> {
    Ok(outbox.lease(&LeaseMessages::new(LONG, limit)).await?)
}

/// The labels of messages, in their order.
fn labels(messages: &[Leased]) -> Vec<&str> {
    messages.iter().map(|leased| leased.message.topic()).collect()
}

/// Leases as many as there are, and expects these.
async fn leases(outbox: &Arc<dyn Outbox>, expected: &[&str]) -> Result<Vec<Leased>, Failure> {
    let batch = lease(outbox, 100).await?;
    let seen = labels(&batch.messages);
    that(seen == expected, &format!("a lease of {expected:?}"), &seen)?;
    Ok(batch.messages)
}

/// Settles, and expects that no lease was lost.
async fn settle(outbox: &Arc<dyn Outbox>, settlements: &[Settlement]) -> CaseResult {
    let lost = outbox.settle(settlements).await?;
    that(lost.ids.is_empty(), "every lease to hold", &lost)
}

fn sent(leased: &[Leased]) -> Vec<Settlement> {
    leased.iter().map(|leased| Settlement::sent(leased.lease)).collect()
}

fn fences(leased: &[Leased]) -> Vec<MessageLease> {
    leased.iter().map(|leased| leased.lease).collect()
}

/// Lists the messages in one state, and expects these.
async fn listed(outbox: &Arc<dyn Outbox>, state: MessageState, expected: &[&str]) -> CaseResult {
    let page = outbox.list(state, None, 1_000).await?;
    let seen: Vec<&str> = page.entries.iter().map(|entry| entry.message.topic()).collect();
    that(seen == expected, &format!("{expected:?} to be {}", state.name()), seen)
}
