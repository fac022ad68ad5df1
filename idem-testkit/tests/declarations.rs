//! A fixture that does not give what was declared is refused as a whole, at once, with one result
//! that says what to change.

use std::process::{Command, ExitCode};
use std::sync::Arc;

use idem_core::async_trait;
use idem_core::memory::MemoryStore;
use idem_core::time::{Clock, ManualClock};
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::fixture::{Connected, Fixture, SetupError, SteppedClock};
use idem_testkit::memory::MemoryFixture;
use idem_testkit::report::{Outcome, Report};
use libtest_mimic::{Arguments, Failed, Trial};

const CASE: &str = "fixture::gives_what_it_declares";

/// Makes this program the test of somebody who forgot to declare the clock.
const MISTAKEN: &str = "IDEM_TESTKIT_MISTAKEN";

fn main() -> ExitCode {
    if std::env::var_os(MISTAKEN).is_some() {
        return clock_undeclared().main();
    }
    let mut trials: Vec<Trial> = mistakes().into_iter().map(trial).collect();
    trials.push(Trial::test("all_mistakes_are_named_at_once", all_at_once));
    trials.push(Trial::test("what_is_not_declared_may_be_given_but_a_clock", undeclared));
    trials.push(Trial::test("a_right_fixture_is_tried_with_the_rest", right));
    trials.push(Trial::test("a_test_binary_ends_with_one_failure_whatever_is_selected", binary));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A name, a suite on a fixture with one mistake, and what its failure has to say.
type Mistake = (&'static str, Conformance, [&'static str; 2]);

fn mistakes() -> Vec<Mistake> {
    use Capability as C;
    let stepped = (C::SteppedClock, "Fixture::clock gives None");
    let gives_nothing = [
        (C::Admin, "Connected::admin gives nothing"),
        (C::Transactions, "Connected::with_transactions gives nothing"),
        (C::Outbox, "Connected::with_outbox gives nothing"),
        (C::NetworkFaults, "Fixture::connect_through_proxy gives nothing"),
        (C::Processes, "Fixture::address gives nothing"),
        (C::Damage, "Fixture::damage gives nothing"),
    ];
    let mut mistakes: Vec<Mistake> = [stepped]
        .into_iter()
        .chain(gives_nothing)
        .map(|(declared, says)| {
            (declared.name(), suite([declared], Bare::default()), [says, "out"])
        })
        .collect();
    let attaches_not = Bare { address: true, ..Bare::default() };
    let says = ["Conformance::attaching gives nothing", "`.with(Capability::Processes)` out"];
    mistakes.push(("processes without attaching", suite([C::Processes], attaches_not), says));
    let says = ["stepped-clock is not declared", "add `.with(Capability::SteppedClock)`"];
    mistakes.push(("a clock that is not declared", clock_undeclared(), says));
    let declined = Capabilities::none().without(C::SteppedClock, "it is for the demo");
    let declined = Conformance::new("bare", declined, async || Ok(Bare::stepped()));
    mistakes.push(("a clock that is declined", declined, says));
    mistakes
}

fn trial((name, suite, says): Mistake) -> Trial {
    Trial::test(format!("refused::{name}"), move || {
        // The filter lets others pass, and not this one.
        let report = run(suite.filter("races::"));
        let seen = refusal(&report)?;
        match says.iter().find(|part| !seen.contains(**part)) {
            Some(part) => Err(format!("{part:?} is not in {seen:?}").into()),
            None => Ok(()),
        }
    })
}

fn all_at_once() -> Result<(), Failed> {
    let declared = [Capability::SteppedClock, Capability::Admin, Capability::Outbox];
    let report = run(suite(declared, Bare::default()));
    let seen = refusal(&report)?;
    check(seen.matches("is declared").count() == 3, seen)
}

/// Who begins with little declares more later.
fn undeclared() -> Result<(), Failed> {
    let open = async || Ok(MemoryFixture::on_real_time());
    let report = run(Conformance::new("memory", Capabilities::none(), open).filter("admin::list"));
    check(report.failed == 0 && report.ignored > 3, &report.to_string())
}

fn right() -> Result<(), Failed> {
    let report = run(MemoryFixture::conformance().filter("table::"));
    check(report.is_conformant() && report.cases.len() > 10, &report.to_string())?;
    check(report.cases.iter().all(|case| case.case != CASE), "it was not selected")?;
    let report = run(MemoryFixture::conformance().case(CASE));
    check(report.passed == 1 && report.cases.len() == 1, &report.to_string())?;
    let all = run(MemoryFixture::conformance().filter("_it_"));
    check(all.cases[0].case == CASE && all.cases.len() == 2, &all.to_string())
}

fn binary() -> Result<(), Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.env(MISTAKEN, "yes").args(["--exact", "races::none"]).output()?;
    let said = String::from_utf8(output.stdout)?;
    check(output.status.code() == Some(101), &format!("{:?}: {said}", output.status))?;
    check(said.contains("add `.with(Capability::SteppedClock)`"), &said)?;
    check(said.contains("0 passed; 1 failed; 0 ignored"), &said)
}

/// The one result of a refused run, as what was seen.
fn refusal(report: &Report) -> Result<&str, Failed> {
    match report.cases.as_slice() {
        [only] if only.case == CASE => match &only.outcome {
            Outcome::Failed(broken) => Ok(&broken.seen),
            other => Err(format!("it is not refused: {other:?}").into()),
        },
        _ => Err(format!("not one result: {report}").into()),
    }
}

fn run(suite: Conformance) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(suite.run())
}

fn check(holds: bool, message: &str) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message.into()) }
}

fn clock_undeclared() -> Conformance {
    Conformance::new("bare", Capabilities::none(), async || Ok(Bare::stepped()))
}

fn suite(declared: impl IntoIterator<Item = Capability>, fixture: Bare) -> Conformance {
    let declared = declared.into_iter().fold(Capabilities::none(), Capabilities::with);
    Conformance::new("bare", declared, move || {
        let fixture = fixture.clone();
        async move { Ok(fixture) }
    })
}

/// The eight verbs, and only what a test adds.
#[derive(Clone, Default)]
struct Bare {
    store: MemoryStore,
    clock: Option<Arc<ManualClock>>,
    address: bool,
}

impl Bare {
    fn stepped() -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::with_clock(clock.clone() as Arc<dyn Clock>);
        Self { store, clock: Some(clock), address: false }
    }
}

#[async_trait]
impl Fixture for Bare {
    async fn connect(&self) -> Result<Connected, SetupError> {
        Ok(Connected::store(self.store.clone()))
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        self.clock.clone().map(|clock| clock as Arc<dyn SteppedClock>)
    }

    fn address(&self) -> Option<String> {
        self.address.then(|| "here".to_owned())
    }
}
