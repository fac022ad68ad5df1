//! The smallest part of a history that is already wrong.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::operation::{Answer, Operation};
use super::search::{Unexplained, ends};

/// Answers that no order of the calls explains.
///
/// It shows the smallest window that is already wrong: the state or states in which it may have
/// started, and its calls. Calls that were open when it ends are shown as unknown.
#[derive(Debug, Clone)]
pub struct Violation {
    starts: Vec<String>,
    window: Vec<Operation>,
    /// Left out of the window. None of them explains it either.
    unanswered: Vec<Operation>,
}

impl Violation {
    /// The calls of the window, in the order in which they were made.
    pub fn window(&self) -> &[Operation] {
        &self.window
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no order of these calls explains their answers; it starts from")?;
        for start in &self.starts {
            writeln!(f, "  {start}")?;
        }
        writeln!(f, "and then")?;
        for operation in &self.window {
            writeln!(f, "  {operation}")?;
        }
        if !self.unanswered.is_empty() {
            writeln!(f, "nor does it help that these, never answered, may have taken effect")?;
        }
        for operation in &self.unanswered {
            writeln!(f, "  {operation}")?;
        }
        Ok(())
    }
}

impl Error for Violation {}

/// Cuts a window at the first answer with which it is wrong, and leaves out what is not needed
/// for that.
pub(super) fn smallest(found: Unexplained<'_>, is_swept: bool) -> Violation {
    let wrong = |window: &[Operation]| {
        let calls: Vec<&Operation> = window.iter().collect();
        let from: Vec<_> = found.from.clone();
        ends(&from, &calls, is_swept).is_some_and(|ends| ends.is_empty())
    };
    let mut window: Vec<Operation> = found.piece.iter().copied().cloned().collect();
    for end in returns(&window) {
        let earlier = until(&window, end);
        if wrong(&earlier) {
            window = earlier;
            break;
        }
    }
    let mut unanswered = Vec::new();
    // The last ones first: what is left then is what the first ones led to.
    for index in (0..window.len()).rev() {
        if window[index].changed_nothing() || window[index].is_unknown() {
            let mut fewer = window.clone();
            fewer.remove(index);
            if wrong(&fewer) {
                let left_out = std::mem::replace(&mut window, fewer).remove(index);
                unanswered.extend(Some(left_out).filter(Operation::is_unknown));
            }
        }
    }
    let mut starts: Vec<String> = Vec::new();
    for config in &found.from {
        let mut start = config.state.to_string();
        for pending in &config.pending {
            start.push_str(&format!("; and perhaps still: {pending}"));
        }
        if !starts.contains(&start) {
            starts.push(start);
        }
    }
    unanswered.reverse();
    Violation { starts, window, unanswered }
}

fn returns(window: &[Operation]) -> Vec<Duration> {
    let mut returns: Vec<Duration> = window
        .iter()
        .filter(|operation| !operation.is_unknown())
        .filter_map(|o| o.returned)
        .collect();
    returns.sort();
    returns
}

/// The window as it was known at `end`: what had not been answered yet is unknown.
fn until(window: &[Operation], end: Duration) -> Vec<Operation> {
    let known = window.iter().filter(|operation| operation.invoked <= end).cloned();
    known
        .map(|mut operation| {
            if operation.returned.is_none_or(|returned| returned > end) {
                operation.returned = None;
                operation.answer = Answer::Unknown;
            }
            operation
        })
        .collect()
}
