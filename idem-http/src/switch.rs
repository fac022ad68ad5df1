//! A switch that turns the protection of an operation off and on while the service runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kill switch of a layer. Clones are the same switch.
///
/// While it is off, requests pass as if the layer were not there: **nothing is claimed, and two
/// copies of a request both run**. Their responses say `Idempotency-Stored: false`, and each one is
/// logged as a warning. A handler that takes its execution (`Exec`) cannot run then and answers
/// 500.
///
/// ```
/// use idem_http::Switch;
///
/// let switch = Switch::new();
/// let held_by_an_operator = switch.clone();
/// assert!(switch.is_on());
/// held_by_an_operator.turn_off();
/// assert!(!switch.is_on());
/// ```
#[derive(Debug, Clone)]
pub struct Switch(Arc<AtomicBool>);

impl Switch {
    /// A switch that is on.
    pub fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Turns the protection off, for requests that come from now on.
    pub fn turn_off(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Turns the protection on.
    pub fn turn_on(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether requests are protected.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Default for Switch {
    fn default() -> Self {
        Self::new()
    }
}
