//! What a case did, so that a failure shows it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How many of the last steps a failure shows.
const KEPT: usize = 60;

/// The last steps of a case, shared by all its connections.
#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Steps>>);

#[derive(Default)]
struct Steps {
    count: usize,
    last: VecDeque<String>,
}

impl Trace {
    pub(crate) fn add(&self, who: &str, what: impl fmt::Display) {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.count += 1;
        if steps.last.len() == KEPT {
            steps.last.pop_front();
        }
        let line = format!("{}. {who}: {what}", steps.count);
        steps.last.push_back(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.last.iter().cloned().collect()
    }
}
