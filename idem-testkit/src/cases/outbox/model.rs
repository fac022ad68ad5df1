//! Random verbs on an outbox and on the one in memory, which must give the same answers.

use std::sync::Arc;
use std::time::Duration;

use idem_core::error::StoreError;
use idem_core::outbox::{
    Entry, LeaseMessages, MemoryOutbox, MessageId, MessageLease, MessageState, Outbox, Settlement,
};
use idem_core::time::ManualClock;

use super::{case, message};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::Context;
use crate::failure::{CaseResult, Failure, equal};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "outbox::random_verbs",
            "R5-R8, R21",
            "random verbs are answered, and leave messages, as by the outbox in memory",
            random_verbs,
        )
        .needing(&[Capability::SteppedClock]),
    ]
}

const STEPS: usize = 150;

/// The outbox under test, the model, and what was handed out.
struct Lockstep {
    cx: Context,
    peers: Vec<Peer>,
    outboxes: Vec<Arc<dyn Outbox>>,
    model: MemoryOutbox,
    clock: Arc<ManualClock>,
    ids: Vec<MessageId>,
    leases: Vec<MessageLease>,
}

async fn random_verbs(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    let outboxes = peers.iter().map(Peer::outbox).collect::<Result<Vec<_>, _>>()?;
    let clock = Arc::new(ManualClock::new());
    let model = MemoryOutbox::with_clock(clock.clone());
    let (ids, leases) = (Vec::new(), Vec::new());
    let mut lockstep = Lockstep { cx, peers, outboxes, model, clock, ids, leases };
    for step in 0..STEPS {
        lockstep.step(step).await.map_err(|failure| failure.at(format!("step {step}")))?;
    }
    Ok(())
}

impl Lockstep {
    fn below(&self, bound: usize) -> usize {
        self.cx.random().index(bound)
    }

    fn seconds(&self, bound: usize) -> Duration {
        Duration::from_secs(self.below(bound) as u64)
    }

    /// A few of those that were handed out, old and new.
    fn some<T: Copy>(&self, of: &[T]) -> Vec<T> {
        if of.is_empty() {
            return Vec::new();
        }
        (0..=self.below(3)).map(|_| of[of.len() - 1 - self.below(of.len().min(12))]).collect()
    }

    async fn step(&mut self, step: usize) -> CaseResult {
        let outbox = self.outboxes[self.below(self.outboxes.len())].clone();
        match self.below(16) {
            0..=4 => self.push(step).await?,
            5..=7 => self.lease(&*outbox).await?,
            8..=10 => self.settle(&*outbox).await?,
            11 => self.renew(&*outbox).await?,
            12 => self.put_back_or_discard(&*outbox).await?,
            13 => {
                let (old, limit) = (self.seconds(60), 1 + self.below(4) as u32);
                self.note(format_args!("delete sent before {old:?}, limit {limit}"));
                let seen = outbox.delete_sent(old, limit).await;
                same("what was deleted", seen, self.model.delete_sent(old, limit).await)?;
            }
            14 => {
                let by = self.seconds(5);
                self.note(format_args!("the clock steps back by {by:?}"));
                self.clock.step_back(by);
                let stepped = self.cx.clock()?.step_back(by).await;
                stepped.map_err(|error| crate::context::setup("the clock to move", &error))?;
            }
            _ => {
                let by = self.seconds(30);
                self.clock.advance(by);
                self.cx.pass(by).await?;
            }
        }
        self.compare(&*outbox).await
    }

    fn note(&self, what: std::fmt::Arguments<'_>) {
        self.cx.trace().add("outbox", what);
    }

    async fn push(&mut self, step: usize) -> CaseResult {
        let key = ["", "a", "b", "c"][self.below(4)];
        let message = message(&format!("m{step}"), key);
        self.note(format_args!("push m{step} under {key:?}"));
        let transactions = self.peers[self.below(self.peers.len())].transactions()?;
        let mut tx = transactions.begin().await?;
        transactions.push_in(&mut tx, &message).await?;
        transactions.commit(tx).await?;
        self.ids.push(message.id());
        Ok(self.model.push(message)?)
    }

    async fn lease(&mut self, outbox: &dyn Outbox) -> CaseResult {
        let lease = self.seconds(20) + Duration::from_millis(1);
        let call = LeaseMessages {
            owner: self.cx.owner(),
            ..LeaseMessages::new(lease, 1 + self.below(5) as u32).past_dead(self.below(4) == 0)
        };
        let seen = outbox.lease(&call).await?;
        self.note(format_args!("{call:?} -> {:?}", super::labels(&seen.messages)));
        equal("the batch", &seen, &self.model.lease(&call).await?)?;
        self.leases.extend(seen.messages.iter().map(|leased| leased.lease));
        Ok(())
    }

    async fn settle(&self, outbox: &dyn Outbox) -> CaseResult {
        let settlements: Vec<Settlement> = self
            .some(&self.leases)
            .into_iter()
            .map(|lease| match self.below(5) {
                0 | 1 => Settlement::sent(lease),
                2 => Settlement::failed(lease, self.seconds(20), "failed"),
                3 => Settlement::dead(lease, "dead"),
                _ => Settlement::given_back(lease),
            })
            .collect();
        self.note(format_args!("settle {settlements:?}"));
        let seen = outbox.settle(&settlements).await;
        same("what is lost", seen, self.model.settle(&settlements).await)
    }

    async fn renew(&self, outbox: &dyn Outbox) -> CaseResult {
        let (leases, lease) = (self.some(&self.leases), self.seconds(20));
        self.note(format_args!("renew {leases:?} for {lease:?}"));
        let seen = outbox.renew(&leases, lease).await;
        same("what is lost", seen, self.model.renew(&leases, lease).await)
    }

    async fn put_back_or_discard(&self, outbox: &dyn Outbox) -> CaseResult {
        let ids = self.some(&self.ids);
        if self.below(3) == 0 {
            self.note(format_args!("discard {ids:?}"));
            return same("how many", outbox.discard(&ids).await, self.model.discard(&ids).await);
        }
        self.note(format_args!("requeue {ids:?}"));
        same("how many", outbox.requeue(&ids).await, self.model.requeue(&ids).await)
    }

    /// Everything that can be seen of both.
    async fn compare(&self, outbox: &dyn Outbox) -> CaseResult {
        for state in [MessageState::Waiting, MessageState::Sent, MessageState::Dead] {
            let seen = outbox.list(state, None, 1_000).await?.entries;
            let expected = self.model.list(state, None, 1_000).await?.entries;
            for (seen, expected) in seen.iter().zip(&expected) {
                equal(state.name(), shown(seen), shown(expected))?;
            }
            equal(&format!("how many are {}", state.name()), seen.len(), expected.len())?;
        }
        same("the backlog", outbox.backlog().await, self.model.backlog().await)
    }
}

/// An entry but for its number, of which only the order counts.
fn shown(entry: &Entry) -> String {
    format!("{:?}", {
        let mut entry = entry.clone();
        entry.number = 0;
        entry
    })
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    seen: Result<T, StoreError>,
    expected: Result<T, StoreError>,
) -> CaseResult {
    match (seen, expected) {
        (Ok(seen), Ok(expected)) => equal(what, seen, expected),
        (Err(error), _) => Err(Failure::from(error)),
        (_, Err(error)) => Err(Failure::from(error)),
    }
}
