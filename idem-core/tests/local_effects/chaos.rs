//! Commits that go as chance wills, handlers that die, callers that retry: in the end each row
//! stands once, and every caller that was told of success was told of the one that stands.
//!
//! The seed is printed with a failure. It fixes the faults and the times, not the engine's own
//! random back-off.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::engine::{Execution, Failure, Outcome, RunError};
use idem_core::operation::LocalForm;
use idem_core::reply::Reply;
use tokio::time::sleep;

use crate::store::{Commit, TxStore};
use crate::{BOTH, LEASE, World, body};

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

    fn commit(&self) -> Option<Commit> {
        let applied = self.below(2) == 0;
        match self.below(10) {
            0 => Some(Commit::NotApplied),
            1 => Some(Commit::Unacknowledged { applied }),
            2 => Some(Commit::Pending { applied, after: self.millis(5_000) }),
            3 => Some(Commit::Pending { applied, after: self.millis(120_000) }),
            4 => Some(Commit::Silent { applied }),
            5 => Some(Commit::Panics),
            _ => None,
        }
    }

    fn dies(&self) -> Result<(), Failure> {
        match self.below(10) {
            0 => Err(Failure::unknown("killed")),
            1 => panic!("asked for by the test"),
            _ => Ok(()),
        }
    }
}

async fn handler(
    execution: Execution,
    store: TxStore,
    random: Random,
    caller: usize,
) -> Result<Reply, Failure> {
    let steps = execution.operation().local_form() == LocalForm::ClaimFirst;
    if steps && execution.done::<u8>("reserve").await?.is_none() {
        let mut transaction = execution.transaction(&store).await?;
        transaction.connection().insert("reserved");
        sleep(random.millis(1_000)).await;
        random.dies()?;
        transaction.commit_step("reserve", &0_u8).await?;
    }
    random.dies()?;
    let mut transaction = execution.transaction(&store).await?;
    transaction.connection().insert("order");
    sleep(random.millis(11_000)).await; // At times longer than it may.
    random.dies()?;
    let committed = transaction.commit(format!("created for {caller}")).await?;
    random.dies()?;
    Ok(committed.into())
}

async fn told(world: World, random: Random, caller: usize) -> Vec<Result<Outcome, RunError>> {
    let mut told = Vec::new();
    for _ in 0..5 {
        sleep(random.millis(60_000)).await;
        let random = random.clone();
        let result = world
            .run(async move |execution, store| handler(execution, store, random, caller).await)
            .await;
        told.push(result);
    }
    told
}

/// The same steps, and nothing that dies.
async fn at_last(world: &World) -> Result<Outcome, RunError> {
    world
        .run(async |execution, store| {
            execution.done::<u8>("reserve").await?;
            let mut transaction = execution.transaction(&store).await?;
            transaction.connection().insert("order");
            transaction.commit("created at last".to_owned()).await
        })
        .await
}

async fn one_world(form: LocalForm, seed: u64) {
    let random = Random::seeded(seed);
    let world = World::with(form, |builder| builder.attempts(1_000));
    let fates = random.clone();
    world.store.commits_go_by(move || fates.commit());
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..3 {
        callers.spawn(told(world.clone(), random.clone(), caller));
    }
    let told: Vec<_> = callers.join_all().await.into_iter().flatten().collect();

    world.store.commits_go_by(|| None);
    sleep(LEASE * 10).await;
    let mut last = at_last(&world).await;
    for _ in 0..10 {
        if last.is_ok() {
            break;
        }
        sleep(LEASE * 2).await;
        last = at_last(&world).await;
    }
    let last = last.unwrap_or_else(|error| panic!("{form:?} seed {seed}: never ends: {error}"));
    let rows = world.store.rows().rows;
    let count = |row: &str| rows.iter().filter(|stands| *stands == row).count();
    assert_eq!(count("order"), 1, "{form:?} seed {seed}: {rows:?}");
    assert!(count("reserved") <= 1, "{form:?} seed {seed}: {rows:?}");
    for outcome in told.iter().flatten() {
        assert!(outcome.stored, "{form:?} seed {seed}: success with nothing stored");
        assert_eq!(body(outcome), body(&last), "{form:?} seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_row_stands_once_whatever_the_commits_do() {
    for seed in 0..120 {
        for form in BOTH {
            one_world(form, seed).await;
        }
    }
}
