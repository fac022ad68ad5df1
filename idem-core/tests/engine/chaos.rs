//! Callers, retries and a reconciler over a store that fails at random, and handlers that die at
//! random: whatever happens, one effect for each key, and one stored reply.
//!
//! The seed is printed with a failure. It fixes the faults and the times, not the engine's own
//! random back-off.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::engine::{EngineBuilder, Execution, Failure, How, Outcome, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::{Operation, Unstored};
use idem_core::reply::Reply;
use idem_core::store::Store;
use tokio::time::sleep;

use crate::faulty::Fault;
use crate::{LEASE, World};

/// xorshift64*, seeded: the same faults for the same seed.
#[derive(Clone)]
struct Random(Arc<Mutex<u64>>);

impl Random {
    fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)))
    }

    fn below(&self, end: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn millis(&self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    fn fault(&self) -> Option<Fault> {
        match self.below(16) {
            0 => Some(Fault::Request(ErrorKind::NotApplied)),
            1 => Some(Fault::Request(ErrorKind::OutcomeUnknown)),
            2 | 3 => Some(Fault::Reply),
            4 => Some(Fault::Late(self.millis(2_000))),
            5 => Some(Fault::Late(self.millis(60_000))),
            6 => Some(Fault::Silence),
            _ => None,
        }
    }
}

/// A downstream that collapses calls by their key: two different keys are two effects.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<String>>>);

async fn handler(
    execution: Execution,
    random: Random,
    ledger: Ledger,
    failing: Arc<AtomicU32>,
) -> Result<Reply, Failure> {
    let fails = |random: &Random| {
        if failing.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        match random.below(8) {
            0 => Err(Failure::unknown("killed")),
            1 => panic!("asked for by the test"),
            _ => Ok(()),
        }
    };
    sleep(random.millis(5_000)).await;
    let (pause, seen) = (random.millis(20_000), ledger.clone());
    let charge: String = execution
        .step("charge", |key| async move {
            sleep(pause).await;
            seen.0.lock().unwrap().push(key.to_string());
            sleep(pause).await;
            Ok::<_, std::io::Error>(key.to_string())
        })
        .await?;
    fails(&random)?;
    sleep(random.millis(20_000)).await;
    // Two attempts answer differently, so that a reply that is not the stored one shows.
    Ok(Reply::from(format!("{charge} by attempt {}", execution.attempt())))
}

fn chaotic(random: &Random, ledger: &Ledger, failing: &Arc<AtomicU32>) -> World {
    let (random, ledger, failing) = (random.clone(), ledger.clone(), Arc::clone(failing));
    let unstored = if random.below(2) == 0 { Unstored::Deliver } else { Unstored::Refuse };
    let attempts = 1_000;
    World::with(
        move |builder| builder.resumable().attempts(attempts).unstored(unstored),
        move |builder: EngineBuilder, operation: &Operation| {
            builder.register(operation, move |execution| {
                handler(execution, random.clone(), ledger.clone(), Arc::clone(&failing))
            })
        },
    )
}

async fn caller(world: World, random: Random) -> Vec<Result<Outcome, RunError>> {
    let mut told = Vec::new();
    for _ in 0..6 {
        sleep(random.millis(40_000)).await;
        told.push(world.engine.run_registered(&world.operation, World::call()).await);
    }
    told
}

async fn reconciler(world: World) {
    loop {
        sleep(LEASE).await;
        let page = world.store.inner().lapsed(None, 10).await.unwrap();
        for lapsed in page.records {
            let _ = world.engine.resume(&lapsed).await;
        }
    }
}

async fn one_world(seed: u64) {
    let random = Random::seeded(seed);
    let (ledger, failing) = (Ledger::default(), Arc::new(AtomicU32::new(1)));
    let world = chaotic(&random, &ledger, &failing);
    for verb in [Verb::Claim, Verb::Renew, Verb::Checkpoint, Verb::Complete, Verb::Get] {
        let random = random.clone();
        world.store.fail_by(verb, move || random.fault());
    }
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        callers.spawn(caller(world.clone(), random.clone()));
    }
    let reconciling = tokio::spawn(reconciler(world.clone()));
    let told: Vec<_> = callers.join_all().await.into_iter().flatten().collect();

    // Everything heals; whoever asks now gets the one reply.
    world.store.heal();
    failing.store(0, Ordering::SeqCst);
    let mut last = world.engine.run_registered(&world.operation, World::call()).await;
    for _ in 0..100 {
        if last.is_ok() {
            break;
        }
        sleep(LEASE).await;
        last = world.engine.run_registered(&world.operation, World::call()).await;
    }
    reconciling.abort();
    let last = last.unwrap_or_else(|error| panic!("seed {seed}: it never ends: {error}"));
    let calls = ledger.0.lock().unwrap().clone();
    let effects: BTreeSet<_> = calls.iter().collect();
    assert_eq!(effects.len(), 1, "seed {seed}: {calls:?}");
    for outcome in told.iter().flatten() {
        assert_ne!(outcome.how, How::Unprotected, "seed {seed}");
        let differs = outcome.stored && outcome.reply != last.reply;
        assert!(!differs, "seed {seed}: {outcome:?} and {last:?} are both told as stored");
    }
}

#[tokio::test(start_paused = true)]
async fn one_effect_and_one_stored_reply_whatever_fails() {
    for seed in 0..150 {
        one_world(seed).await;
    }
}
