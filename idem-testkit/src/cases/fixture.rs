//! The fixture itself: whether it gives what its author declared. It is tried before any other
//! case, and where it fails no other is tried: they would fail one by one, or wait in vain.

use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, setup};
use crate::failure::{CaseResult, Failure};
use crate::fixture::{Connected, Unwritten};

/// Its name, by which a run finds it.
pub(crate) const GIVES_WHAT_IT_DECLARES: &str = "fixture::gives_what_it_declares";

pub(super) fn cases() -> Vec<Case> {
    let about = "what is declared is given, and a clock that is given is declared";
    vec![Case::new(GIVES_WHAT_IT_DECLARES, "the suite's own", about, gives_what_it_declares)]
}

/// Looks at everything that can be seen without a change to the store or its server. What was not
/// declared may be given all the same, and its cases are then ignored; only a clock may not.
///
/// Whether a server can be restarted is left to the cases that do it.
async fn gives_what_it_declares(cx: Context) -> CaseResult {
    let fixture = cx.fixture();
    let connected = fixture.connect().await.map_err(|e| setup("a connection", &e))?;
    let mut mistakes = clock(cx.declares(Capability::SteppedClock), fixture.clock().is_some());
    for (capability, source, is_given) in of_connection(&connected) {
        mistakes.extend(missing(&cx, capability, source, is_given));
    }
    let (processes, address) = (Capability::Processes, fixture.address().is_some());
    mistakes.extend(missing(&cx, processes, "Fixture::address", address));
    mistakes.extend(missing(&cx, processes, "Conformance::attaching", cx.attaches()));
    if cx.declares(Capability::NetworkFaults) {
        let proxied = fixture.connect_through_proxy().await;
        let is_given = !proxied.is_err_and(|error| error.is::<Unwritten>());
        let source = "Fixture::connect_through_proxy";
        mistakes.extend(missing(&cx, Capability::NetworkFaults, source, is_given));
    }
    if cx.declares(Capability::Damage) {
        // There is no such record, so a method that is written has nothing to damage.
        let ask = cx.ask("absent");
        let damaged = fixture.damage(&ask.scope, &ask.key).await;
        let is_given = !damaged.is_err_and(|error| error.is::<Unwritten>());
        mistakes.extend(missing(&cx, Capability::Damage, "Fixture::damage", is_given));
    }
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(Failure::new("a fixture that gives what its capabilities declare", mistakes.join("; ")))
}

/// What a connection gives, and which constructor gives it.
fn of_connection(connected: &Connected) -> [(Capability, &'static str, bool); 3] {
    [
        (Capability::Admin, "Connected::admin", connected.admin.is_some()),
        (
            Capability::Transactions,
            "Connected::with_transactions",
            connected.transactions.is_some(),
        ),
        (Capability::Outbox, "Connected::with_outbox", connected.outbox.is_some()),
    ]
}

fn missing(cx: &Context, capability: Capability, source: &str, is_given: bool) -> Option<String> {
    (cx.declares(capability) && !is_given).then(|| {
        format!(
            "{capability} is declared, and {source} gives nothing: write it, or take \
             `.with(Capability::{capability:?})` out"
        )
    })
}

/// A clock that a test has to move stands still where the suite does not know of it: each case
/// would wait for a lease that never ends.
fn clock(is_declared: bool, is_given: bool) -> Vec<String> {
    match (is_declared, is_given) {
        (true, false) => vec![
            "stepped-clock is declared, and Fixture::clock gives None: have it give the clock that \
             the store judges by, or take `.with(Capability::SteppedClock)` out"
                .to_owned(),
        ],
        (false, true) => vec![
            "Fixture::clock gives a clock, and stepped-clock is not declared, so nothing would \
             move it: add `.with(Capability::SteppedClock)`, or have Fixture::clock give None and \
             the store judge by the machine's clock"
                .to_owned(),
        ],
        _ => Vec::new(),
    }
}
