//! What an operator sees, and what is deleted.

use std::time::Duration;

use idem_core::error::ErrorKind;
use idem_core::outbox::{MessageState, Settlement};

use super::{LONG, case, lease, leases, listed, push, sent, settle};
use crate::case::Case;
use crate::context::Context;
use crate::failure::{CaseResult, equal, refused, that};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "outbox::listing",
            "R21",
            "a listing pages through one state by number, without payloads",
            listing,
        ),
        case("outbox::backlog", "R21", "what waits, is held and is dead is counted", backlog),
        case(
            "outbox::sent_are_deleted",
            "R21",
            "sent messages go in batches once they are old; nothing else ever does",
            deleted,
        ),
    ]
}

async fn listing(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    let topics: Vec<String> = (0..5).map(|number| format!("topic {number}")).collect();
    let messages: Vec<(&str, &str)> = topics.iter().map(|topic| (topic.as_str(), "key")).collect();
    push(&peer, &messages).await?;
    let (mut seen, mut after, mut last) = (Vec::new(), None, 0);
    loop {
        let page = outbox.list(MessageState::Waiting, after.as_ref(), 2).await?;
        that(page.entries.len() <= 2, "two entries at most", page.entries.len())?;
        for entry in page.entries {
            that(entry.number > last, "growing numbers", (last, entry.number))?;
            last = entry.number;
            let text = format!("{} says this", entry.message.topic());
            equal("the bytes of its payload", entry.payload_bytes, text.len() as u64)?;
            equal("the payload", entry.message.payload().len(), 0)?;
            equal("the ordering key", entry.message.ordering_key(), Some("key"))?;
            equal("the state", entry.state, MessageState::Waiting)?;
            seen.push(entry.message.topic().to_owned());
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    equal("the topics", seen, topics)?;
    let page = outbox.list(MessageState::Waiting, None, 1).await?;
    let foreign = outbox.list(MessageState::Dead, page.next.as_ref(), 1).await;
    refused(foreign, ErrorKind::InvalidInput)
}

async fn backlog(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    let empty = outbox.backlog().await?;
    equal("an empty one", (empty.waiting, empty.leased, empty.dead), (0, 0, 0))?;
    equal("the oldest of none", empty.oldest_waiting, None)?;
    push(&peer, &[("old", "a")]).await?;
    cx.pass(cx.brief()).await?;
    push(&peer, &[("dead", ""), ("sent", ""), ("held", "")]).await?;
    let held = leases(&outbox, &["old", "dead", "sent", "held"]).await?;
    let settlements = [
        Settlement::failed(held[0].lease, LONG, "later"),
        Settlement::dead(held[1].lease, "never"),
        Settlement::sent(held[2].lease),
    ];
    settle(&outbox, &settlements).await?;
    let seen = outbox.backlog().await?;
    equal("what waits, is held, is dead", (seen.waiting, seen.leased, seen.dead), (2, 1, 1))?;
    let age = seen.oldest_waiting;
    that(age.is_some_and(|age| age >= cx.brief()), "the age of the oldest", age)?;
    let page = outbox.list(MessageState::Waiting, None, 10).await?;
    let entries: Vec<_> = page
        .entries
        .iter()
        .map(|entry| (entry.failures, entry.due_in.is_some(), entry.leased_for.is_some()))
        .collect();
    equal("failures, due, leased", entries, vec![(1, true, false), (0, false, true)])
}

async fn deleted(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    let messages = [("1", "k"), ("2", "k"), ("3", "k"), ("dead", ""), ("waits", "")];
    let ids = push(&peer, &messages).await?;
    let held = lease(&outbox, 100).await?.messages;
    let mut settlements = sent(&held);
    settlements[3] = Settlement::dead(held[3].lease, "dead");
    settlements[4] = Settlement::given_back(held[4].lease);
    settle(&outbox, &settlements).await?;
    let swept = outbox.delete_sent(LONG, 100).await?;
    equal("what is young", (swept.deleted, swept.more), (0, false))?;
    let swept = outbox.delete_sent(Duration::ZERO, 2).await?;
    equal("the first batch", (swept.deleted, swept.more), (2, true))?;
    let swept = outbox.delete_sent(Duration::ZERO, 2).await?;
    equal("the second batch", (swept.deleted, swept.more), (1, false))?;
    listed(&outbox, MessageState::Sent, &[]).await?;
    listed(&outbox, MessageState::Dead, &["dead"]).await?;
    equal("none is put back", outbox.requeue(&ids[..3]).await?, 0)?;
    leases(&outbox, &["waits"]).await.map(|_| ())
}
