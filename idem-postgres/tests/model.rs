//! Random sequences of verbs on a store and on the pure rules at once: every answer and every
//! stored record must be the same. The clock stands still between the steps, so that boundaries
//! are met exactly.

mod support;

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::{Admin, Filter, StateFilter};
use idem_core::claim::{Claimed, Takeover};
use idem_core::error::StoreError;
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::memory::MemoryStore;
use idem_core::record::{Fence, Incarnation, Observed, Owner, Retention};
use idem_core::store::Store;
use idem_core::time::{Clock, ManualClock, Timestamp};
use idem_postgres::PostgresStore;
use idem_testkit::random::Random;
use support::{Place, Request, Server, point, print, sealed};

const STEPS: u32 = 1_500;
const KEYS: [&str; 3] = ["a", "A", "a "];

#[tokio::test]
async fn postgres_15_does_what_the_rules_say() {
    follow(Server::Postgres, "model on Postgres 15").await;
}

#[tokio::test]
async fn postgres_18_does_what_the_rules_say() {
    follow(Server::Postgres18, "model on Postgres 18").await;
}

#[tokio::test]
async fn a_proxy_in_front_changes_nothing() {
    follow(Server::PgBouncer, "model through PgBouncer").await;
}

async fn follow(server: Server, name: &str) {
    let place = Place::stepped(server).await;
    let clock = Arc::new(ManualClock::new());
    let offset = place.now() - clock.now().as_unix_micros();
    clock.advance(Duration::from_micros(u64::try_from(offset).unwrap()));
    let mut pair = Pair {
        store: place.open().await,
        model: MemoryStore::with_clock(clock.clone()),
        clock,
        place,
        random: Random::announced(name),
        fences: Vec::new(),
        requests: Vec::new(),
    };
    for step in 0..STEPS {
        pair.step(step).await;
    }
    assert!(pair.fences.len() > 50, "{} claims were won", pair.fences.len());
    pair.store.close().await;
}

struct Pair {
    place: Place,
    store: PostgresStore,
    model: MemoryStore,
    clock: Arc<ManualClock>,
    random: Random,
    /// Every fence that was won: the store's and the model's, which differ in their incarnation.
    fences: Vec<(Fence, Fence)>,
    requests: Vec<Request>,
}

impl Pair {
    async fn step(&mut self, step: u32) {
        match self.random.below(20) {
            0..6 => self.claim(step).await,
            6..8 => self.renew(step).await,
            8..11 => self.checkpoint(step).await,
            11..13 => self.complete(step).await,
            13..14 => self.release(step).await,
            14..15 => self.remove(step).await,
            15..17 => self.move_clock().await,
            17..18 => self.sweep(step).await,
            18..19 => self.listings(step).await,
            _ => self.forget(step).await,
        }
        self.compare_records(step).await;
    }

    async fn claim(&mut self, step: u32) {
        let request = self.request();
        let there = self.store.claim(&request.claim()).await;
        // A policy that names a life names it by the store's incarnation.
        let mut twin = request.clone();
        if let Takeover::Only { incarnation, attempt, younger_than } = twin.takeover {
            let incarnation = self.to_model(incarnation);
            twin.takeover = Takeover::Only { incarnation, attempt, younger_than };
        }
        let here = self.model.claim(&twin.claim()).await;
        if let (Ok(Claimed::Acquired(there)), Ok(Claimed::Acquired(here))) = (&there, &here) {
            self.fences.push((there.fence.clone(), here.fence.clone()));
        }
        assert_eq!(self.shown_claim(&there), self.shown_claim(&here), "step {step}: {request:?}");
        self.requests.push(request);
    }

    /// A fresh request, or the same call again.
    fn request(&mut self) -> Request {
        if !self.requests.is_empty() && self.random.chance(4) {
            return self.random.pick(&self.requests).clone();
        }
        let random = &mut self.random;
        let mut request = Request::new(random.pick(&KEYS));
        request.fingerprints = match random.below(6) {
            0 => Fingerprints::not_compared(),
            1 => print(2).into(),
            2 => Fingerprint::from_parts(Scheme::from_byte(2), [1; 32]).into(),
            3 => Fingerprints::new(Fingerprint::from_parts(Scheme::from_byte(2), [1; 32]))
                .also(print(1)),
            _ => print(1).into(),
        };
        request.lease = Duration::from_secs(random.below(3));
        request.marks_begun = random.chance(3);
        request.input = (!random.chance(3)).then(|| sealed("input"));
        request.retention = match random.below(4) {
            0 => Retention::Forever,
            1 => Retention::at_least(Duration::from_secs(2), Duration::from_secs(4)),
            _ => Retention::of(Duration::from_secs(3)),
        };
        request.takeover = match random.below(4) {
            0 => Takeover::Never,
            1 => Takeover::Below {
                attempts: u32::try_from(random.below(4)).unwrap(),
                younger_than: Duration::from_secs(random.below(5)),
            },
            2 if !self.fences.is_empty() => {
                let (fence, _) = random.pick(&self.fences);
                let younger_than = Some(Duration::from_secs(self.random.below(5)));
                Takeover::Only {
                    incarnation: fence.incarnation,
                    attempt: fence.attempt,
                    younger_than: younger_than.filter(|limit| !limit.is_zero()),
                }
            }
            _ => request.takeover,
        };
        request
    }

    /// Mostly the latest, sometimes an old one, sometimes one that nobody has.
    fn fence(&mut self) -> Option<(Fence, Fence)> {
        if self.fences.is_empty() {
            return None;
        }
        let recent = self.fences.len().saturating_sub(4);
        let (mut there, mut here) = match self.random.chance(4) {
            true => self.random.pick(&self.fences).clone(),
            false => self.random.pick(&self.fences[recent..]).clone(),
        };
        match self.random.below(16) {
            0 => (there.attempt, here.attempt) = (there.attempt + 1, here.attempt + 1),
            1 => {
                (there.owner, here.owner) = (Owner::from_bytes([0; 16]), Owner::from_bytes([0; 16]))
            }
            2 => {
                (there.incarnation, here.incarnation) =
                    (Incarnation::from_bytes([0; 16]), Incarnation::from_bytes([0; 16]))
            }
            _ => {}
        }
        Some((there, here))
    }

    async fn renew(&mut self, step: u32) {
        let Some((there, here)) = self.fence() else { return };
        let lease = Duration::from_secs(self.random.below(4));
        let there = shown(self.store.renew(&there, lease).await);
        assert_eq!(there, shown(self.model.renew(&here, lease).await), "step {step}: renew");
    }

    async fn checkpoint(&mut self, step: u32) {
        let Some((there, here)) = self.fence() else { return };
        let mut recovery = point(u32::try_from(self.random.below(4)).unwrap());
        if self.random.chance(6) {
            recovery.payload = sealed("another");
        }
        let lease = Duration::from_secs(self.random.below(3));
        let there = shown(self.store.checkpoint(&there, &recovery, lease).await);
        let here = shown(self.model.checkpoint(&here, &recovery, lease).await);
        assert_eq!(there, here, "step {step}: checkpoint {recovery:?}");
    }

    async fn complete(&mut self, step: u32) {
        let Some((there, here)) = self.fence() else { return };
        let reply = sealed(if self.random.chance(4) { "other" } else { "reply" });
        let there = shown(self.store.complete(&there, &reply).await);
        assert_eq!(there, shown(self.model.complete(&here, &reply).await), "step {step}: complete");
    }

    async fn release(&mut self, step: u32) {
        let Some((there, here)) = self.fence() else { return };
        let there = shown(self.store.release(&there).await);
        assert_eq!(there, shown(self.model.release(&here).await), "step {step}: release");
    }

    async fn remove(&mut self, step: u32) {
        let Some((there, here)) = self.fence() else { return };
        let there = shown(self.store.remove(&there).await);
        assert_eq!(there, shown(self.model.remove(&here).await), "step {step}: remove");
    }

    /// By whole seconds, as leases and retentions are, and sometimes by one microsecond.
    async fn move_clock(&mut self) {
        let by = Duration::from_micros(*self.random.pick(&[1, 999_999, 1_000_000, 2_000_000]));
        if self.random.chance(12) {
            self.clock.step_back(by);
            self.place.move_clock(-i64::try_from(by.as_micros()).unwrap()).await;
        } else {
            self.clock.advance(by);
            self.place.advance(by).await;
        }
        assert_eq!(self.clock.now(), Timestamp::from_unix_micros(self.place.now()));
    }

    async fn sweep(&mut self, step: u32) {
        // All that are due: which ones go first is the store's own affair.
        let there = shown(self.store.sweep(100).await);
        assert_eq!(there, shown(self.model.sweep(100).await), "step {step}: sweep");
    }

    async fn forget(&mut self, step: u32) {
        let scope = Request::new("x").scope;
        let there = shown(self.store.forget(&scope, 100).await);
        assert_eq!(there, shown(self.model.forget(&scope, 100).await), "step {step}: forget");
    }

    async fn listings(&mut self, step: u32) {
        let mut there = self.store.stats().await.unwrap();
        assert_eq!(there.outbox_pending.take(), Some(0));
        assert_eq!(there, self.model.stats().await.unwrap(), "step {step}: stats");
        let states = [StateFilter::Live, StateFilter::Lapsed, StateFilter::Completed];
        let filter = match self.random.below(4) {
            3 => Filter::all(),
            state => Filter::all().state(states[usize::try_from(state).unwrap()]),
        };
        let there = self.store.list(&filter, None, 2).await.unwrap();
        let here = self.model.list(&filter, None, 2).await.unwrap();
        assert_eq!(there.next, here.next, "step {step}: list");
        assert_eq!(self.all_shown(&there.records), self.all_shown(&here.records), "step {step}");
        let there = self.store.lapsed(None, 2).await.unwrap();
        let here = self.model.lapsed(None, 2).await.unwrap();
        assert_eq!(there.next, here.next, "step {step}: lapsed");
        assert_eq!(self.all_shown(&there.records), self.all_shown(&here.records), "step {step}");
    }

    async fn compare_records(&self, step: u32) {
        for key in KEYS {
            let Request { scope, key, .. } = Request::new(key);
            let there = self.store.get(&scope, &key).await.unwrap();
            let here = self.model.get(&scope, &key).await.unwrap();
            let (there, here) =
                (there.map(|seen| self.shown(&seen)), here.map(|seen| self.shown(&seen)));
            assert_eq!(there, here, "step {step}: the record of {key:?}");
        }
    }

    fn all_shown(&self, records: &[Observed]) -> Vec<String> {
        records.iter().map(|seen| self.shown(seen)).collect()
    }

    /// A record, with its life by the number of the claim that began it.
    fn shown(&self, seen: &Observed) -> String {
        let mut record = seen.record.clone();
        record.incarnation = self.number(record.incarnation);
        format!("{record:?} at {:?}", seen.now)
    }

    fn shown_claim(&self, claimed: &Result<Claimed, StoreError>) -> String {
        let mut claimed = match claimed {
            Ok(claimed) => claimed.clone(),
            Err(error) => return format!("{:?}", error.kind()),
        };
        match &mut claimed {
            Claimed::Acquired(acquired) => {
                acquired.fence.incarnation = self.number(acquired.fence.incarnation);
            }
            Claimed::Completed(replay) => {
                replay.fence.incarnation = self.number(replay.fence.incarnation);
            }
            _ => {}
        }
        format!("{claimed:?}")
    }

    /// The place of the first fence of this life, on either side.
    fn number(&self, life: Incarnation) -> Incarnation {
        let first = self
            .fences
            .iter()
            .position(|(there, here)| there.incarnation == life || here.incarnation == life);
        let number = u64::try_from(first.expect("a life begins with a claim")).unwrap();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(number + 1).to_be_bytes());
        Incarnation::from_bytes(bytes)
    }

    fn to_model(&self, life: Incarnation) -> Incarnation {
        let pair = self.fences.iter().find(|(there, _)| there.incarnation == life);
        pair.expect("a life begins with a claim").1.incarnation
    }
}

fn shown<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}", error.kind()),
    }
}
