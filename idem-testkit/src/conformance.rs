//! A run of the suite on one store.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};

use crate::capability::{Capabilities, Capability};
use crate::case::Case;
use crate::cases;
use crate::cases::fixture::GIVES_WHAT_IT_DECLARES;
use crate::clean_up::clean_up;
use crate::context::{Context, setup};
use crate::failure::{CaseResult, Failure};
use crate::fixture::{Connected, Fixture, SetupError};
use crate::random::{Random, case_seed, fresh_seed};
use crate::report::{Broken, CaseReport, Outcome, Report};
use crate::trace::Trace;

/// How long one case may take unless told otherwise.
pub const DEFAULT_CASE_LIMIT: Duration = Duration::from_secs(60);

/// How many cases run at once unless told otherwise.
pub const DEFAULT_JOBS: usize = 4;

/// Names the environment variable that sets the seed of a run.
pub const SEED_VARIABLE: &str = "IDEM_TESTKIT_SEED";

type Open = Arc<dyn Fn() -> BoxFuture<'static, Result<Box<dyn Fixture>, SetupError>> + Send + Sync>;
type Rerun = Arc<dyn Fn(&str, u64) -> String + Send + Sync>;

/// Opens the data at an address, in another process.
pub(crate) type Attach =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<Connected, SetupError>> + Send + Sync>;

/// A store, and how it is to be tried.
///
/// As a test of your crate, with `harness = false`, one line:
///
/// ```
/// # use idem_core::async_trait;
/// # use idem_core::memory::MemoryStore;
/// # use idem_testkit::capability::Capabilities;
/// # use idem_testkit::conformance::Conformance;
/// # use idem_testkit::fixture::{Connected, Fixture, SetupError};
/// struct Fresh(MemoryStore);
///
/// #[async_trait]
/// impl Fixture for Fresh {
///     async fn connect(&self) -> Result<Connected, SetupError> {
///         Ok(Connected::admin(self.0.clone()))
///     }
/// }
///
/// # let main = || {
/// // fn main() -> std::process::ExitCode {
/// Conformance::new("memory", Capabilities::none(), async || Ok(Fresh(MemoryStore::new()))).main()
/// // }
/// # };
/// # let _: &dyn Fn() -> std::process::ExitCode = &main;
/// ```
///
/// As a library: [`run`](Self::run) gives a [`Report`].
#[derive(Clone)]
pub struct Conformance {
    pub(crate) store: String,
    capabilities: Capabilities,
    open: Open,
    pub(crate) attach: Option<Attach>,
    spawns: bool,
    exceptions: BTreeMap<String, String>,
    filter: Option<String>,
    case: Option<String>,
    pub(crate) seed: u64,
    case_limit: Duration,
    jobs: usize,
    rerun: Rerun,
}

impl Conformance {
    /// The suite on a store, by its name, what its fixture offers, and how a fresh one comes
    /// about.
    pub fn new<F, Fut>(
        store: impl Into<String>,
        capabilities: Capabilities,
        open: impl Fn() -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        F: Fixture,
        Fut: Future<Output = Result<F, SetupError>> + Send + 'static,
    {
        Self {
            store: store.into(),
            capabilities,
            open: Arc::new(move || {
                let opening = open();
                async move { Ok(Box::new(opening.await?) as Box<dyn Fixture>) }.boxed()
            }),
            attach: None,
            spawns: false,
            exceptions: BTreeMap::new(),
            filter: None,
            case: None,
            seed: fresh_seed(),
            case_limit: DEFAULT_CASE_LIMIT,
            jobs: DEFAULT_JOBS,
            rerun: Arc::new(|case, seed| format!("run case {case} with seed {seed}")),
        }
    }

    /// Leaves a case out, and says why: it is then shown as ignored with this reason.
    #[must_use]
    pub fn except(mut self, case: impl Into<String>, why: impl Into<String>) -> Self {
        self.exceptions.insert(case.into(), why.into());
        self
    }

    /// For [`Capability::Processes`]: opens the data at a fixture's
    /// [`address`](Fixture::address) from another process.
    #[must_use]
    pub fn attaching<Fut>(mut self, attach: impl Fn(String) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<Connected, SetupError>> + Send + 'static,
    {
        self.attach = Some(Arc::new(move |address| attach(address).boxed()));
        self
    }

    /// Says that this program calls [`worker`](Self::worker) before anything else, so that the
    /// cases that need several processes can start it again.
    #[must_use]
    pub fn spawning_workers(mut self) -> Self {
        self.spawns = true;
        self
    }

    /// Only the cases whose name holds `part`.
    #[must_use]
    pub fn filter(mut self, part: impl Into<String>) -> Self {
        self.filter = Some(part.into());
        self
    }

    /// Only the case of this very name.
    #[must_use]
    pub fn case(mut self, name: impl Into<String>) -> Self {
        self.case = Some(name.into());
        self
    }

    /// The seed of the run; a fresh one unless set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How long one case may take, [`DEFAULT_CASE_LIMIT`] unless set. One that takes longer
    /// failed: a call of the store hangs.
    #[must_use]
    pub fn case_limit(mut self, limit: Duration) -> Self {
        self.case_limit = limit;
        self
    }

    /// How many cases [`run`](Self::run) runs at once, [`DEFAULT_JOBS`] unless set; at least 1.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs.max(1);
        self
    }

    /// How a failure says that one case, with this seed, is run again.
    #[must_use]
    pub fn rerun(mut self, rerun: impl Fn(&str, u64) -> String + Send + Sync + 'static) -> Self {
        self.rerun = Arc::new(rerun);
        self
    }

    /// Runs the cases on a runtime of the caller's, which has to have time and I/O enabled and
    /// should have several threads: on one, fewer races are met.
    ///
    /// Where the fixture does not give what was declared, that is the one result: no other case is
    /// tried.
    ///
    /// # Cancel safety
    /// Fixtures are dropped; on a store that is not isolated records may be left.
    pub async fn run(&self) -> Report {
        self.run_telling(|_| {}).await
    }

    /// [`run`](Self::run), and tells each case as soon as it and those before it have ended.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_telling(&self, mut tell: impl FnMut(&CaseReport)) -> Report {
        let started = Instant::now();
        let mut cases = self.selected();
        let mut reports = Vec::new();
        if !cases.is_empty() {
            let first = self.run_first().await;
            let is_selected = cases.iter().any(|case| case.name() == first.case);
            let has_failed = first.has_failed();
            if is_selected || has_failed {
                tell(&first);
                reports.push(first);
            }
            cases.retain(|case| !has_failed && case.name() != GIVES_WHAT_IT_DECLARES);
        }
        let others = stream::iter(&cases).map(|case| self.run_case(case)).buffered(self.jobs);
        let mut others = std::pin::pin!(others.inspect(|report| tell(report)));
        while let Some(report) = others.next().await {
            reports.push(report);
        }
        Report::new(self.store.clone(), self.seed, millis(started), reports)
    }

    /// Whether any case passes [`filter`](Self::filter) and [`case`](Self::case).
    pub fn selects_any(&self) -> bool {
        !self.selected().is_empty()
    }

    /// A fresh fixture, for tests beside the suite.
    ///
    /// # Errors
    /// When it cannot be had.
    ///
    /// # Cancel safety
    /// As the fixture's own.
    pub async fn fixture(&self) -> Result<Box<dyn Fixture>, SetupError> {
        (self.open)().await
    }

    fn selected(&self) -> Vec<Case> {
        let passes = |case: &Case| {
            self.filter.as_ref().is_none_or(|part| case.name().contains(part))
                && self.case.as_ref().is_none_or(|name| case.name() == name)
        };
        let mut selected = cases::all();
        selected.retain(passes);
        selected
    }

    /// The exceptions that name no case, which is a mistake of their author.
    pub(crate) fn unknown_exceptions(&self) -> Vec<String> {
        let cases = cases::all();
        let unknown = |name: &&String| !cases.iter().any(|case| case.name() == name.as_str());
        self.exceptions.keys().filter(unknown).cloned().collect()
    }

    /// The case that stands before all others: whether the fixture fits its declarations.
    pub(crate) async fn run_first(&self) -> CaseReport {
        let mut cases = cases::all();
        cases.retain(|case| case.name() == GIVES_WHAT_IT_DECLARES);
        self.run_case(&cases[0]).await
    }

    pub(crate) async fn run_case(&self, case: &Case) -> CaseReport {
        let started = Instant::now();
        let outcome = match self.reason_to_ignore(case) {
            Some(reason) => Outcome::Ignored { reason },
            None => self.try_case(case).await,
        };
        CaseReport {
            case: case.name().to_owned(),
            rules: case.rules().to_owned(),
            about: case.about().to_owned(),
            outcome,
            elapsed_ms: millis(started),
        }
    }

    fn reason_to_ignore(&self, case: &Case) -> Option<String> {
        let excepted = self.exceptions.get(case.name()).map(|why| format!("left out: {why}"));
        excepted.or_else(|| self.capabilities.missing(case.needs())).or_else(|| {
            let alone = case.needs().contains(&Capability::Processes) && !self.spawns;
            alone.then(|| "needs processes: this program cannot be started as a worker".to_owned())
        })
    }

    async fn try_case(&self, case: &Case) -> Outcome {
        let trace = Trace::default();
        let attempt = AssertUnwindSafe(self.attempt(case, trace.clone())).catch_unwind();
        let result = match tokio::time::timeout(self.case_limit, attempt).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(Failure::new("no panic", message(&*panic))),
            Err(_) => {
                let expected = format!("an end within {:?}", self.case_limit);
                Err(Failure::new(expected, "a call that had not returned"))
            }
        };
        match result {
            Ok(()) => Outcome::Passed,
            Err(failure) => Outcome::Failed(Broken {
                expected: failure.expected,
                seen: failure.seen,
                seed: self.seed,
                rerun: (self.rerun)(case.name(), self.seed),
                steps: trace.lines(),
            }),
        }
    }

    async fn attempt(&self, case: &Case, trace: Trace) -> CaseResult {
        let fixture = (self.open)().await.map_err(|error| setup("a fresh store", &error))?;
        let context = Context::new(
            fixture,
            self.capabilities.clone(),
            self.attach.is_some(),
            scope_prefix(case),
            case_seed(self.seed, case.name()),
            trace,
        );
        let result = case.run(context.clone()).await;
        if !self.capabilities.has(Capability::Isolated) {
            let cleaned = clean_up(&context).await;
            return result.and(cleaned);
        }
        result
    }
}

impl fmt::Debug for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conformance")
            .field("store", &self.store)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// What the scopes of this case begin with. It is random and not of the seed: two runs with one
/// seed on one store never meet.
fn scope_prefix(case: &Case) -> String {
    let mut run = Random::from_seed(fresh_seed());
    format!("idem-testkit/{:016x}/{}", run.next(), case.name())
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a panic: {}", text.as_deref().unwrap_or("without a message"))
}
