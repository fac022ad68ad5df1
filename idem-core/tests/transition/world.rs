//! One key, as a store without a network would keep it: a record, the time, and the rules.

use std::time::Duration;

use idem_core::claim::{Acquired, Claim, Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, Refusal};
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{
    Fence, Incarnation, OperationName, Owner, Record, Recovery, Retention, State,
};
use idem_core::store::{Lease, Renewed};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Applied, Change, Decision};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// The lease of an [`ask`].
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The retention of an [`ask`], from the first claim.
pub(crate) const RETENTION: Duration = Duration::from_secs(100);

/// Everything that a claim says; what a test does not set is the same for all.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) owner: Owner,
    pub(crate) operation: &'static str,
    pub(crate) fingerprints: Fingerprints,
    pub(crate) input: Option<Sealed>,
    pub(crate) marks_begun: bool,
    pub(crate) lease: Duration,
    pub(crate) retention: Retention,
    pub(crate) takeover: Takeover,
}

/// A claim by this owner that takes over below 3 attempts, at any age.
pub(crate) fn ask(owner: u8) -> Ask {
    Ask {
        owner: Owner::from_bytes([owner; 16]),
        operation: "charge",
        fingerprints: print(1).into(),
        input: Some(bytes(&format!("input of {owner}"))),
        marks_begun: false,
        lease: LEASE,
        retention: Retention::of(RETENTION),
        takeover: Takeover::Below { attempts: 3, younger_than: Duration::MAX },
    }
}

impl Ask {
    pub(crate) fn body(mut self, body: u8) -> Self {
        self.fingerprints = print(body).into();
        self
    }

    pub(crate) fn marking(mut self) -> Self {
        self.marks_begun = true;
        self
    }

    pub(crate) fn policy(mut self, takeover: Takeover) -> Self {
        self.takeover = takeover;
        self
    }

    /// As a reconciler that listed the record under this fence.
    pub(crate) fn only(self, listed: &Fence) -> Self {
        let Fence { incarnation, attempt, .. } = *listed;
        self.policy(Takeover::Only { incarnation, attempt, younger_than: None })
    }
}

/// The fingerprint of a request body.
pub(crate) fn print(body: u8) -> Fingerprint {
    Fingerprint::from_parts(Scheme::V1, [body; 32])
}

pub(crate) fn bytes(text: &str) -> Sealed {
    Sealed::from_bytes(text.as_bytes().to_vec())
}

pub(crate) fn point(number: u32, text: &str) -> Recovery {
    Recovery { number, payload: bytes(text) }
}

/// The record under one key, and the store's clock.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) record: Option<Record>,
    pub(crate) now: Timestamp,
    lives: u8,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { record: None, now: Timestamp::from_unix_micros(1_000_000_000), lives: 0 }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    pub(crate) fn step_back(&mut self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.now = Timestamp::from_unix_micros(self.now.as_unix_micros() - micros);
    }

    pub(crate) fn claim(&mut self, ask: &Ask) -> Result<Claimed, ErrorKind> {
        let scope = Scope::new("s").unwrap();
        let key = Key::new("k").unwrap();
        let operation = OperationName::new(ask.operation).unwrap();
        let claim = Claim::new(
            &scope,
            &key,
            ask.owner,
            &operation,
            &ask.fingerprints,
            ask.lease,
            ask.retention,
            ask.takeover,
        )
        .with_input(ask.input.as_ref())
        .marking_begun(ask.marks_begun);
        self.lives += 1;
        let fresh = Incarnation::from_bytes([self.lives; 16]);
        let decision = transition::claim(self.record.as_ref(), &claim, self.now, fresh);
        self.apply(decision)
    }

    /// Claims, where the test is not about the claim.
    pub(crate) fn acquire(&mut self, ask: &Ask) -> Acquired {
        match self.claim(ask) {
            Ok(Claimed::Acquired(acquired)) => acquired,
            other => panic!("not acquired: {other:?}"),
        }
    }

    pub(crate) fn renew(&mut self, fence: &Fence, lease: Duration) -> Result<Renewed, ErrorKind> {
        self.apply(transition::renew(self.record.as_ref(), fence, lease, self.now))
    }

    pub(crate) fn checkpoint(
        &mut self,
        fence: &Fence,
        recovery: &Recovery,
    ) -> Result<(Applied, Lease), ErrorKind> {
        self.apply(transition::checkpoint(self.record.as_ref(), fence, recovery, LEASE, self.now))
    }

    pub(crate) fn complete(&mut self, fence: &Fence, reply: &str) -> Result<Applied, ErrorKind> {
        self.apply(transition::complete(self.record.as_ref(), fence, &bytes(reply), self.now))
    }

    pub(crate) fn release(&mut self, fence: &Fence) -> Result<(), ErrorKind> {
        self.apply(transition::release(self.record.as_ref(), fence, self.now))
    }

    pub(crate) fn hold(&mut self, fence: &Fence) -> Result<(), ErrorKind> {
        self.apply(transition::hold(self.record.as_ref(), fence, self.now))
    }

    pub(crate) fn remove(&mut self, fence: &Fence) -> Result<(), ErrorKind> {
        self.apply(transition::remove(self.record.as_ref(), fence))
    }

    /// Sweeps; says whether the record went.
    pub(crate) fn sweep(&mut self) -> bool {
        let goes =
            self.record.as_ref().is_some_and(|record| transition::is_sweepable(record, self.now));
        if goes {
            self.record = None;
        }
        goes
    }

    fn apply<T>(&mut self, decision: Decision<T>) -> Result<T, ErrorKind> {
        if decision.outcome.is_err() {
            assert_eq!(decision.change, Change::None, "a refused verb changes nothing");
        }
        match decision.change {
            Change::None => {}
            Change::Put(record) => self.record = Some(*record),
            Change::Delete => self.record = None,
        }
        decision.outcome.map_err(|Refusal { kind, .. }| kind)
    }

    pub(crate) fn standing(&self) -> &Record {
        self.record.as_ref().expect("a record stands")
    }

    pub(crate) fn locked_until(&self) -> Timestamp {
        match self.standing().state {
            State::InProgress { locked_until, .. } => locked_until,
            State::Completed { .. } => panic!("completed"),
        }
    }

    pub(crate) fn recovery_number(&self) -> Option<u32> {
        self.standing().recovery().map(|recovery| recovery.number)
    }

    pub(crate) fn reply(&self) -> &Sealed {
        match &self.standing().state {
            State::Completed { reply, .. } => reply,
            State::InProgress { .. } => panic!("in progress"),
        }
    }
}
