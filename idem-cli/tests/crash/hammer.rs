//! The client: every key as several duplicates at once, on both servers, retried until there is
//! an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_cli::wire::{Answer, WireError};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::Stage;
use crate::random::Random;
use crate::support::payments::{charge, is_replay};
use crate::support::process::PATIENCE;

/// How often each request is sent at the same time.
pub(crate) const DUPLICATES: usize = 8;
/// How many keys are under way at once.
const KEYS_AT_ONCE: usize = 8;
/// How long one try may take. A server that was killed is noticed at once, so this is long.
const TRY_LIMIT: Duration = Duration::from_secs(30);

/// A client at work.
pub(crate) struct Hammer(JoinHandle<Vec<Outcome>>);

/// What became of one key.
pub(crate) struct Outcome {
    /// The final answer to each duplicate.
    pub(crate) answers: Vec<Answer>,
    /// What came before: statuses, and 0 for no answer.
    pub(crate) retried: BTreeMap<u16, usize>,
}

impl Hammer {
    pub(crate) fn start(stage: Arc<Stage>, keys: usize, seed: u64) -> Self {
        Self(crate::spawn(async move {
            let at_once = Arc::new(Semaphore::new(KEYS_AT_ONCE));
            let mut tasks = Vec::new();
            for number in 0..keys {
                let permit = at_once.clone().acquire_owned().await.unwrap();
                stage.wait_for_share(number).await;
                let stage = stage.clone();
                tasks.push(tokio::spawn(async move {
                    let _permit = permit;
                    strike(stage, number, seed).await
                }));
            }
            let mut outcomes = Vec::new();
            for task in tasks {
                outcomes.push(task.await.unwrap());
            }
            outcomes
        }))
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    pub(crate) fn outcomes(self) -> Vec<Outcome> {
        crate::wait(self.0)
    }
}

impl Outcome {
    /// What the client saw, in one line.
    pub(crate) fn summary(outcomes: &[Self]) -> String {
        let mut retried = BTreeMap::new();
        for (status, count) in outcomes.iter().flat_map(|outcome| &outcome.retried) {
            *retried.entry(*status).or_insert(0) += count;
        }
        let answers = || outcomes.iter().flat_map(|outcome| &outcome.answers);
        let executed = answers().filter(|answer| !is_replay(answer)).count();
        let unstored = answers().filter(|answer| is_marked_unstored(answer)).count();
        format!("{executed} executed answers, {unstored} unstored, retried after {retried:?}")
    }
}

pub(crate) fn key(number: usize) -> String {
    format!("order-{number:04}")
}

pub(crate) fn amount(number: usize) -> i64 {
    100 + i64::try_from(number).unwrap()
}

/// Whether both are the same answer. One that could not be stored in time says so (R16); it is
/// the same in everything else.
pub(crate) fn is_same(one: &Answer, other: &Answer) -> bool {
    const MAY_DIFFER: [&str; 4] =
        ["date", "idempotent-replayed", "idempotency-key-lifetime", "idempotency-stored"];
    one.status == other.status
        && one.headers_without(&MAY_DIFFER) == other.headers_without(&MAY_DIFFER)
        && one.body == other.body
}

async fn strike(stage: Arc<Stage>, number: usize, seed: u64) -> Outcome {
    let mut duplicates = Vec::new();
    for copy in 0..DUPLICATES {
        let random = Random::new(seed ^ ((number * DUPLICATES + copy) as u64) << 32);
        duplicates.push(tokio::spawn(persist(stage.clone(), number, copy, random)));
    }
    let mut outcome = Outcome { answers: Vec::new(), retried: BTreeMap::new() };
    for duplicate in duplicates {
        let (answer, retried) = duplicate.await.unwrap();
        outcome.answers.push(answer);
        for status in retried {
            *outcome.retried.entry(status).or_insert(0) += 1;
        }
    }
    outcome
}

/// Retries on the other server what the API lets a client retry.
async fn persist(
    stage: Arc<Stage>,
    number: usize,
    copy: usize,
    mut random: Random,
) -> (Answer, Vec<u16>) {
    let request = charge(&key(number), amount(number));
    let started = Instant::now();
    let mut retried = Vec::new();
    let mut which = copy % 2;
    loop {
        match request.send(stage.address(which), TRY_LIMIT).await {
            Ok(answer) if matches!(answer.status, 409 | 503) => retried.push(answer.status),
            Ok(answer) => return (answer, retried),
            Err(WireError::Malformed(why)) => panic!("key {number}: {why}"),
            Err(_) => retried.push(0),
        }
        assert!(started.elapsed() < PATIENCE, "key {number} has no answer: {retried:?}");
        which = 1 - which;
        let pause = random.duration(Duration::from_millis(10), Duration::from_millis(100));
        tokio::time::sleep(pause).await;
    }
}

fn is_marked_unstored(answer: &Answer) -> bool {
    answer.text("idempotency-stored").as_deref() == Some("false")
}
