//! Hunts for histories that the rules do not explain.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use idem_core::claim::{Claimed, Takeover};
use idem_core::error::StoreError;
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Owner, Retention};
use idem_core::store::Store;
use tokio::sync::Barrier;

use super::recorder::{Recorded, Recorder};
use super::{Checked, Violation, check};
use crate::ask::{Ask, KEPT, LONG, print, recovery, sealed};
use crate::faults::cancel::after_polls;
use crate::random::Random;

/// A hunt: several clients at once on one key after the other, each history checked as it ends.
///
/// Leases run for an hour or are given up, so that it can run on a store of any clock.
#[derive(Debug, Clone)]
pub struct Hunt {
    clients: usize,
    calls: usize,
    budget: Duration,
    most_operations: usize,
    seed: u64,
    scope: Scope,
}

impl Hunt {
    /// A hunt in a scope that nobody else uses, with a seed for the clients' choices. What
    /// happens is not all of the seed's doing: the scheduler and the store have their part.
    pub fn new(scope: Scope, seed: u64) -> Self {
        let budget = Duration::from_secs(2);
        Self { clients: 4, calls: 6, budget, most_operations: usize::MAX, seed, scope }
    }

    /// How many clients there are at once, 4 unless set.
    #[must_use]
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients.max(1);
        self
    }

    /// How long to go on, 2 s unless set.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// After how many operations to stop at the latest.
    #[must_use]
    pub fn most_operations(mut self, operations: usize) -> Self {
        self.most_operations = operations;
        self
    }

    /// Hunts on connections of one store. How much was checked.
    ///
    /// # Errors
    /// The first [`Violation`].
    ///
    /// # Panics
    /// When a client does: a store that panics.
    ///
    /// # Cancel safety
    /// Records may be left behind.
    pub async fn run(&self, connections: &[Arc<dyn Store>]) -> Result<Checked, Violation> {
        let started = Instant::now();
        let mut total = Checked::default();
        for round in 0_u64.. {
            if started.elapsed() >= self.budget || total.operations >= self.most_operations {
                break;
            }
            let checked = check(&self.round(connections, round).await)?;
            total.keys += checked.keys;
            total.operations += checked.operations;
            total.undecided += checked.undecided;
        }
        Ok(total)
    }

    /// The clients on one fresh key, until each has made its calls.
    async fn round(&self, connections: &[Arc<dyn Store>], round: u64) -> super::History {
        let recorder = Recorder::new();
        let key = Key::new(format!("hunt-{round}")).expect("a short key");
        let fences: Arc<Mutex<Vec<Fence>>> = Arc::default();
        let barrier = Arc::new(Barrier::new(self.clients));
        let mut tasks = Vec::new();
        for number in 0..self.clients {
            let store = connections[number % connections.len()].clone();
            let client = Client {
                store: recorder.wrap(u32::try_from(number).expect("a few clients"), store),
                random: Random::from_seed(self.seed ^ (round << 8) ^ number as u64),
                scope: self.scope.clone(),
                key: key.clone(),
                fences: fences.clone(),
                owners: Vec::new(),
            };
            let (barrier, calls) = (barrier.clone(), self.calls);
            tasks.push(tokio::spawn(async move {
                barrier.wait().await;
                client.run(calls).await;
            }));
        }
        for task in tasks {
            task.await.expect("no client panics");
        }
        recorder.history()
    }
}

pub(super) struct Client {
    pub(super) store: Recorded<Arc<dyn Store>>,
    pub(super) random: Random,
    pub(super) scope: Scope,
    pub(super) key: Key,
    /// What anybody has acquired: a client may also send a stale or a foreign fence.
    pub(super) fences: Arc<Mutex<Vec<Fence>>>,
    pub(super) owners: Vec<Owner>,
}

impl Client {
    async fn run(mut self, calls: usize) {
        for _ in 0..calls {
            // A future that is dropped half-way leaves a call whose outcome is unknown.
            let polls = if self.random.index(12) == 0 { self.random.index(3) } else { usize::MAX };
            after_polls(polls, self.call()).await;
            if self.random.index(3) == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// One call. Errors are part of the history.
    pub(super) async fn call(&mut self) -> Result<(), StoreError> {
        let fence = self.some_fence();
        match (self.random.index(16), fence) {
            (0..=5, _) | (_, None) => {
                let ask = self.ask();
                if let Claimed::Acquired(held) = self.store.claim(&ask.claim()).await? {
                    self.fences.lock().expect("no client panics").push(held.fence);
                }
                Ok(())
            }
            (6, Some(fence)) => self.store.renew(&fence, LONG).await.map(drop),
            (7 | 8, Some(fence)) => self.store.renew(&fence, Duration::ZERO).await.map(drop),
            (9 | 10, Some(fence)) => {
                let number = u32::try_from(1 + self.random.index(2)).expect("it is 1 or 2");
                let payload = [u8::try_from(self.random.index(2)).expect("it is 0 or 1")];
                self.store.checkpoint(&fence, &recovery(number, payload), LONG).await.map(drop)
            }
            (11 | 12, Some(fence)) => {
                let reply = [u8::try_from(self.random.index(3)).expect("it is below 3")];
                self.store.complete(&fence, &sealed(reply)).await
            }
            (13, Some(fence)) => self.store.release(&fence).await,
            (14, _) => self.store.sweep(10).await.map(drop),
            _ => self.store.get(&self.scope, &self.key).await.map(drop),
        }
    }

    /// Mostly the last one that anybody acquired.
    fn some_fence(&mut self) -> Option<Fence> {
        let fences = self.fences.lock().expect("no client panics");
        if fences.is_empty() {
            return None;
        }
        let back = if self.random.index(4) == 0 { self.random.index(fences.len()) } else { 0 };
        Some(fences[fences.len() - 1 - back].clone())
    }

    fn ask(&mut self) -> Ask {
        // Now and then the same call again.
        let owner = match self.owners.last() {
            Some(owner) if self.random.index(5) == 0 => *owner,
            _ => Owner::from_bytes(self.random.bytes()),
        };
        self.owners.push(owner);
        let mut ask = Ask::new(self.scope.clone(), self.key.clone(), owner);
        if self.random.index(8) == 0 {
            ask = ask.print(print(2));
        }
        ask.marks_begun = self.random.index(4) == 0;
        ask = match self.random.index(6) {
            0 => ask.retention(Retention::of(Duration::ZERO)),
            1 => ask.retention(Retention::at_least(Duration::ZERO, KEPT)),
            _ => ask,
        };
        match self.random.index(6) {
            0 => ask.takeover(Takeover::Never),
            1 => match self.some_fence() {
                Some(Fence { incarnation, attempt, .. }) => {
                    ask.takeover(Takeover::Only { incarnation, attempt, younger_than: None })
                }
                None => ask,
            },
            _ => ask,
        }
    }
}
