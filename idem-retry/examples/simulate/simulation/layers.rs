//! Three services in a row, each of which retries three times, above one that fails.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_retry::one_layer::{Work, carried};
use idem_retry::random::{SplitMix, up_to};
use idem_retry::{Applied, Attempted, Budget, Class, Destination, Outcome, Policy, Retry};
use tokio::sync::oneshot;

/// Calls for each point of the plot.
pub(crate) const CALLS: u32 = 300;

/// What share of the attempts at the bottom fail, in per cent.
pub(crate) const FAILURE_RATES: [u32; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

/// With one failure rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) failure_rate: u32,
    pub(crate) with_rule: Load,
    pub(crate) without_rule: Load,
}

/// What the service at the bottom got, and how many calls succeeded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) attempts: u32,
    pub(crate) succeeded: u32,
}

impl Load {
    pub(crate) fn attempts_per_call(self) -> f64 {
        f64::from(self.attempts) / f64::from(CALLS)
    }
}

pub(crate) fn at_all_failure_rates(seed: u64) -> Vec<Point> {
    let point = |failure_rate| Point {
        failure_rate,
        with_rule: super::simulate(calls(failure_rate, true, seed)),
        without_rule: super::simulate(calls(failure_rate, false, seed)),
    };
    FAILURE_RATES.map(point).into()
}

async fn calls(failure_rate: u32, has_rule: bool, seed: u64) -> Load {
    let chain = Chain {
        retry: Retry::new(Policy::default()).random(SplitMix::from_seed(seed)),
        // No budget, to see what the layers alone do.
        destination: Destination::separate("next", Budget::unlimited()),
        luck: Arc::new(SplitMix::from_seed(seed)),
        attempts: Arc::new(AtomicU32::new(0)),
        failure_rate,
        has_rule,
    };
    let mut succeeded = 0;
    for _ in 0..CALLS {
        succeeded += u32::from(chain.clone().layer(3).await);
    }
    Load { attempts: chain.attempts.load(Ordering::Relaxed), succeeded }
}

#[derive(Clone)]
struct Chain {
    retry: Retry,
    destination: Destination,
    luck: Arc<SplitMix>,
    attempts: Arc<AtomicU32>,
    failure_rate: u32,
    has_rule: bool,
}

impl Chain {
    /// Calls the layer below, each attempt handled in a task of its own, as servers do.
    fn layer(self, above: u32) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(self.call_below(above))
    }

    async fn call_below(self, above: u32) -> bool {
        if above == 0 {
            self.attempts.fetch_add(1, Ordering::Relaxed);
            let drawn = up_to(Duration::from_nanos(99), &*self.luck).as_nanos();
            return drawn >= u128::from(self.failure_rate);
        }
        let classify = |attempted: Attempted<'_, (), ()>| match attempted {
            Attempted::Answer(()) => Class::answered(),
            _ => Class::transient(Applied::Maybe),
        };
        let attempt = |_| {
            let (answer, answered) = oneshot::channel();
            let below = self.clone();
            let work: Work = Box::pin(async move {
                let _ = answer.send(below.layer(above - 1).await);
            });
            tokio::spawn(if self.has_rule { carried(work) } else { work });
            async { if answered.await == Ok(true) { Ok(()) } else { Err(()) } }
        };
        let outcome = self.retry.call(&self.destination, classify, attempt).await;
        matches!(outcome, Outcome::Answered(_))
    }
}
