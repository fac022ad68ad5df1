//! Changed SQL: a small right store whose statements decide, and what comes of changing them.
//!
//! It is a store of the tests, on SQLite, and not idem's own one: that one asks the pure rules
//! under its lock, so that hardly any of its conditions can be wrong, and it needs no switches for
//! wrong ones. Here every condition stands in a statement, as in a store for a database of several
//! writers, and a mistake is a part of one statement replaced by another.

mod mistakes;
mod row;
mod statements;
mod store;

use std::sync::Arc;

use idem_core::async_trait;
use idem_core::time::{Clock, ManualClock};
use idem_testkit::broken::BrokenStore;
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::fixture::{Connected, Fixture, SetupError, SteppedClock};
use tempfile::TempDir;

use statements::Statements;
use store::SqlStore;

/// The suite on the right statements.
pub(crate) fn right() -> Conformance {
    suite("right-sql", Statements::right())
}

/// The suites on the changed ones.
pub(crate) fn stores() -> Vec<BrokenStore> {
    mistakes::all().into_iter().map(broken).collect()
}

fn broken(changed: mistakes::Changed) -> BrokenStore {
    let mistakes::Changed { name, mistake, rules, caught_by, statement, from, to } = changed;
    let mut statements = Statements::right();
    let text = statement(&mut statements);
    assert!(text.contains(from), "{name}: {from:?} does not stand in {text:?}");
    *text = text.replace(from, to);
    BrokenStore::planted(name, mistake, rules, caught_by, move || suite(name, statements.clone()))
}

fn suite(name: &'static str, statements: Statements) -> Conformance {
    let offered = Capabilities::none().with(Capability::Isolated).with(Capability::SteppedClock);
    Conformance::new(name, offered, move || {
        let statements = statements.clone();
        async move { Ok(Fresh { directory: tempfile::tempdir()?, statements, clock: Arc::default() }) }
    })
}

/// A file in a directory of its own, which goes with it.
struct Fresh {
    directory: TempDir,
    statements: Statements,
    clock: Arc<ManualClock>,
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        let path = self.directory.path().join("records.db");
        let clock = self.clock.clone() as Arc<dyn Clock>;
        Ok(Connected::store(SqlStore::open(&path, self.statements.clone(), clock).await?))
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        Some(self.clock.clone())
    }
}
