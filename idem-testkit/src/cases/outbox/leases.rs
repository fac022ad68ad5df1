//! What a failure holds back, and what a batch holds at most.

use idem_core::error::ErrorKind;
use idem_core::outbox::{
    LeaseMessages, MAX_LEASED_BYTES, MAX_PAYLOAD_BYTES, MessageState, OutboxMessage, Settlement,
};
use idem_core::store::MAX_PAGE;

use super::{LONG, case, fences, labels, lease, leases, listed, push, sent, settle};
use crate::case::Case;
use crate::context::Context;
use crate::failure::{CaseResult, equal, refused, that};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "outbox::failure_holds_back_its_own_key",
            "R21",
            "a message that failed waits its time, with those behind it; other keys flow",
            failure,
        ),
        case(
            "outbox::dead_letter_holds_back_its_own_key",
            "R21",
            "a dead letter holds back those behind it unless the lease passes it",
            dead_letter,
        ),
        case(
            "outbox::requeued",
            "R21",
            "a dead letter that is put back is sent anew, in its place, under its id",
            requeued,
        ),
        case(
            "outbox::batch_bounds",
            "R21",
            "a batch has no more messages and bytes than its bounds, and one at least",
            bounds,
        ),
    ]
}

async fn failure(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    push(&peer, &[("bad", "a"), ("behind", "a"), ("good", "b"), ("free", "")]).await?;
    let held = leases(&outbox, &["bad", "behind", "good", "free"]).await?;
    let settlements = [
        Settlement::failed(held[0].lease, cx.brief() * 4, "first"),
        Settlement::given_back(held[1].lease),
        Settlement::sent(held[2].lease),
        Settlement::failed(held[3].lease, LONG, "free"),
    ];
    settle(&outbox, &settlements).await?;
    if cx.steps_clock() {
        push(&peer, &[("good again", "b")]).await?;
        let good = leases(&outbox, &["good again"]).await?;
        settle(&outbox, &sent(&good)).await?;
    }
    cx.pass(cx.brief() * 4).await?;
    let held = leases(&outbox, &["bad", "behind"]).await?;
    equal("failures", held[0].failures, 1)?;
    let page = outbox.list(MessageState::Waiting, None, 1).await?;
    equal("the reason", page.entries[0].reason.as_deref(), Some("first"))?;
    settle(&outbox, &[Settlement::sent(held[0].lease)]).await?;
    settle(&outbox, &[Settlement::failed(held[1].lease, cx.brief(), "it too")]).await?;
    listed(&outbox, MessageState::Waiting, &["behind", "free"]).await
}

async fn dead_letter(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    push(&peer, &[("poison", "a"), ("behind", "a"), ("other", "b"), ("bad", "")]).await?;
    let held = leases(&outbox, &["poison", "behind", "other", "bad"]).await?;
    let mut settlements = sent(&held);
    settlements[0] = Settlement::dead(held[0].lease, "it is poison");
    settlements[1] = Settlement::given_back(held[1].lease);
    settlements[3] = Settlement::dead(held[3].lease, "so is this");
    settle(&outbox, &settlements).await?;
    leases(&outbox, &[]).await?;
    listed(&outbox, MessageState::Dead, &["poison", "bad"]).await?;
    let past = LeaseMessages::new(LONG, 100).past_dead(true);
    let behind = outbox.lease(&past).await?.messages;
    equal("what is behind it", labels(&behind), vec!["behind"])?;
    push(&peer, &[("last", "a")]).await?;
    let none = outbox.lease(&LeaseMessages::new(LONG, 100).past_dead(true)).await?.messages;
    equal("what is behind a lease", labels(&none), vec![])
}

async fn requeued(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let outbox = peer.outbox()?;
    let ids = push(&peer, &[("poison", "a"), ("worse", "a"), ("behind", "a")]).await?;
    for id in &ids[..2] {
        let past = LeaseMessages::new(LONG, 1).past_dead(true);
        let held = outbox.lease(&past).await?.messages;
        equal("the head", held[0].lease.id, *id)?;
        settle(&outbox, &[Settlement::dead(held[0].lease, "bad")]).await?;
    }
    equal("put back", outbox.requeue(&[ids[0], ids[2]]).await?, 1)?;
    equal("put back again", outbox.requeue(&[ids[0]]).await?, 0)?;
    // The second dead letter holds back what is behind it, not what is in front of it.
    let held = leases(&outbox, &["poison"]).await?;
    equal("its id", held[0].message.id(), ids[0])?;
    equal("failures and lapses", (held[0].failures, held[0].lapses), (0, 0))?;
    settle(&outbox, &sent(&held)).await?;
    leases(&outbox, &[]).await?;
    equal("discarded", outbox.discard(&[ids[0], ids[1], ids[2]]).await?, 1)?;
    equal("discarded again", outbox.discard(&[ids[1]]).await?, 0)?;
    leases(&outbox, &["behind"]).await.map(|_| ())
}

async fn bounds(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (outbox, transactions) = (peer.outbox()?, peer.transactions()?);
    let many = MAX_LEASED_BYTES / MAX_PAYLOAD_BYTES + 3;
    let mut tx = transactions.begin().await?;
    for number in 0..many {
        let payload = vec![u8::try_from(number).unwrap_or(0); MAX_PAYLOAD_BYTES];
        let message = OutboxMessage::new("large", payload).expect("it is as large as may be");
        transactions.push_in(&mut tx, &message).await?;
    }
    transactions.commit(tx).await?;
    let two = lease(&outbox, 2).await?.messages;
    equal("a batch of two", two.len(), 2)?;
    settle(&outbox, &[Settlement::given_back(two[0].lease)]).await?;
    let batch = lease(&outbox, 1_000).await?.messages;
    let bytes: usize = batch.iter().map(|leased| leased.message.payload().len()).sum();
    that(bytes == MAX_LEASED_BYTES, "a batch as large as may be", bytes)?;
    let rest = lease(&outbox, 0).await?.messages;
    equal("a batch of none is taken as one", rest.len(), 1)?;
    let too_many = vec![rest[0].lease; MAX_PAGE as usize + 1];
    let settlements: Vec<_> = too_many.iter().copied().map(Settlement::sent).collect();
    refused(outbox.settle(&settlements).await, ErrorKind::InvalidInput)?;
    refused(outbox.renew(&too_many, LONG).await, ErrorKind::InvalidInput)?;
    settle(&outbox, &sent(&batch)).await?;
    equal("none is lost", outbox.renew(&fences(&rest), LONG).await?.ids, vec![])
}
