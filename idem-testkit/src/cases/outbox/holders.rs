//! Who holds a message, and what a lost lease may still do: nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use idem_core::outbox::{LeaseMessages, Outbox, Settlement};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{LONG, case, fences, labels, lease, leases, push, sent, settle};
use crate::case::Case;
use crate::context::Context;
use crate::failure::{CaseResult, Failure, equal, that};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "outbox::one_holder_for_each_key",
            "R21",
            "while one lease holds a message of an ordering key, nobody else gets one",
            one_holder,
        ),
        case(
            "outbox::takeover",
            "R7, R8, R21",
            "a lapsed lease may be used until another has the message; then it changes nothing",
            takeover,
        ),
        case(
            "outbox::lapsed_holder_may_still_settle",
            "R7",
            "a lease that ran out and that nobody took over settles and renews",
            lapsed_holder,
        ),
        case("outbox::renewal", "R8", "a renewal makes a lease longer and never shorter", renewal),
        case(
            "outbox::repeated_settlement",
            "R5",
            "a settlement that arrives again changes nothing and is not lost",
            repeated,
        ),
        case(
            "outbox::concurrent_relays",
            "R21",
            "many relays at once: each message has one holder, and each key's order is kept",
            concurrent,
        ),
    ]
}

async fn one_holder(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (one, other) = (a.outbox()?, b.outbox()?);
    push(&a, &[("a1", "a"), ("a2", "a"), ("b1", "b"), ("n1", ""), ("a3", "a"), ("n2", "")]).await?;
    let held = lease(&one, 1).await?.messages;
    equal("the first", labels(&held), vec!["a1"])?;
    let others = leases(&other, &["b1", "n1", "n2"]).await?;
    push(&a, &[("a4", "a"), ("b2", "b")]).await?;
    leases(&other, &[]).await?;
    settle(&one, &sent(&held)).await?;
    leases(&other, &["a2", "a3", "a4"]).await?;
    settle(&other, &[Settlement::given_back(others[0].lease)]).await?;
    leases(&one, &["b1", "b2"]).await.map(|_| ())
}

async fn takeover(cx: Context) -> CaseResult {
    let (a, b) = (cx.connect().await?, cx.connect().await?);
    let (stale, fresh) = (a.outbox()?, b.outbox()?);
    push(&a, &[("one", "key"), ("two", "key"), ("free", "")]).await?;
    let old = stale.lease(&LeaseMessages::new(cx.brief(), 100)).await?.messages;
    that(old.len() == 3, "three messages", labels(&old))?;
    cx.pass(cx.brief()).await?;
    let new = leases(&fresh, &["one", "two", "free"]).await?;
    for leased in &new {
        equal("failures and lapses", (leased.failures, leased.lapses), (0, 1))?;
    }
    let ids: Vec<_> = new.iter().map(|leased| leased.lease.id).collect();
    let mut stale_writes = sent(&old);
    equal("what is lost", stale.settle(&stale_writes).await?.ids, ids.clone())?;
    stale_writes = old.iter().map(|held| Settlement::dead(held.lease, "stale")).collect();
    equal("what is lost", stale.settle(&stale_writes).await?.ids, ids.clone())?;
    equal("what is lost", stale.renew(&fences(&old), LONG).await?.ids, ids)?;
    // One that holds and one that is lost, in one call.
    let mixed = [Settlement::sent(new[0].lease), Settlement::sent(old[1].lease)];
    equal("what is lost", fresh.settle(&mixed).await?.ids, vec![old[1].lease.id])?;
    settle(&fresh, &sent(&new[1..])).await?;
    leases(&stale, &[]).await.map(|_| ())
}

async fn lapsed_holder(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    push(&peer, &[("one", "key"), ("two", "key")]).await?;
    let held = outbox.lease(&LeaseMessages::new(cx.brief(), 100)).await?.messages;
    cx.pass(cx.brief()).await?;
    settle(&outbox, &sent(&held[..1])).await?;
    let lost = outbox.renew(&fences(&held[1..]), LONG).await?;
    that(lost.ids.is_empty(), "the lease to hold", &lost)?;
    leases(&outbox, &[]).await?;
    settle(&outbox, &sent(&held[1..])).await
}

async fn renewal(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    push(&peer, &[("one", "")]).await?;
    let batch = outbox.lease(&LeaseMessages::new(cx.brief() * 2, 100)).await?;
    equal("the lease", batch.remaining, cx.brief() * 2)?;
    outbox.renew(&fences(&batch.messages), LONG).await?;
    outbox.renew(&fences(&batch.messages), Duration::ZERO).await?;
    cx.pass(cx.brief() * 2).await?;
    leases(&outbox, &[]).await?;
    settle(&outbox, &sent(&batch.messages)).await?;
    let lost = outbox.renew(&fences(&batch.messages), LONG).await?;
    equal("a renewal after the end is lost", lost.ids.len(), 1)
}

async fn repeated(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    push(&peer, &[("sent", ""), ("failed", ""), ("dead", ""), ("back", "")]).await?;
    let held = lease(&outbox, 100).await?.messages;
    let settlements = [
        Settlement::sent(held[0].lease),
        Settlement::failed(held[1].lease, LONG, "once"),
        Settlement::dead(held[2].lease, "once"),
        Settlement::given_back(held[3].lease),
    ];
    for _ in 0..2 {
        settle(&outbox, &settlements).await?;
    }
    let other = [Settlement::dead(held[0].lease, "late"), Settlement::sent(held[2].lease)];
    settle(&outbox, &other).await?;
    let backlog = outbox.backlog().await?;
    equal("waiting and dead", (backlog.waiting, backlog.dead), (2, 1))?;
    let again = leases(&outbox, &["back"]).await?;
    equal("what is given back counts nothing", (again[0].failures, again[0].lapses), (0, 0))
}

/// What one relay got, in the order in which it got it: (key, number in the key).
type Got = Vec<(String, usize)>;

async fn concurrent(cx: Context) -> CaseResult {
    const KEYS: usize = 5;
    const EACH: usize = 10;
    let peers = cx.connect_many(4).await?;
    for number in 0..EACH {
        let labels: Vec<String> = (0..KEYS).map(|key| format!("{key}/{number}")).collect();
        let keys: Vec<String> = (0..KEYS).map(|key| format!("key {key}")).collect();
        let messages: Vec<(&str, &str)> =
            labels.iter().zip(&keys).map(|(label, key)| (label.as_str(), key.as_str())).collect();
        push(&peers[0], &messages).await?;
    }
    let (mut relays, start) = (JoinSet::new(), Arc::new(Barrier::new(peers.len())));
    for (number, peer) in peers.iter().enumerate() {
        let outbox = peer.outbox()?;
        let (start, limit) = (start.clone(), u32::try_from(number).unwrap_or(0) + 3);
        relays.spawn(async move {
            start.wait().await;
            relay(&*outbox, limit).await
        });
    }
    let mut times: HashMap<(String, usize), usize> = HashMap::new();
    while let Some(got) = relays.join_next().await {
        let got = got.map_err(|error| Failure::new("no panic", error.to_string()))??;
        let mut last: HashMap<String, usize> = HashMap::new();
        for (key, number) in got {
            let before = last.insert(key.clone(), number);
            that(before < Some(number), "each key's messages in order", (&key, before, number))?;
            *times.entry((key, number)).or_default() += 1;
        }
    }
    equal("how many messages", times.len(), KEYS * EACH)?;
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    that(twice.is_empty(), "each message to have one holder", &twice)
}

async fn relay(outbox: &dyn Outbox, limit: u32) -> Result<Got, Failure> {
    let mut got = Got::new();
    loop {
        let batch = match outbox.lease(&LeaseMessages::new(LONG, limit)).await {
            Err(error) if error.kind().is_transient() => continue,
            batch => batch?,
        };
        if batch.messages.is_empty() {
            if outbox.backlog().await?.waiting == 0 {
                return Ok(got);
            }
            tokio::time::sleep(Duration::from_millis(5)).await; // Others hold the rest.
        }
        // While it delivers, others ask; a store in memory would never let them in between.
        tokio::task::yield_now().await;
        for leased in &batch.messages {
            let (key, number) = leased.message.topic().split_once('/').unwrap_or_default();
            got.push((key.to_owned(), number.parse().unwrap_or(usize::MAX)));
        }
        let settlements = sent(&batch.messages);
        let lost = loop {
            match outbox.settle(&settlements).await {
                Err(error) if error.kind().is_transient() => {}
                lost => break lost?,
            }
        };
        that(lost.ids.is_empty(), "every lease to hold", &lost)?;
    }
}
