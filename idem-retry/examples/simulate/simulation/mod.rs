//! The simulation, as its command and its test use it.

mod layers;
mod outage;
mod page;
mod server;
mod svg;

use std::time::Duration;

use idem_retry::random::{SplitMix, up_to};
use tokio::runtime::Builder;

/// The seed of the files in `docs/`.
pub(crate) const SEED: u64 = 2_026;

/// The files, by their path in `docs/`.
pub(crate) fn files(seed: u64) -> Vec<(&'static str, String)> {
    let outages = outage::at_one_load(seed);
    let loads = outage::at_all_loads(seed);
    let layers = layers::at_all_failure_rates(seed);
    vec![
        ("retry-simulation.md", page::page(seed, &outages, &loads, &layers)),
        ("retry-simulation/attempts.svg", page::attempts_plot(&outages)),
        ("retry-simulation/successes.svg", page::successes_plot(&outages)),
        ("retry-simulation/layers.svg", page::layers_plot(&layers)),
    ]
}

/// Runs on one thread, on time that passes only when everything waits.
fn simulate<F: Future>(world: F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime on one thread").block_on(world)
}

/// The gap before the next call, when so many come in a second.
fn gap(calls_per_second: u32, random: &SplitMix) -> Duration {
    up_to(Duration::from_secs(2) / calls_per_second, random)
}
