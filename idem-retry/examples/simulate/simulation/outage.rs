//! A service hangs for twenty seconds while calls go on coming.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use idem_retry::budget::Deposits;
use idem_retry::random::SplitMix;
use idem_retry::{
    Applied, AttemptTimeout, Attempted, Budget, Class, Destination, Outcome, Policy, Retry,
};
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::gap;
use super::server::{Busy, Server};

pub(crate) const SECONDS: usize = 100;
pub(crate) const OUTAGE: (usize, usize) = (20, 40);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// Calls a second in the plots.
pub(crate) const LOAD: u32 = 80;
pub(crate) const LOADS: [u32; 5] = [20, 40, 60, 80, 100];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    NoRetries,
    NoBudget,
    EachCall,
    EachSuccess,
}

pub(crate) const KINDS: [Kind; 4] =
    [Kind::NoRetries, Kind::NoBudget, Kind::EachCall, Kind::EachSuccess];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoRetries => "no retries",
            Self::NoBudget => "3 attempts, no budget",
            Self::EachCall => "3 attempts, budget: a tenth of the calls",
            Self::EachSuccess => "3 attempts, budget: paid by successes",
        }
    }

    fn budget(self) -> Budget {
        match self {
            Self::NoRetries | Self::NoBudget => Budget::unlimited(),
            Self::EachCall => Budget::default(),
            Self::EachSuccess => Budget::builder()
                .deposits(Deposits::EachSuccess(1))
                .build()
                .expect("the settings are in range"),
        }
    }

    fn attempts(self) -> u32 {
        if self == Self::NoRetries { 1 } else { 3 }
    }
}

/// What one run came to, second by second.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) kind: Kind,
    pub(crate) load: u32,
    /// Calls that began.
    pub(crate) calls: Vec<u32>,
    /// Attempts that were sent.
    pub(crate) attempts: Vec<u32>,
    /// Attempts, by the second in which their call began.
    pub(crate) attempts_of_calls: Vec<u32>,
    /// Calls, by the second in which they began, that succeeded in the end.
    pub(crate) succeeded: Vec<u32>,
}

impl Run {
    fn empty(kind: Kind, load: u32) -> Self {
        let counts = || vec![0; SECONDS];
        let (calls, attempts) = (counts(), counts());
        let (attempts_of_calls, succeeded) = (counts(), counts());
        Self { kind, load, calls, attempts, attempts_of_calls, succeeded }
    }

    /// Attempts for each call that began while the service hung.
    pub(crate) fn amplification(&self) -> f64 {
        let outage = OUTAGE.0..OUTAGE.1;
        let sum = |counts: &[u32]| f64::from(counts[outage.clone()].iter().sum::<u32>());
        sum(&self.attempts_of_calls) / sum(&self.calls)
    }

    /// Calls that failed, outage or not.
    pub(crate) fn failed(&self) -> u32 {
        self.calls.iter().sum::<u32>() - self.succeeded.iter().sum::<u32>()
    }

    /// Seconds from the end of the outage until 19 of 20 calls succeed, and go on doing so; `None`
    /// when it does not come to that.
    pub(crate) fn recovery(&self) -> Option<usize> {
        let is_well = |second: usize| self.succeeded[second] * 20 >= self.calls[second] * 19;
        let last_bad = (OUTAGE.1..SECONDS).rev().find(|second| !is_well(*second));
        let recovered = last_bad.map_or(OUTAGE.1, |second| second + 1);
        (recovered < SECONDS).then_some(recovered - OUTAGE.1)
    }
}

pub(crate) fn at_one_load(seed: u64) -> Vec<Run> {
    KINDS.map(|kind| run(kind, LOAD, seed)).into()
}

/// One row for each load.
pub(crate) fn at_all_loads(seed: u64) -> Vec<Vec<Run>> {
    LOADS.map(|load| KINDS.map(|kind| run(kind, load, seed)).into()).into()
}

fn run(kind: Kind, load: u32, seed: u64) -> Run {
    super::simulate(LocalSet::new().run_until(world(kind, load, seed)))
}

async fn world(kind: Kind, load: u32, seed: u64) -> Run {
    let began = Instant::now();
    let at = |second: usize| began + Duration::from_secs(second as u64);
    let server = Server::new((at(OUTAGE.0), at(OUTAGE.1)));
    let policy = Policy::builder()
        .attempts(kind.attempts())
        .attempt_timeout(AttemptTimeout::Fixed(TIMEOUT))
        .build()
        .expect("the settings are in range");
    let retry = Retry::new(policy).random(SplitMix::from_seed(seed));
    let destination = Destination::separate("service", kind.budget());
    let run = Run::empty(kind, load);
    let run = Rc::new(RefCell::new(run));
    let arrivals = SplitMix::from_seed(seed ^ u64::from(load));
    let mut calls = Vec::new();
    loop {
        tokio::time::sleep(gap(load, &arrivals)).await;
        if began.elapsed() >= Duration::from_secs(SECONDS as u64) {
            break;
        }
        let call = call(retry.clone(), destination.clone(), server.clone(), began, run.clone());
        calls.push(tokio::task::spawn_local(call));
    }
    for call in calls {
        call.await.expect("a call does not panic");
    }
    run.replace(Run::empty(kind, load))
}

async fn call(
    retry: Retry,
    destination: Destination,
    server: Server,
    began: Instant,
    run: Rc<RefCell<Run>>,
) {
    let second = move || usize::try_from(began.elapsed().as_secs()).expect("it fits");
    let begun = second();
    run.borrow_mut().calls[begun] += 1;
    let classify = |attempted: Attempted<'_, (), Busy>| match attempted {
        Attempted::Answer(()) => Class::answered(),
        _ => Class::transient(Applied::Maybe),
    };
    let attempt = |_| {
        // What is sent after the last second is not plotted.
        if let Some(count) = run.borrow_mut().attempts.get_mut(second()) {
            *count += 1;
        }
        server.handle()
    };
    let outcome = retry.call(&destination, classify, attempt).await;
    let mut run = run.borrow_mut();
    run.attempts_of_calls[begun] += outcome.attempts();
    run.succeeded[begun] += u32::from(matches!(outcome, Outcome::Answered(_)));
}
