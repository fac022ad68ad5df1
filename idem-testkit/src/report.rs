//! What a run of the suite came to, for a person and for a program.

use std::fmt;

use serde::Serialize;

/// What a run of the suite came to.
///
/// Its JSON form is `{"store", "seed", "passed", "failed", "ignored", "elapsed_ms", "cases": […]}`;
/// fields may be added, none is renamed.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The store's name.
    pub store: String,
    /// The seed of the run.
    pub seed: u64,
    /// How many cases passed.
    pub passed: usize,
    /// How many failed.
    pub failed: usize,
    /// How many could not run on this fixture.
    pub ignored: usize,
    /// How long all of it took, in milliseconds.
    pub elapsed_ms: u64,
    /// Each case that the filter let pass, in the suite's order.
    pub cases: Vec<CaseReport>,
}

/// What one case came to.
#[derive(Debug, Clone, Serialize)]
pub struct CaseReport {
    /// Its name.
    pub case: String,
    /// The rules that it holds a store to.
    pub rules: String,
    /// What has to hold.
    pub about: String,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// How a case ended.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The store keeps the promise, as far as this case can tell.
    Passed,
    /// It does not.
    Failed(Broken),
    /// It was not tried.
    Ignored {
        /// What is missing.
        reason: String,
    },
}

/// How a promise was seen broken.
#[derive(Debug, Clone, Serialize)]
pub struct Broken {
    /// What the rule asks for.
    pub expected: String,
    /// What the store did.
    pub seen: String,
    /// The seed of the run; the case's own follows from it.
    pub seed: u64,
    /// How to run this case alone again.
    pub rerun: String,
    /// The last calls and answers before it.
    pub steps: Vec<String>,
}

impl CaseReport {
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

impl Report {
    pub(crate) fn new(store: String, seed: u64, elapsed_ms: u64, cases: Vec<CaseReport>) -> Self {
        let count = |wanted: fn(&Outcome) -> bool| {
            cases.iter().filter(|case| wanted(&case.outcome)).count()
        };
        Self {
            store,
            seed,
            passed: count(|outcome| matches!(outcome, Outcome::Passed)),
            failed: count(|outcome| matches!(outcome, Outcome::Failed(_))),
            ignored: count(|outcome| matches!(outcome, Outcome::Ignored { .. })),
            elapsed_ms,
            cases,
        }
    }

    /// Whether no case failed, and at least one was tried: a run of nothing proves nothing.
    pub fn is_conformant(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = &CaseReport> {
        self.cases.iter().filter(|case| case.has_failed())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            match &case.outcome {
                Outcome::Passed => writeln!(f, "ok       {}", case.case)?,
                Outcome::Ignored { reason } => {
                    writeln!(f, "ignored  {} ({reason})", case.case)?;
                }
                Outcome::Failed(_) => writeln!(f, "FAILED   {case}")?,
            }
        }
        writeln!(
            f,
            "{}: {} passed, {} failed, {} ignored; seed {}; {} ms",
            self.store, self.passed, self.failed, self.ignored, self.seed, self.elapsed_ms
        )
    }
}

impl fmt::Display for CaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.case)?;
        if let Outcome::Failed(broken) = &self.outcome {
            writeln!(f)?;
            writeln!(f, "  rule:     {} — {}", self.rules, self.about)?;
            write!(f, "{broken}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  expected: {}", self.expected)?;
        writeln!(f, "  seen:     {}", self.seen)?;
        writeln!(f, "  seed:     {}", self.seed)?;
        writeln!(f, "  rerun:    {}", self.rerun)?;
        if !self.steps.is_empty() {
            writeln!(f, "  steps:")?;
        }
        for step in &self.steps {
            writeln!(f, "    {step}")?;
        }
        Ok(())
    }
}
