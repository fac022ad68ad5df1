//! The suite's own test: every broken store is caught by the case named for it, no right one by
//! any, and the kill matrix in `docs/` says so.
//!
//! Each store is a named test: `cargo test -p idem-testkit --test broken_stores -- takeover`.

mod catalogue;
mod matrix;
mod sql;

use std::process::ExitCode;
use std::sync::Arc;

use idem_testkit::broken::{self, BrokenStore};
use idem_testkit::conformance::Conformance;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Many of them wait more than they work.
    arguments.test_threads = arguments.test_threads.or(Some(4));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = Arc::new(runtime.expect("a runtime"));
    let mut trials: Vec<Trial> = Vec::new();
    for (name, suite) in right() {
        let runtime = runtime.clone();
        trials.push(Trial::test(format!("right::{name}"), move || runtime.block_on(passes(suite))));
    }
    for store in stores() {
        let (name, runtime) = (format!("broken::{}", store.name()), runtime.clone());
        trials.push(Trial::test(name, move || runtime.block_on(is_caught(&store))));
    }
    trials.extend(catalogue::trials());
    trials.push(matrix::trial(&runtime));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The stores that no case may fail on.
fn right() -> [(&'static str, Conformance); 6] {
    [
        ("in_memory", broken::right()),
        ("behind_a_connection", broken::right_behind_a_connection()),
        ("with_an_outbox", broken::right_with_an_outbox()),
        ("with_sql", sql::right()),
        ("but_slow", broken::right_but_slow()),
        ("but_slow_in_real_time", broken::right_but_slow_in_real_time()),
    ]
}

/// Every broken store: those of the library, and those with changed SQL.
fn stores() -> Vec<BrokenStore> {
    [broken::catalogue(), sql::stores()].concat()
}

async fn passes(suite: Conformance) -> Result<(), Failed> {
    let report = suite.jobs(8).run().await;
    if report.is_conformant() {
        println!("{}: {} passed, {} ignored", report.store, report.passed, report.ignored);
        return Ok(());
    }
    let failures: Vec<String> = report.failures().map(ToString::to_string).collect();
    Err(failures.join("\n").into())
}

async fn is_caught(store: &BrokenStore) -> Result<(), Failed> {
    let report = store.conformance().case(store.caught_by()).run().await;
    if report.failures().any(|failed| failed.case == store.caught_by()) {
        return Ok(());
    }
    let seed = report.seed;
    Err(format!("{} lets it pass (seed {seed}): {}", store.caught_by(), store.mistake()).into())
}
