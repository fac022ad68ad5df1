//! Stores that complete when they may not, or not when they must.

use idem_core::codec::Sealed;
use idem_core::record::{Fence, Record, State};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Applied, Change, Decision};

use super::BrokenStore;
use super::fences::LOST;
use super::rules::Rules;

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "lapsed-is-lost",
            "a holder whose lease is over may not complete, although nobody took over",
            "R7",
            "instant::holder_at_the_end",
            LapsedIsLost,
        ),
        BrokenStore::new(
            "completion-is-not-repeatable",
            "the same completion again is refused",
            "R5",
            "races::same_reply_twice",
            Completes(|decision, _, _| {
                if matches!(decision.outcome, Ok(Applied::Already)) {
                    decision.outcome = Err(LOST);
                }
            }),
        ),
        BrokenStore::new(
            "completion-overwrites",
            "a second reply under the same fence takes the first one's place",
            "R8",
            "races::two_replies_under_one_fence",
            CompletionOverwrites,
        ),
        BrokenStore::new(
            "second-reply-is-swallowed",
            "a second, different reply under the same fence is told Ok, and dropped",
            "R5, R8",
            "data::same_reply_other_bytes",
            SecondReplyIsOk,
        ),
        BrokenStore::new(
            "completion-keeps-the-input",
            "the input stays in the database for the whole retention",
            "R20, R24",
            "table::completion_keeps_the_fingerprint",
            Completes(|decision, record, _| {
                if let (Change::Put(completed), Some(record)) = (&mut decision.change, record) {
                    completed.input.clone_from(&record.input);
                }
            }),
        ),
        BrokenStore::new(
            "completion-forgets-the-fingerprint",
            "a completed record is not compared any more",
            "R4",
            "table::completed_with_another_request_is_a_mismatch",
            Completes(|decision, _, _| {
                if let Change::Put(completed) = &mut decision.change {
                    completed.fingerprint = idem_core::fingerprint::Fingerprint::not_compared();
                }
            }),
        ),
    ]
}

struct LapsedIsLost;

impl Rules for LapsedIsLost {
    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        if found.is_some_and(|record| transition::is_lapsed(record, now)) {
            return Decision { change: Change::None, outcome: Err(LOST) };
        }
        transition::complete(found, fence, reply, now)
    }
}

struct Completes(fn(&mut Decision<Applied>, Option<&Record>, &Sealed));

impl Rules for Completes {
    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        let mut decision = transition::complete(found, fence, reply, now);
        (self.0)(&mut decision, found, reply);
        decision
    }
}

struct CompletionOverwrites;

impl Rules for CompletionOverwrites {
    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        match found {
            Some(record) if record.is_under(fence) => {
                let mut open = record.clone();
                if matches!(open.state, State::Completed { .. }) {
                    open.state =
                        State::InProgress { locked_until: now, given_up: false, recovery: None };
                }
                transition::complete(Some(&open), fence, reply, now)
            }
            _ => transition::complete(found, fence, reply, now),
        }
    }
}

struct SecondReplyIsOk;

impl Rules for SecondReplyIsOk {
    fn complete(
        &self,
        found: Option<&Record>,
        fence: &Fence,
        reply: &Sealed,
        now: Timestamp,
    ) -> Decision<Applied> {
        let completed = |record: &Record| {
            record.is_under(fence) && matches!(record.state, State::Completed { .. })
        };
        if transition::visible(found, now).is_some_and(completed) {
            return Decision { change: Change::None, outcome: Ok(Applied::Already) };
        }
        transition::complete(found, fence, reply, now)
    }
}
