//! An exhaustive search through the small states of the rules as they are built: two or three
//! callers of one key, a store whose requests are lost, late or delivered twice, pauses, crashes
//! (a caller that is never scheduled again), lapse, expiry, a sweeper and a reconciler.
//!
//! Breadth first, so that the trace of a violation is a shortest one. It covers every state within
//! the stated budgets: evidence, not proof. That it can find anything is shown by switching rules
//! off, one by one (`mutants`).

mod cell;
mod ghost;
mod model;
mod mutants;
mod rules;
mod scenarios;

use std::collections::HashSet;
use std::fmt;

use model::{Action, Model, Node};

/// What a search came to.
struct Found {
    states: usize,
    violation: Option<Violation>,
}

/// A promise that was broken, and the shortest way there.
struct Violation {
    broken: &'static str,
    trace: Vec<Action>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, after", self.broken)?;
        self.trace.iter().try_for_each(|line| writeln!(f, "    {line:?}"))
    }
}

/// No scenario has more states; one that grows past it says so instead of running for ever.
const MOST_STATES: usize = 400_000;

/// Visits every state that the model can reach, until a promise is broken.
fn search(model: &Model) -> Found {
    let start = model.start();
    let mut seen = HashSet::from([start.clone()]);
    let mut states = vec![(start, 0, Action::Start)];
    let mut next = 0;
    while next < states.len() {
        let node = states[next].0.clone();
        for (action, after) in model.actions(&node) {
            match after {
                Ok(after) => {
                    if seen.insert(after.clone()) {
                        states.push((after, next, action));
                    }
                }
                Err(broken) => {
                    let trace = trace(&states, next, action);
                    let violation = Some(Violation { broken, trace });
                    return Found { states: states.len(), violation };
                }
            }
        }
        assert!(states.len() < MOST_STATES, "the scenario has too many states to search them all");
        next += 1;
    }
    Found { states: states.len(), violation: None }
}

fn trace(states: &[(Node, usize, Action)], mut at: usize, last: Action) -> Vec<Action> {
    let mut trace = vec![last];
    while at != 0 {
        let (_, before, action) = &states[at];
        trace.push(*action);
        at = *before;
    }
    trace.reverse();
    trace
}

#[test]
fn no_promise_is_broken_in_any_state() {
    for scenario in scenarios::all() {
        let found = search(&Model::of(scenario, None));
        println!("{}: {} states", scenario.name, found.states);
        if let Some(violation) = found.violation {
            panic!("{}: {violation}", scenario.name);
        }
    }
}
