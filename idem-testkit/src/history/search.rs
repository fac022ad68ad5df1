//! The search for an order that explains the answers of one key.
//!
//! Between two moments at which no call is open, the order inside does not matter to what comes
//! later: only the states do that it can end in. So the history is cut there, and each piece is
//! searched for **all** its ends, by the method of Wing and Gong with the memory of Lowe: a set
//! of calls that have taken effect, with the state they lead to, is never looked at twice.

use std::collections::HashMap;
use std::time::Duration;

use super::operation::Operation;
use super::spec::{State, apply};

/// More configurations than this in one piece are not looked at.
const MOST: usize = 200_000;

/// What came of a search.
pub(super) enum Explored<'h> {
    Explained,
    TooLarge,
    Unexplained(Unexplained<'h>),
}

/// The piece of a history that no order explains, and what it started from.
#[derive(Clone)]
pub(super) struct Unexplained<'h> {
    pub(super) from: Vec<Config<'h>>,
    pub(super) piece: Vec<&'h Operation>,
}

/// Where a piece may start: a state, and the unknown calls that may still take effect.
#[derive(Clone)]
pub(super) struct Config<'h> {
    pub(super) state: State,
    pub(super) pending: Vec<&'h Operation>,
}

/// Searches the operations of one key, in the order in which they were made.
pub(super) fn explore<'h>(operations: &[&'h Operation], is_swept: bool) -> Explored<'h> {
    let mut frontier = vec![Config { state: State::default(), pending: Vec::new() }];
    for piece in pieces(operations) {
        match ends(&frontier, &piece, is_swept) {
            None => return Explored::TooLarge,
            Some(next) if next.is_empty() => {
                return Explored::Unexplained(Unexplained { from: frontier, piece });
            }
            Some(next) => frontier = next,
        }
    }
    Explored::Explained
}

/// Cut where every call that was answered had been answered before the next one was made.
fn pieces<'h>(operations: &[&'h Operation]) -> Vec<Vec<&'h Operation>> {
    let mut pieces: Vec<Vec<&Operation>> = Vec::new();
    let mut open_until: Option<Duration> = None;
    for operation in operations {
        let quiet = open_until.is_none_or(|until| until < operation.invoked);
        match pieces.last_mut() {
            Some(piece) if !quiet => piece.push(operation),
            _ => pieces.push(vec![operation]),
        }
        if !operation.is_unknown() {
            open_until = open_until.max(operation.returned);
        }
    }
    pieces
}

/// Every configuration that a piece may end in; `None` when there are too many to look at.
pub(super) fn ends<'h>(
    from: &[Config<'h>],
    piece: &[&'h Operation],
    is_swept: bool,
) -> Option<Vec<Config<'h>>> {
    let mut all: Vec<Config<'h>> = Vec::new();
    let mut looked_at = 0;
    for start in from {
        let calls: Vec<&Operation> = start.pending.iter().chain(piece).copied().collect();
        let mut seen: HashMap<Vec<bool>, Vec<State>> = HashMap::new();
        let mut stack = vec![(vec![false; calls.len()], start.state.clone())];
        while let Some((done, state)) = stack.pop() {
            let known = seen.entry(done.clone()).or_default();
            if known.contains(&state) {
                continue;
            }
            known.push(state.clone());
            looked_at += 1;
            if looked_at > MOST {
                return None;
            }
            if calls.iter().zip(&done).all(|(call, done)| *done || call.is_unknown()) {
                keep(&mut all, &calls, &done, &state);
            }
            let first_return = calls
                .iter()
                .zip(&done)
                .filter(|(call, done)| !**done && !call.is_unknown())
                .filter_map(|(call, _)| call.returned)
                .min();
            for (index, call) in calls.iter().enumerate() {
                // What was made after another had been answered comes after it.
                let may_be_next = first_return.is_none_or(|first| call.invoked <= first);
                if done[index] || !may_be_next {
                    continue;
                }
                for next in apply(&state, call, is_swept) {
                    // An unknown call without an effect is as good as one that never arrived.
                    if call.is_unknown() && next == state {
                        continue;
                    }
                    let mut done = done.clone();
                    done[index] = true;
                    stack.push((done, next));
                }
            }
        }
    }
    Some(all)
}

fn keep<'h>(all: &mut Vec<Config<'h>>, calls: &[&'h Operation], done: &[bool], state: &State) {
    let pending: Vec<&Operation> =
        calls.iter().zip(done).filter(|(_, done)| !**done).map(|(call, _)| *call).collect();
    let known = |config: &Config<'_>| {
        config.state == *state
            && config.pending.len() == pending.len()
            && config.pending.iter().zip(&pending).all(|(a, b)| std::ptr::eq(*a, *b))
    };
    if !all.iter().any(known) {
        all.push(Config { state: state.clone(), pending });
    }
}
