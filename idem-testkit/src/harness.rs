//! The suite as a test binary of its own: each case a named test.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Trial};
use tokio::runtime::{Builder, Runtime};

use crate::case::Case;
use crate::cases;
use crate::cases::fixture::GIVES_WHAT_IT_DECLARES;
use crate::conformance::{Conformance, SEED_VARIABLE};
use crate::report::Outcome;

impl Conformance {
    /// The `main` of a test file with `harness = false`: understands what `cargo test` passes on,
    /// as in `cargo test --test conformance -- races::`.
    ///
    /// A case that the fixture cannot run is shown as ignored with the reason. Where the fixture
    /// does not give what was declared, that is the one result, whatever was selected. The seed is taken
    /// from [`SEED_VARIABLE`] where that is set.
    pub fn main(self) -> ExitCode {
        if let Some(done) = self.worker() {
            return done;
        }
        let mut arguments = Arguments::from_args();
        let suite = match self.prepared() {
            Ok(suite) => Arc::new(suite),
            Err(mistake) => {
                eprintln!("{mistake}");
                return ExitCode::from(101);
            }
        };
        let runtime = match Builder::new_multi_thread().worker_threads(4).enable_all().build() {
            Ok(runtime) => Arc::new(runtime),
            Err(error) => {
                eprintln!("no runtime: {error}");
                return ExitCode::from(101);
            }
        };
        if !arguments.list {
            println!("idem-testkit on {}: {SEED_VARIABLE}={}", suite.store, suite.seed);
        }
        let mut cases = cases::all();
        // Nothing else is worth a try on a fixture that is not what it says, whatever was asked for.
        if !arguments.list && runtime.block_on(suite.run_first()).has_failed() {
            cases.retain(|case| case.name() == GIVES_WHAT_IT_DECLARES);
            arguments = Arguments { test_threads: arguments.test_threads, ..Arguments::default() };
        }
        let trials = cases.into_iter().map(|case| trial(case, &suite, &runtime)).collect();
        libtest_mimic::run(&arguments, trials).exit_code()
    }

    fn prepared(self) -> Result<Self, String> {
        if let Some(unknown) = self.unknown_exceptions().first() {
            return Err(format!("the exception for {unknown:?} names no case of the suite"));
        }
        let suite = self.rerun(rerun).spawning_workers();
        match std::env::var(SEED_VARIABLE) {
            Err(_) => Ok(suite),
            Ok(text) => match text.parse() {
                Ok(seed) => Ok(suite.seed(seed)),
                Err(_) => Err(format!("{SEED_VARIABLE} is not a number: {text:?}")),
            },
        }
    }
}

fn trial(case: Case, suite: &Arc<Conformance>, runtime: &Arc<Runtime>) -> Trial {
    let (suite, runtime) = (suite.clone(), runtime.clone());
    Trial::ignorable_test(case.name().to_owned(), move || {
        let report = runtime.block_on(suite.run_case(&case));
        match &report.outcome {
            Outcome::Passed => Ok(Completion::Completed),
            Outcome::Ignored { reason } => Ok(Completion::ignored_with(reason)),
            Outcome::Failed(_) => Err(report.to_string().into()),
        }
    })
}

/// The command that runs one case again, as far as it can be told from inside.
fn rerun(case: &str, seed: u64) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "PACKAGE".to_owned());
    let test = test_name().unwrap_or_else(|| "conformance".to_owned());
    format!("{SEED_VARIABLE}={seed} cargo test -p {package} --test {test} -- --exact {case}")
}

/// Cargo calls the binary `name-hash`.
fn test_name() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    let stem = path.file_stem()?.to_str()?;
    Some(stem.rsplit_once('-').map_or(stem, |(name, _)| name).to_owned())
}
