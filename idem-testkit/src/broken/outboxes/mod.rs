//! Outboxes that lose a message, break the order of a key, or hand a message to two relays (R21).

mod mail;
mod post;
mod slip;

use std::sync::Arc;

use idem_core::async_trait;
use idem_core::time::{Clock, ManualClock};

use super::BrokenStore;
use crate::capability::{Capabilities, Capability};
use crate::conformance::Conformance;
use crate::fixture::{Connected, Fixture, SetupError, SteppedClock};
use mail::{Mail, NoRows};
use post::Post;
use slip::Slip;

pub(super) fn stores() -> Vec<BrokenStore> {
    let broken = |name, mistake, rules, caught_by, slip| {
        BrokenStore::planted(name, mistake, rules, caught_by, move || suite(name, slip))
    };
    vec![
        broken(
            "outbox-locks-no-key",
            "numbers are given at the push and no lock of the ordering key is held: a later one of \
             the key commits, and is sent, first",
            "R21",
            "outbox::order_of_commits",
            Slip::LocksNoKey,
        ),
        broken(
            "outbox-passes-over-late-commits",
            "relays remember how far they have read: a message with a lower number that commits \
             later is never sent",
            "R21",
            "outbox::late_commit_is_not_passed_over",
            Slip::PassesOverLateCommits,
        ),
        broken(
            "outbox-pushes-outside",
            "a message is pushed outside of the transaction, and sent before that commits",
            "R21",
            "outbox::uncommitted_is_not_seen",
            Slip::PushesOutside,
        ),
        broken(
            "outbox-orders-by-topic",
            "a batch comes in the order of an index on the topic",
            "R21",
            "outbox::pushed_in_order",
            Slip::OrdersByTopic,
        ),
        broken(
            "outbox-holds-no-keys",
            "a relay skips the rows that others lock, and sends what is behind them",
            "R21",
            "outbox::one_holder_for_each_key",
            Slip::HoldsNoKeys,
        ),
        broken(
            "outbox-sees-no-leases",
            "what another relay holds is not looked at: two get the same message",
            "R21",
            "outbox::concurrent_relays",
            Slip::SeesNoLeases,
        ),
        broken(
            "outbox-counts-no-bytes",
            "a batch has as many messages as asked for, however large they are",
            "R21",
            "outbox::batch_bounds",
            Slip::CountsNoBytes,
        ),
        broken(
            "outbox-sets-failures-aside",
            "a message that failed waits apart, and those behind it in its key are sent",
            "R21",
            "outbox::failure_holds_back_its_own_key",
            Slip::FailuresStepAside,
        ),
        broken(
            "outbox-passes-the-dead",
            "what is behind a dead letter is sent though nobody asked for that",
            "R21",
            "outbox::dead_letter_holds_back_its_own_key",
            Slip::PassesTheDead,
        ),
        broken(
            "outbox-settles-by-id",
            "a relay whose lease was taken over settles the message all the same",
            "R8, R21",
            "outbox::takeover",
            Slip::SettlesUnfenced,
        ),
        broken(
            "outbox-refuses-lapsed-holders",
            "a settlement after the lease is lost, though nobody took over: what was sent is sent \
             again",
            "R7",
            "outbox::lapsed_holder_may_still_settle",
            Slip::LapsedIsLost,
        ),
        broken(
            "outbox-repeat-is-lost",
            "a settlement whose answer was lost is refused when it is repeated",
            "R5",
            "outbox::repeated_settlement",
            Slip::RepeatIsLost,
        ),
        broken(
            "outbox-renews-nothing",
            "a renewal is answered and not written: another relay takes over from a live one",
            "R8",
            "outbox::renewal",
            Slip::RenewsNothing,
        ),
        broken(
            "outbox-deletes-the-young",
            "sent messages are deleted before they are as old as they are to be kept",
            "R21",
            "outbox::sent_are_deleted",
            Slip::DeletesTheYoung,
        ),
        broken(
            "outbox-deletes-the-dead",
            "what is not waiting is deleted, and dead letters with it",
            "R21",
            "outbox::sent_are_deleted",
            Slip::DeletesTheDead,
        ),
        broken(
            "outbox-forgets-on-requeue",
            "a dead letter that is put back is gone from the dead, and nowhere else",
            "R21",
            "outbox::requeued",
            Slip::ForgetsOnRequeue,
        ),
        broken(
            "outbox-requeues-at-the-end",
            "a dead letter that is put back is sent after those that were behind it",
            "R21",
            "outbox::requeued",
            Slip::RequeuesAtTheEnd,
        ),
        broken(
            "outbox-counts-the-sent",
            "the backlog counts what was sent and is kept for a while",
            "R21",
            "outbox::backlog",
            Slip::CountsTheSent,
        ),
        broken(
            "outbox-pages-too-long",
            "a page of a listing has one entry more than its limit",
            "R21",
            "outbox::listing",
            Slip::PagesTooLong,
        ),
    ]
}

/// The cases about outboxes, on the outbox that the broken ones are made from.
pub(super) fn right() -> Conformance {
    suite("right-with-an-outbox", Slip::None)
}

fn suite(name: &'static str, slip: Slip) -> Conformance {
    let declared = Capabilities::none()
        .with(Capability::Isolated)
        .with(Capability::SteppedClock)
        .with(Capability::Transactions)
        .with(Capability::IndependentRecords)
        .with(Capability::Outbox);
    Conformance::new(name, declared, move || async move { Ok(Office::new(slip)) })
        .filter("outbox::")
}

struct Office {
    clock: Arc<ManualClock>,
    mail: Mail,
}

impl Office {
    fn new(slip: Slip) -> Self {
        let clock = Arc::new(ManualClock::new());
        let mail = Mail::new(Post::new(slip, clock.clone() as Arc<dyn Clock>));
        Self { clock, mail }
    }
}

#[async_trait]
impl Fixture for Office {
    async fn connect(&self) -> Result<Connected, SetupError> {
        let outbox = Arc::new(self.mail.post.clone());
        let connected = Connected::store(self.mail.clone()).with_outbox(outbox);
        Ok(connected.with_transactions(self.mail.clone(), NoRows))
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        Some(self.clock.clone())
    }
}
