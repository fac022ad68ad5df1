//! What a case is given: a fresh fixture, names of its own, a seed, and time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use idem_core::claim::{Acquired, Claimed};
use idem_core::key::{Key, Scope};
use idem_core::record::{Observed, Owner};
use idem_core::store::Store;

use crate::ask::Ask;
use crate::capability::{Capabilities, Capability};
use crate::failure::{CaseResult, Failure};
use crate::fixture::{Fixture, SetupError, SteppedClock};
use crate::peer::Peer;
use crate::random::Random;
use crate::trace::Trace;

/// How long a case waits for something that has to happen, on a machine however slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// A case's surroundings. Clones share them.
#[derive(Clone)]
pub(crate) struct Context(Arc<Inner>);

struct Inner {
    fixture: Box<dyn Fixture>,
    capabilities: Capabilities,
    attaches: bool,
    prefix: String,
    seed: u64,
    random: Mutex<Random>,
    peers: AtomicUsize,
    scopes: Mutex<BTreeSet<Scope>>,
    trace: Trace,
}

impl Context {
    pub(crate) fn new(
        fixture: Box<dyn Fixture>,
        capabilities: Capabilities,
        attaches: bool,
        prefix: String,
        seed: u64,
        trace: Trace,
    ) -> Self {
        Self(Arc::new(Inner {
            fixture,
            capabilities,
            attaches,
            prefix,
            seed,
            random: Mutex::new(Random::from_seed(seed)),
            peers: AtomicUsize::new(0),
            scopes: Mutex::default(),
            trace,
        }))
    }

    pub(crate) fn fixture(&self) -> &dyn Fixture {
        &*self.0.fixture
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    pub(crate) fn declares(&self, capability: Capability) -> bool {
        self.0.capabilities.has(capability)
    }

    /// Whether the suite can open this fixture's data from another process.
    pub(crate) fn attaches(&self) -> bool {
        self.0.attaches
    }

    pub(crate) fn seed(&self) -> u64 {
        self.0.seed
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// The next choice of this case.
    pub(crate) fn random(&self) -> MutexGuard<'_, Random> {
        self.0.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner::from_bytes(self.random().bytes())
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Result<Peer, Failure> {
        let connected = self.fixture().connect().await.map_err(|e| setup("a connection", &e))?;
        Ok(self.peer(connected))
    }

    /// A connection whose calls are not traced: for many of them.
    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        let connected = self.fixture().connect().await.map_err(|e| setup("a connection", &e))?;
        Ok(connected.store)
    }

    pub(crate) async fn connect_many(&self, count: usize) -> Result<Vec<Peer>, Failure> {
        let mut peers = Vec::with_capacity(count);
        for _ in 0..count {
            peers.push(self.connect().await?);
        }
        Ok(peers)
    }

    /// A connection that was opened some other way, named like the rest.
    pub(crate) fn peer(&self, connected: crate::fixture::Connected) -> Peer {
        let number = self.0.peers.fetch_add(1, Ordering::Relaxed);
        let letter = char::from(b'A' + u8::try_from(number % 26).expect("it is below 26"));
        Peer::new(letter.to_string(), connected, self.trace().clone())
    }

    /// A scope that no other case and no other run has.
    pub(crate) fn scope(&self, label: &str) -> Scope {
        self.scope_of(format!("{}/{label}", self.0.prefix))
    }

    /// A scope of any text, remembered for the clean-up.
    pub(crate) fn scope_of(&self, text: impl AsRef<str>) -> Scope {
        let scope = Scope::new(text).expect("the suite's own scopes are short");
        let mut scopes = self.0.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.insert(scope.clone());
        scope
    }

    /// What this run's and this case's scopes begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.0.prefix
    }

    pub(crate) fn scopes(&self) -> Vec<Scope> {
        let scopes = self.0.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.iter().cloned().collect()
    }

    /// A claim of `label`'s key in this case's own scope, by an owner of its own.
    pub(crate) fn ask(&self, label: &str) -> Ask {
        Ask::new(self.scope("s"), key(label), self.owner())
    }

    /// The same request by somebody else.
    pub(crate) fn again(&self, ask: &Ask) -> Ask {
        ask.clone().by(self.owner())
    }

    /// The clock, where the fixture declared one.
    pub(crate) fn clock(&self) -> Result<Arc<dyn SteppedClock>, Failure> {
        self.fixture().clock().ok_or_else(|| {
            Failure::new("a fixture with a clock, as declared", "one that gives none")
        })
    }

    pub(crate) fn steps_clock(&self) -> bool {
        self.declares(Capability::SteppedClock)
    }

    /// A lease or a retention that is over soon.
    pub(crate) fn brief(&self) -> Duration {
        if self.steps_clock() { Duration::from_secs(10) } else { Duration::from_millis(30) }
    }

    /// Lets `time` pass on the store's clock, at least.
    pub(crate) async fn pass(&self, time: Duration) -> CaseResult {
        if self.steps_clock() {
            self.trace().add("clock", format_args!("advance {time:?}"));
            return self.clock()?.advance(time).await.map_err(|e| setup("the clock to move", &e));
        }
        tokio::time::sleep(time).await;
        Ok(())
    }

    /// Claims with a brief lease and lets it run out: the record is then lapsed, for certain.
    pub(crate) async fn lapsed(&self, peer: &Peer, ask: &Ask) -> Result<Acquired, Failure> {
        let held = acquire(peer, &ask.clone().lease(self.brief())).await?;
        self.lapse(peer, ask).await?;
        Ok(held)
    }

    /// Waits until the record's lease is over by the store's own clock.
    pub(crate) async fn lapse(&self, peer: &Peer, ask: &Ask) -> CaseResult {
        self.until(peer, ask, "its lease to run out", |found| {
            found.is_some_and(|seen| seen.lapsed_for().is_some())
        })
        .await
    }

    async fn until(
        &self,
        peer: &Peer,
        ask: &Ask,
        what: &str,
        holds: impl Fn(Option<&Observed>) -> bool,
    ) -> CaseResult {
        let started = Instant::now();
        for step in 0_usize.. {
            let found = peer.get(&ask.scope, &ask.key).await?;
            if holds(found.as_ref()) {
                return Ok(());
            }
            let over = if self.steps_clock() { step > STEPS } else { started.elapsed() > PATIENCE };
            if over {
                let seen = format!("{:?}", found.map(|seen| seen.record.state));
                return Err(Failure::new(what, format!("{seen} after {:?}", started.elapsed())));
            }
            self.pass(if self.steps_clock() { self.brief() } else { POLL }).await?;
        }
        unreachable!("the loop ends at its limit")
    }
}

/// How often a stepped clock is moved by [`Context::brief`] before a wait is given up.
const STEPS: usize = 10;

/// How often a store on real time is asked again.
const POLL: Duration = Duration::from_millis(5);

/// A key of printable text.
pub(crate) fn key(label: &str) -> Key {
    Key::new(label).expect("the suite's own keys are short")
}

/// Claims, and expects to win.
pub(crate) async fn acquire(peer: &Peer, ask: &Ask) -> Result<Acquired, Failure> {
    acquired(peer.claim(&ask.claim()).await?)
}

/// Claims until it wins: what was dropped or cut a moment ago may still hold the key for a while.
pub(crate) async fn acquire_at_last(peer: &Peer, ask: &Ask) -> Result<Acquired, Failure> {
    let started = Instant::now();
    loop {
        let refusal = match peer.claim(&ask.claim()).await {
            Ok(Claimed::InProgress { remaining }) => format!("InProgress, {remaining:?} left"),
            Err(error) if error.kind().is_transient() => crate::failure::chain(&error),
            Ok(claimed) => return acquired(claimed),
            Err(error) => return Err(error.into()),
        };
        if started.elapsed() > PATIENCE {
            let seen = format!("{refusal} after {:?}", started.elapsed());
            return Err(Failure::new("the key to be free at last", seen));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The claim that was won.
pub(crate) fn acquired(claimed: Claimed) -> Result<Acquired, Failure> {
    match claimed {
        Claimed::Acquired(acquired) => Ok(acquired),
        other => Err(Failure::new("the claim to be Acquired", format!("{other:?}"))),
    }
}

/// The record, which has to be there.
pub(crate) async fn present(peer: &Peer, ask: &Ask) -> Result<Observed, Failure> {
    let found = peer.get(&ask.scope, &ask.key).await?;
    found.ok_or_else(|| Failure::new("the record to be there", "None"))
}

/// A fixture's failure.
pub(crate) fn setup(what: &str, error: &SetupError) -> Failure {
    let seen = crate::failure::chain(&**error);
    Failure::new(format!("the fixture to give {what}"), seen)
}
