//! The kill matrix: which store is caught by which case, written to `docs/` and kept current.
//!
//! `IDEM_TESTKIT_MATRIX=write` writes the file; without it the test compares.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use idem_testkit::broken::{self, BrokenStore};
use idem_testkit::{Case, cases};
use libtest_mimic::{Failed, Trial};
use tokio::runtime::Runtime;

use crate::catalogue::numbers;
use crate::sql;

/// Names the environment variable that has the file written.
const VARIABLE: &str = "IDEM_TESTKIT_MATRIX";

/// The sections whose cases make one call after the other, so that what they catch is the same in
/// every run. The others race, lose connections, drop calls, wait, or choose at random.
const STEADY: [&str; 11] = [
    "table", "verbs", "boundary", "instant", "keys", "data", "paging", "sweep", "admin", "damage",
    "secrets",
];

/// Their cases that race or choose at random all the same.
const UNSTEADY: [&str; 1] = ["sweep::concurrent_sweepers"];

pub(crate) fn trial(runtime: &Arc<Runtime>) -> Trial {
    let runtime = runtime.clone();
    Trial::test("kill_matrix::is_current", move || runtime.block_on(is_current()))
}

async fn is_current() -> Result<(), Failed> {
    let library = kills(broken::catalogue()).await;
    let page = page(&library, &kills(sql::stores()).await);
    if std::env::var(VARIABLE).is_ok_and(|value| value == "write") {
        std::fs::write(path(), page)?;
        return Ok(());
    }
    let written = std::fs::read_to_string(path())?;
    let (old, new): (BTreeSet<_>, BTreeSet<_>) =
        (written.lines().collect(), page.lines().collect());
    if written == page {
        return Ok(());
    }
    let mut message = format!("{} is not current: {COMMAND} writes it\n", path().display());
    for line in old.difference(&new) {
        writeln!(message, "- {line}").expect("a string takes any text");
    }
    for line in new.difference(&old) {
        writeln!(message, "+ {line}").expect("a string takes any text");
    }
    Err(message.into())
}

const COMMAND: &str = "IDEM_TESTKIT_MATRIX=write cargo test -p idem-testkit --test broken_stores \
     kill_matrix";

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/testkit-kill-matrix.md"))
}

/// One row: a store, and steady cases that catch it beside the one that is named for it.
struct Kills {
    store: BrokenStore,
    others: Vec<String>,
}

/// No more of the other cases than this are looked for.
const MOST: usize = 6;

/// Some cases draw the bytes that they store.
const SEED: u64 = 1;

async fn kills(stores: Vec<BrokenStore>) -> Vec<Kills> {
    stream::iter(stores).map(kills_of).buffered(4).collect().await
}

async fn kills_of(store: BrokenStore) -> Kills {
    let mut others = Vec::new();
    for case in related(&store) {
        if others.len() < MOST {
            let suite = store.conformance().case(&*case).seed(SEED);
            let is_caught = suite.run().await.failures().any(|failed| failed.case == case);
            others.extend(is_caught.then_some(case));
        }
    }
    Kills { store, others }
}

/// The other steady cases about the rules that a store breaks. None for a store whose own case is
/// not steady: neither would be what the others find.
fn related(store: &BrokenStore) -> Vec<String> {
    let steady = |case: &Case| STEADY.contains(&case.section()) && !UNSTEADY.contains(&case.name());
    let cases = cases::all();
    if !cases.iter().any(|case| case.name() == store.caught_by() && steady(case)) {
        return Vec::new();
    }
    let broken = numbers(store.rules());
    let related = cases.iter().filter(|case| {
        steady(case)
            && case.name() != store.caught_by()
            && !numbers(case.rules()).is_disjoint(&broken)
    });
    related.map(|case| case.name().to_owned()).collect()
}

fn page(library: &[Kills], sql: &[Kills]) -> String {
    let mut page = INTRODUCTION.replace("{stores}", &(library.len() + sql.len()).to_string());
    page.push_str(LIBRARY);
    rows(&mut page, library);
    page.push_str(SQL);
    rows(&mut page, sql);
    page
}

fn rows(page: &mut String, kills: &[Kills]) {
    page.push_str(
        "| store | what is wrong | rules | caught by | and by |\n|---|---|---|---|---|\n",
    );
    for Kills { store, others } in kills {
        let named: Vec<String> = others.iter().map(|case| format!("`{case}`")).collect();
        let (name, mistake, rules) = (store.name(), store.mistake(), store.rules());
        let (caught_by, others) = (store.caught_by(), named.join(", "));
        writeln!(page, "| `{name}` | {mistake} | {rules} | `{caught_by}` | {others} |")
            .expect("a string takes any text");
    }
}

const INTRODUCTION: &str = "\
# The testkit's kill matrix

A suite that a wrong store passes is worth nothing, so the suite of `idem-testkit` is itself tested:
on {stores} stores that are wrong in one known way each, and on right ones. Every wrong store is
caught by the case that is named for it, and that case is about a rule that the store breaks. No case
fails on a right store: on the one that the wrong ones are made from, on the same behind a
connection, on the one with an outbox, on the one with SQL, and on two that are right and slow.

```sh
cargo test -p idem-testkit --test broken_stores
```

runs all of that, each store a test of its own. It also works this page out again and fails where the
page is not current. This writes it:

```sh
IDEM_TESTKIT_MATRIX=write cargo test -p idem-testkit --test broken_stores kill_matrix
```

*And by* names other cases about the same rules that catch the store too, six at most. They are of
the sections in which one call follows the other, and what those catch is the same in every run.
Where nothing stands there, such a store gets past every one of them but its own. The column is left
empty for a store whose own case races, loses connections, drops calls, waits for somebody or chooses
at random (`races`, `processes`, `transactions`, `outbox`, `drops`, `network`, `restart`, `model`,
`history`): what else catches it is not the same in every run. Those sections catch many of the other
stores as well.
";

const LIBRARY: &str = "
## Wrappers

A right store in memory, with one thing changed (`idem-testkit/src/broken`). Some stand behind a
connection, so that the network can do what it does.

";

const SQL: &str = "
## Changed SQL

A small right store on SQLite whose statements decide by themselves, with a part of one statement
changed (`idem-testkit/tests/broken_stores/sql`). It is a store of the tests and not `idem-sqlite`:
that one asks the pure rules under its lock, so hardly any of its conditions could be wrong, and it
is no place for switches that make it wrong. The conditions here are those of a store on a database
of several writers.

";
