//! Random sequences of verbs against the model, with shrinking.

use std::cell::Cell;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Handle;

use crate::case::Case;
use crate::context::Context;
use crate::failure::{CaseResult, Failure};
use crate::model::{Lockstep, Move, sequences};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "model::random_verbs",
            "R1-R11, R14, R26",
            "random verbs on a few keys are answered, and leave records, as the rules say",
            |cx| random_verbs(cx, 60, 30),
        ),
        Case::new(
            "model::long_lives",
            "R1-R11, R14, R26",
            "the same in fewer and longer runs",
            |cx| random_verbs(cx, 8, 160),
        ),
    ]
}

/// How often a failing sequence is tried in shorter forms.
const MAX_SHRINKS: u32 = 400;

async fn random_verbs(cx: Context, runs: u32, length: usize) -> CaseResult {
    let peers = cx.connect_many(3).await?;
    let handle = Handle::current();
    // The runner is not asynchronous, so it has a thread of its own.
    let search = tokio::task::spawn_blocking(move || search(&handle, &cx, &peers, runs, length));
    search.await.map_err(|error| Failure::new("no panic", error.to_string()))?
}

fn search(handle: &Handle, cx: &Context, peers: &[Peer], runs: u32, length: usize) -> CaseResult {
    let config = Config {
        cases: runs,
        max_shrink_iters: MAX_SHRINKS,
        failure_persistence: None,
        ..Config::default()
    };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&cx.seed().to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, random);
    let number = Cell::new(0);
    let result = runner.run(&sequences(cx.steps_clock(), length), |moves| {
        let run = number.replace(number.get() + 1);
        handle.block_on(one(cx, peers, &moves, run)).map_err(|f| TestCaseError::fail(f.to_string()))
    });
    match result {
        Ok(()) => Ok(()),
        Err(TestError::Abort(reason)) => Err(Failure::new("a run", reason.to_string())),
        Err(TestError::Fail(_, moves)) => {
            // Once more, so that the last steps of the trace are those of the shortest sequence.
            let again = handle.block_on(one(cx, peers, &moves, usize::MAX));
            let found = Failure::new("the rules' answers", format!("another one, by {moves:?}"));
            Err(again.err().unwrap_or(found))
        }
    }
}

async fn one(cx: &Context, peers: &[Peer], moves: &[Move], run: usize) -> CaseResult {
    Lockstep::start(cx, peers, &format!("run{run}")).await?.run(moves).await
}
